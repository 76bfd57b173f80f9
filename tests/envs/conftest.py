"""Tools that the tests of environments share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from pacebench import envs


@pytest.fixture(params=envs.names())
def name(request: pytest.FixtureRequest) -> str:
    """Every registered setup, ours and those of installed packages."""
    return str(request.param)


def shortened(name: str, horizon: int) -> envs.Setup:
    """The same task, truncated earlier."""
    return replace(envs.setup(name), horizon=horizon)


def contexts_of(setup: envs.Setup, n: int, seed: int, which: str = "initial") -> np.ndarray:
    mean = getattr(setup, f"{which}_mean")
    scale = np.sqrt(getattr(setup, f"{which}_variance"))
    return np.random.default_rng(seed).normal(mean, scale, (n, setup.dim))


def random_actions(name: str, steps: int, n: int, seed: int) -> np.ndarray:
    box = envs.environment(name).action_box
    return np.random.default_rng(seed).uniform(box.low, box.high, (steps, n, box.shape[0]))


@dataclass
class Trajectory:
    """All that one copy returned, episode after episode."""

    obs: list[np.ndarray] = field(default_factory=list)
    final_obs: list[np.ndarray] = field(default_factory=list)
    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def same_as(self, other: Trajectory) -> bool:
        return (
            len(self.steps) == len(other.steps)
            and np.array_equal(np.array(self.obs), np.array(other.obs))
            and np.array_equal(np.array(self.final_obs), np.array(other.final_obs))
            and self.steps == other.steps
        )


def play_single(
    setup: str | envs.Setup,
    seed: int | SeedSequence,
    contexts: np.ndarray,
    actions: np.ndarray,
    env: envs.ContextualEnv | None = None,
) -> Trajectory:
    """Steps one environment; episode after episode takes the next of `contexts` (k, d)."""
    env = env or envs.make(setup)
    episode = 0
    first, _ = env.reset(seed=seed, options={"context": contexts[0]})
    trajectory = Trajectory(obs=[first])
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        trajectory.final_obs.append(obs)
        over = terminated or truncated
        flags = (reward, terminated, truncated, info["success"] and over, info["elapsed"])
        trajectory.steps.append((*flags, *info["context"], *info["clipped_context"]))
        if over:
            episode += 1
            obs, _ = env.reset(options={"context": contexts[episode % len(contexts)]})
        trajectory.obs.append(obs)
    return trajectory


def play_batch(
    setup: str | envs.Setup, seed: Any, contexts: np.ndarray, actions: np.ndarray
) -> list[Trajectory]:
    """Steps a batch with auto-reset; copy i takes the next of `contexts[i]` (k, d)."""
    n = actions.shape[1]
    episodes = np.zeros(n, dtype=int)

    def source(indices: np.ndarray) -> np.ndarray:
        episodes[indices] += 1
        return contexts[indices, episodes[indices] % contexts.shape[1]]

    batch = envs.make_batch(setup, n, seed, source)
    first = batch.reset(contexts[:, 0])
    trajectories = [Trajectory(obs=[row]) for row in first]
    for action in actions:
        obs, reward, terminated, truncated, info = batch.step(action)
        for i, trajectory in enumerate(trajectories):
            over = bool(terminated[i] or truncated[i])
            trajectory.obs.append(obs[i])
            trajectory.final_obs.append(info["final_obs"][i])
            trajectory.steps.append(
                (
                    float(reward[i]),
                    bool(terminated[i]),
                    bool(truncated[i]),
                    bool(info["success"][i]) and over,
                    int(info["elapsed"][i]),
                    *info["context"][i],
                    *info["clipped_context"][i],
                )
            )
    return trajectories
