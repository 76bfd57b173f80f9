"""Learners: the algorithms that turn experience into a policy.

A learner is registered by name; outside packages add theirs in the entry-point group
`pacebench.learners`. Importing this package imports no tensor library; training does.
"""

from __future__ import annotations

from pacebench.harness.learners.base import Learner, LearnerCapabilities, LearnerParams
from pacebench.harness.learners.ppo import PPO, PPOParams
from pacebench.harness.learners.registry import get, names, origin, register, unregister
from pacebench.harness.learners.sb3 import SB3PPO, SB3SAC, SACParams

__all__ = [
    "PPO",
    "SB3PPO",
    "SB3SAC",
    "Learner",
    "LearnerCapabilities",
    "LearnerParams",
    "PPOParams",
    "SACParams",
    "get",
    "names",
    "origin",
    "register",
    "unregister",
]
