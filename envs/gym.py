"""Registration with Gymnasium, for those who start from `gymnasium.make`."""

from __future__ import annotations

import gymnasium

from pacebench.envs.errors import SetupError
from pacebench.envs.registry import make
from pacebench.envs.registry import setup as find_setup
from pacebench.envs.setup import Setup
from pacebench.envs.single import ContextualEnv

_IDS = {
    "pacebench/PointMass-v0": ("point-mass", "point-mass-2"),
    "pacebench/LunarLander-v0": ("lunar-lander", "lunar-lander"),
    "pacebench/BallCatching-v0": ("ball-catching", "ball-catching"),
    "pacebench/SparseMaze-v0": ("sparse-maze", "sparse-maze"),
}


def register_all() -> None:
    """Registers the Gymnasium ids; no time limit is needed, the environments truncate."""
    for name, (environment, default) in _IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="pacebench.envs.gym:make_registered",
                kwargs={"environment": environment, "setup": default},
            )


def make_registered(
    environment: str, setup: str | Setup, render_mode: str | None = None
) -> ContextualEnv:
    """Makes the environment of a Gymnasium id with one of its setups.

    Raises:
        SetupError: The setup is one of another environment.
    """
    spec = find_setup(setup)
    if spec.environment != environment:
        raise SetupError(
            f"setup {spec.name!r} is one of {spec.environment!r}, not of {environment!r}; use the "
            "Gymnasium id of that environment, or envs.make."
        )
    return make(spec, render_mode=render_mode)
