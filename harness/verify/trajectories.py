"""Episodes of single and batched environments, step by step, to be compared bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.random import SeedSequence

from pacebench import envs
from pacebench.envs.arrays import Floats, Indices


@dataclass
class Trajectory:
    """All that one copy returned, episode after episode."""

    obs: list[Floats] = field(default_factory=list)
    final_obs: list[Floats] = field(default_factory=list)
    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def same_as(self, other: Trajectory, *, but_for_contexts: bool = False) -> bool:
        """Whether two are equal to the last bit."""
        cut = 5 if but_for_contexts else None
        return (
            len(self.steps) == len(other.steps)
            and np.array_equal(np.array(self.obs), np.array(other.obs))
            and np.array_equal(np.array(self.final_obs), np.array(other.final_obs))
            and [s[:cut] for s in self.steps] == [s[:cut] for s in other.steps]
        )


def shortened(name: str | envs.Setup, horizon: int) -> envs.Setup:
    """Returns the same task, truncated earlier."""
    return replace(envs.setup(name), horizon=horizon)


def contexts_of(setup: envs.Setup, n: int, seed: int, which: str = "initial") -> Floats:
    """Draws contexts (n, d)."""
    return setup.sample(which, n, np.random.default_rng(seed))


def random_actions(name: str | envs.Setup, steps: int, n: int, seed: int, part: float = 1.0) -> Any:
    """Draws actions for n copies: uniform in the middle `part` of a box, or any choice."""
    space = envs.make_batch(name, 1, 0).action_space
    rng = np.random.default_rng(seed)
    if isinstance(space, spaces.Discrete):
        return rng.integers(int(space.n), size=(steps, n))
    return part * rng.uniform(space.low, space.high, (steps, n, *space.shape))


def play_single(
    setup: str | envs.Setup,
    seed: int | SeedSequence,
    contexts: Floats,
    actions: Any,
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
    setup: str | envs.Setup, seed: Any, contexts: Floats, actions: Any
) -> list[Trajectory]:
    """Steps a batch with auto-reset; copy i takes the next of `contexts[i]` (k, d)."""
    n = actions.shape[1]
    episodes = np.zeros(n, dtype=int)

    def source(indices: Indices) -> Floats:
        episodes[indices] += 1
        found: Floats = contexts[indices, episodes[indices] % contexts.shape[1]]
        return found

    batch = envs.make_batch(setup, n, seed, source)
    first = batch.reset(contexts[:, 0])
    trajectories = [Trajectory(obs=[row]) for row in first]
    for action in actions:
        obs, reward, terminated, truncated, info = batch.step(action)
        for i, trajectory in enumerate(trajectories):
            over = bool(terminated[i] or truncated[i])
            flags = bool(terminated[i]), bool(truncated[i]), bool(info["success"][i]) and over
            trajectory.obs.append(obs[i])
            trajectory.final_obs.append(info["final_obs"][i])
            said = float(reward[i]), *flags, int(info["elapsed"][i])
            trajectory.steps.append((*said, *info["context"][i], *info["clipped_context"][i]))
    batch.close()
    return trajectories
