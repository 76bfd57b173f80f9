"""Contextual environments: physics, contexts and rewards, each setup one fixed benchmark task.

    import envs

    spec = envs.setup("point-mass-2")
    env = envs.make("point-mass-2")                            # a gymnasium.Env
    batch = envs.make_batch("point-mass-2", num_envs=64, seed=0)

Importing this package imports no physics engine; making an environment does.
"""

from __future__ import annotations

from envs import catalogue, gym
from envs._registry import UnknownNameError
from envs.base import BatchEnv, ContextSource
from envs.errors import SetupError
from envs.registry import (
    environment,
    make,
    make_batch,
    names,
    origin,
    register,
    register_environment,
    setup,
    unregister,
)
from envs.setup import Anchors, PolicyScore, Setup
from envs.single import ContextualEnv

catalogue.register_all()
gym.register_all()

__all__ = [
    "Anchors",
    "BatchEnv",
    "ContextSource",
    "ContextualEnv",
    "PolicyScore",
    "Setup",
    "SetupError",
    "UnknownNameError",
    "environment",
    "make",
    "make_batch",
    "names",
    "origin",
    "register",
    "register_environment",
    "setup",
    "unregister",
]
