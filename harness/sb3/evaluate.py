"""How a Stable-Baselines3 model does on the target, which its training need not show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula

if TYPE_CHECKING:
    import gymnasium
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True)
class TargetScores:
    """Episodes on contexts of the target distribution.

    Attributes:
        contexts: What was asked for, (n, d).
        returns: Undiscounted return of each episode, (n,).
        lengths: Steps of each episode, (n,).
    """

    contexts: NDArray[np.float64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())


def evaluate_on_target(
    model: BaseAlgorithm,
    env: gymnasium.Env[Any, Any],
    curriculum: curricula.Curriculum,
    *,
    episodes: int = 100,
    seed: int = 0,
    deterministic: bool = True,
) -> TargetScores:
    """Plays episodes on contexts of the curriculum's target, the same ones for every model.

    Args:
        model: A trained model; observations are normalised as in its training.
        env: One environment that takes `options={"context": c}`, wrapped or not.
        curriculum: Whose target is meant.
        episodes: How many.
        seed: Of contexts and environment.
        deterministic: Whether the policy takes its most likely action.
    """
    contexts = curriculum.target.sample(episodes, np.random.default_rng(seed))
    low, high = curriculum.bounds or (-np.inf, np.inf)
    normalised = model.get_vec_normalize_env()
    returns, lengths = np.zeros(episodes), np.zeros(episodes, dtype=np.int64)
    for i, context in enumerate(contexts):
        options = {"context": np.clip(context, low, high)}
        obs, _ = env.reset(seed=seed if i == 0 else None, options=options)
        done = False
        while not done:
            if normalised is not None:
                obs = normalised.normalize_obs(obs)
            action, _ = model.predict(obs, deterministic=deterministic)
            obs, reward, terminated, truncated, _ = env.step(action)
            returns[i] += float(reward)
            lengths[i] += 1
            done = terminated or truncated
    return TargetScores(contexts, returns, lengths)
