"""A picture of one Sparse Maze episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacebench.envs.arrays import Floats, Picture
from pacebench.envs.sparse_maze.ring import ARENA, INNER, OUTER

SIZE = 480
# Drawn three times as large and scaled down, which smooths every edge.
_OVERSAMPLING = 3
_SCALE = SIZE * _OVERSAMPLING / (2 * ARENA)

_WALL, _FLOOR = (60, 66, 78), (245, 246, 248)
_GOAL, _GOAL_EDGE = (198, 235, 213), (46, 160, 103)
_PATH, _WALKER, _START = (120, 160, 225), (20, 58, 140), (160, 166, 178)


def draw(trace: Sequence[tuple[float, float]], context: Floats, reached: bool) -> Picture:
    """Draws the corridor, the goal with its tolerance, and the way so far.

    Args:
        trace: Positions after every step, the last one being the present.
        context: Goal and tolerance.
        reached: Whether the walker is there.
    """
    # Imported here: training never draws, and PIL need not be loaded for it.
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (SIZE * _OVERSAMPLING,) * 2, _WALL)
    pen = ImageDraw.Draw(image, "RGBA")
    for half, colour in ((OUTER, _FLOOR), (INNER, _WALL)):
        pen.rectangle(_box((0.0, 0.0), half), fill=colour)
    x, y, tolerance = map(float, context)
    # The tolerance is seen through; the smallest would not be seen at all but for the mark.
    pen.ellipse(_box((x, y), tolerance), fill=(*_GOAL, 110), outline=_GOAL_EDGE, width=6)
    pen.ellipse(_box((x, y), 0.18), outline=_GOAL_EDGE, width=12)
    points = [_pixel(point) for point in trace]
    pen.line(points, fill=_PATH, width=round(0.12 * _SCALE), joint="curve")
    pen.ellipse(_box(trace[0], 0.2), outline=_START, width=12)
    pen.ellipse(_box(trace[-1], 0.22), fill=_GOAL_EDGE if reached else _WALKER)
    return np.asarray(image.reduce(_OVERSAMPLING), dtype=np.uint8)


def _pixel(point: tuple[float, float]) -> tuple[float, float]:
    return (point[0] + ARENA) * _SCALE, (ARENA - point[1]) * _SCALE


def _box(centre: tuple[float, float], half: float) -> list[tuple[float, float]]:
    x, y = centre
    return [_pixel((x - half, y + half)), _pixel((x + half, y - half))]
