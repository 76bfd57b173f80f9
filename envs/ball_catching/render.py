"""Pictures of one copy: arm, net, ball, the path it flew and the path ahead of it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import mujoco
import numpy as np

from pacebench.envs.arrays import Floats, Picture
from pacebench.envs.ball_catching.model import BALL_POSITION, BALL_VELOCITY, FREE_FALL, load_model
from pacebench.envs.errors import SetupError

WIDTH, HEIGHT = 720, 480
_CAMERA = "scene"
_MAX_SHAPES = 1000
"""More than the model's shapes, an episode's trail (200) and the path ahead (50) together."""
_Color = tuple[float, float, float, float]
_FLOWN = (0.93, 0.35, 0.10, 1.0)
_AHEAD = (0.35, 0.38, 0.42, 0.55)
_TARGET = (0.10, 0.60, 0.30, 0.9)
_opened = threading.local()


class Painter:
    """Draws states of the model offscreen, with OpenGL."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        """Opens an OpenGL context.

        Raises:
            SetupError: There is none on this machine.
        """
        self._model = model = load_model()
        self._data = mujoco.MjData(model)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels: Picture = np.empty((height, width, 3), dtype=np.uint8)
        self._gl, self._context = _open_gl(model, width, height)
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_SHAPES)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED.value
        self._camera.fixedcamid = model.camera(_CAMERA).id
        # The endless floor is laid around the camera of the update before; without one, the first
        # picture would differ from the same picture later.
        mujoco.mj_forward(model, self._data)
        self._update_scene()

    def draw(self, state: Floats, trail: Sequence[Floats], target: Floats) -> Picture:
        """Returns a picture (height, width, 3).

        Args:
            state: State (28,) to draw.
            trail: The ball's positions so far.
            target: The point of the plane x = 0 that the throw aims at.
        """
        mujoco.mj_setState(
            self._model, self._data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS.value
        )
        mujoco.mj_forward(self._model, self._data)
        self._update_scene()
        for point in _path_ahead(state[BALL_POSITION], state[BALL_VELOCITY]):
            self._add_sphere(point, 0.008, _AHEAD)
        for start, end in pairwise(trail):
            self._add_segment(start, end, 0.008, _FLOWN)
        self._add_sphere(target, 0.025, _TARGET)

        self._gl.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return self._pixels[::-1].copy()

    def _update_scene(self) -> None:
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._option,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )

    def _add_sphere(self, position: Floats, radius: float, color: _Color) -> None:
        self._add_shape(mujoco.mjtGeom.mjGEOM_SPHERE.value, np.full(3, radius), position, color)

    def _add_segment(self, start: Floats, end: Floats, radius: float, color: _Color) -> None:
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE.value
        shape = self._add_shape(kind, np.zeros(3), start, color)
        mujoco.mjv_connector(shape, kind, radius, start, end)

    def _add_shape(self, kind: int, size: Floats, position: Floats, color: _Color) -> Any:
        shape = self._scene.geoms[self._scene.ngeom]
        self._scene.ngeom += 1
        rgba = np.array(color, dtype=np.float32)
        mujoco.mjv_initGeom(shape, kind, size, position, np.eye(3).ravel(), rgba)
        shape.emission = 0.4
        return shape


def painter() -> Painter:
    """Returns the painter of this thread: opening OpenGL takes longer than drawing.

    Raises:
        SetupError: There is no OpenGL on this machine.
    """
    if not hasattr(_opened, "painter"):
        _opened.painter = Painter()
    return cast(Painter, _opened.painter)


def _path_ahead(position: Floats, velocity: Floats) -> Floats:
    """Returns points (n, 3) of the free flight, 0.02 s apart, to the arm's plane or the floor."""
    times = np.arange(0.02, 1.0, 0.02)[:, None]
    points = position + velocity * times + 0.5 * FREE_FALL * times * times
    # cumprod: nothing after the first point that is below the floor or behind the arm.
    visible = np.cumprod((points[:, 0] > 0.0) & (points[:, 2] > 0.0)).astype(bool)
    return np.asarray(points[visible])


def _open_gl(model: mujoco.MjModel, width: int, height: int) -> tuple[Any, mujoco.MjrContext]:
    try:
        gl = _gl_class()(width, height)
        gl.make_current()
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
    except Exception as error:
        raise SetupError(
            f"Ball Catching cannot be drawn here because OpenGL does not start ({_line(error)}); "
            "install EGL or OSMesa (Debian and Ubuntu: libegl1, libosmesa6) and set MUJOCO_GL=egl "
            "or MUJOCO_GL=osmesa."
        ) from error
    return gl, context


def _gl_class() -> Any:
    """Returns MuJoCo's choice, except that a Linux without a display and a wish gets EGL."""
    wished = os.environ.get("MUJOCO_GL")
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not wished and not display:
        from mujoco.egl import GLContext

        return GLContext
    return mujoco.GLContext


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
