"""Contextual environments: physics, contexts and rewards, each setup one fixed benchmark task.

    from pacebench import envs

    spec = envs.setup("point-mass-2")
    env = envs.make("point-mass-2")                            # a gymnasium.Env
    batch = envs.make_batch("point-mass-2", num_envs=64, seed=0)

Importing this package imports no physics engine; making an environment does.
"""

from __future__ import annotations

if __name__ != "pacebench.envs":
    raise ImportError("pacebench.envs is its name; this would be a second copy of it")

from pacebench.envs import catalogue, gym
from pacebench.envs.base import BatchEnv, ContextSource
from pacebench.envs.distributions import ContextSpec, MixtureSpec, SamplerSpec, UniformSpec
from pacebench.envs.errors import SetupError
from pacebench.envs.from_gymnasium import from_gymnasium
from pacebench.envs.registry import (
    environment,
    environment_modules,
    make,
    make_batch,
    names,
    origin,
    register,
    register_environment,
    result_version,
    setup,
    unregister,
)
from pacebench.envs.setup import Anchors, GymnasiumSpec, PolicyScore, Setup
from pacebench.envs.single import ContextualEnv
from pacebench.registry import UnknownNameError

catalogue.register_all()
gym.register_all()

__all__ = [
    "Anchors",
    "BatchEnv",
    "ContextSource",
    "ContextSpec",
    "ContextualEnv",
    "GymnasiumSpec",
    "MixtureSpec",
    "PolicyScore",
    "SamplerSpec",
    "Setup",
    "SetupError",
    "UniformSpec",
    "UnknownNameError",
    "environment",
    "environment_modules",
    "from_gymnasium",
    "make",
    "make_batch",
    "names",
    "origin",
    "register",
    "register_environment",
    "result_version",
    "setup",
    "unregister",
]
