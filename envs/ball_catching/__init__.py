"""Ball Catching: a Barrett WAM with a net, and a ball thrown at a place the context chooses."""

from __future__ import annotations

import os

from pacebench.envs.errors import SetupError

try:
    import mujoco  # noqa: F401 - MuJoCo loads the OpenGL library named by MUJOCO_GL at once
except (AttributeError, RuntimeError) as error:
    raise SetupError(
        f"MuJoCo cannot be imported with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r} ({error}); "
        "unset MUJOCO_GL, or install the OpenGL library that it names."
    ) from error

from pacebench.envs.ball_catching.batch import BallCatchingBatch

__all__ = ["BallCatchingBatch"]
