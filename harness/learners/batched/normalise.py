"""Running normalisation per seed, with the semantics of Stable-Baselines3's `VecNormalize`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.envs.arrays import Bools, Floats
from pacebench.harness.learners.base import Floats32
from pacebench.harness.learners.ppo import PPOParams

EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of S streams, merged batch by batch (Chan et al.'s parallel formula)."""

    def __init__(self, streams: int, width: int) -> None:
        self.mean = np.zeros((streams, width))
        self.var = np.ones((streams, width))
        # Stable-Baselines3 starts from a pseudo-count, so that the first merge cannot divide by 0.
        self.count = np.full((streams, 1), 1e-4)

    def merge(self, batch: Floats, rows: slice | list[int] = slice(None)) -> None:
        """Takes in a batch (rows, n, width)."""
        mean, var, count = self.mean[rows], self.var[rows], self.count[rows]
        n = batch.shape[1]
        delta = batch.mean(axis=1) - mean
        total = count + n
        m2 = var * count + batch.var(axis=1) * n + np.square(delta) * count * n / total
        self.mean[rows] = mean + delta * n / total
        self.var[rows] = m2 / total
        self.count[rows] = total

    def state(self, row: int) -> dict[str, Any]:
        """Returns the moments of one stream as JSON-able values."""
        return {
            "mean": self.mean[row].tolist(),
            "var": self.var[row].tolist(),
            "count": float(self.count[row, 0]),
        }

    def load(self, row: int, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.mean[row], self.var[row] = state["mean"], state["var"]
        self.count[row] = state["count"]


class Normaliser:
    """Scales observations and rewards by their running moments, where asked to.

    Attributes:
        obs: Moments of the observations, None where they are passed on as they are.
        returns: Moments of the running discounted return, None where rewards are passed on.
    """

    def __init__(self, params: PPOParams, agents: int, width: int) -> None:
        self.params = params
        self.obs = RunningMoments(agents, width) if params.norm_obs else None
        self.returns = RunningMoments(agents, 1) if params.norm_reward else None
        # The discounted return of each copy's episode so far.
        self._running = np.zeros((agents, params.n_envs))

    def restart(self, rows: list[int], obs: Floats) -> None:
        """Notes that all copies of these agents begin new episodes at `obs` (rows, n, width)."""
        self._running[rows] = 0.0
        if self.obs is not None:
            self.obs.merge(obs, rows)

    def observe(self, obs: Floats) -> None:
        """Takes in the observations (S, n, width) that a step led to."""
        if self.obs is not None:
            self.obs.merge(obs)

    def scale_obs(self, obs: Floats, rows: slice = slice(None)) -> Floats32:
        """Returns the observations (rows, M, width) as the networks see them."""
        if self.obs is None:
            return obs.astype(np.float32)
        mean, var = self.obs.mean[rows, None], self.obs.var[rows, None]
        scaled = (obs - mean) / np.sqrt(var + EPSILON)
        limit = self.params.clip_obs
        return np.clip(scaled, -limit, limit).astype(np.float32)

    def scale_reward(self, reward: Floats, done: Bools) -> Floats:
        """Takes in the rewards (S, n) of a step and returns them as the learner sees them."""
        if self.returns is None:
            return reward
        self._running *= self.params.gamma
        self._running += reward
        self.returns.merge(self._running[:, :, None])
        scaled = reward / np.sqrt(self.returns.var + EPSILON)
        self._running[done] = 0.0
        return np.clip(scaled, -self.params.clip_reward, self.params.clip_reward)

    def reward_scale(self, agent: int) -> float:
        """Returns what one unit of the learner's reward is worth in the environment."""
        if self.returns is None:
            return 1.0
        return float(np.sqrt(self.returns.var[agent, 0] + EPSILON))

    def state(self, agent: int) -> dict[str, Any]:
        """Returns the moments of one agent, and the returns of its running episodes."""
        moments = {"obs": self.obs, "returns": self.returns}
        found = {name: m.state(agent) for name, m in moments.items() if m is not None}
        return {**found, "running": self._running[agent].tolist()}

    def load(self, agent: int, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        for name, moments in (("obs", self.obs), ("returns", self.returns)):
            if moments is not None:
                moments.load(agent, state[name])
        self._running[agent] = state["running"]
