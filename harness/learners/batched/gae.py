"""Generalised advantage estimation over many copies at once."""

from __future__ import annotations

import numpy as np

from pacebench.envs.arrays import Bools
from pacebench.harness.learners.base import Floats32


def advantages(
    rewards: Floats32,
    values: Floats32,
    last_values: Floats32,
    done: Bools,
    gamma: float,
    gae_lambda: float,
) -> Floats32:
    """Returns GAE(λ) advantages (T, …), as Stable-Baselines3's rollout buffer computes them.

    Args:
        rewards: (T, …); where an episode was truncated, γ V(its last observation) is in it already.
        values: V at each observation, (T, …).
        last_values: V at the observations after the last step.
        done: Whether the episode ended with the step, (T, …).
        gamma: Discount factor γ.
        gae_lambda: λ.
    """
    result = np.empty_like(rewards)
    discount = np.where(done, np.float32(0.0), np.float32(gamma))
    decay = discount * np.float32(gae_lambda)
    running = np.zeros_like(last_values)
    following = last_values
    for t in range(len(rewards) - 1, -1, -1):
        running = rewards[t] + discount[t] * following - values[t] + decay[t] * running
        result[t] = running
        following = values[t]
    return result
