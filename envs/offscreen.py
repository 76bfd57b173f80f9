"""Pictures of MuJoCo models without a window."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from envs.errors import SetupError

Camera = mujoco.MjvCamera


class OffscreenRenderer:
    """Draws a model into memory, with whichever offscreen OpenGL this machine has.

    MuJoCo's own renderer takes the backend that MUJOCO_GL named when Python started, and without it
    one that needs a display. This one respects MUJOCO_GL, too, but tries all backends without it.
    """

    def __init__(self, model: Any, width: int = 640, height: int = 480) -> None:
        """Opens an OpenGL context of the given size.

        Raises:
            SetupError: No backend works.
        """
        self._model = model
        self._context = _open_context(width, height)
        self._context.make_current()
        # The framebuffer belongs to the model; pictures larger than it cannot be read back.
        model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
        model.vis.global_.offheight = max(height, model.vis.global_.offheight)
        self._resources = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._resources)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._option = mujoco.MjvOption()
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels: NDArray[np.uint8] = np.zeros((height, width, 3), dtype=np.uint8)

    def draw(self, data: Any, camera: Any) -> NDArray[np.uint8]:
        """Returns the picture (height, width, 3) of `data` that `camera` sees."""
        self._context.make_current()
        mujoco.mjv_updateScene(
            self._model,
            data,
            self._option,
            None,
            camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        mujoco.mjr_render(self._rectangle, self._scene, self._resources)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._resources)
        # OpenGL counts rows from the bottom.
        return self._pixels[::-1].copy()

    def close(self) -> None:
        """Frees the OpenGL context."""
        self._resources.free()
        self._context.free()


def _open_context(width: int, height: int) -> Any:
    failures = []
    for backend in _backends():
        try:
            context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            context.make_current()
        except Exception as error:  # noqa: BLE001 - each backend fails in its own way
            failures.append(f"{backend}: {type(error).__name__}")
        else:
            return context
    raise SetupError(
        f"no offscreen OpenGL works ({', '.join(failures) or 'switched off by MUJOCO_GL'}), so "
        "MuJoCo cannot draw; install EGL or OSMesa, or set MUJOCO_GL to a backend that you have."
    )


def _backends() -> tuple[str, ...]:
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    if chosen in ("disable", "disabled", "off", "false", "0"):
        return ()
    if chosen in ("egl", "osmesa", "glfw", "cgl"):
        return (chosen,)
    if sys.platform == "darwin":
        return ("cgl", "glfw")
    return ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("glfw",)
