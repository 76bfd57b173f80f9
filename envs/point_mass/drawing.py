"""A picture of one Point Mass episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pacebench.envs.arrays import Floats, Picture
from pacebench.envs.point_mass.arena import ARENA, GOAL, GOAL_RADIUS

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SIZE = 480
_MARGIN = 0.3
# Drawn three times as large and scaled down, which smooths every edge.
_OVERSAMPLING = 3
_SCALE = SIZE * _OVERSAMPLING / (2 * (ARENA + _MARGIN))

_PAPER, _FLOOR, _GRID = (255, 255, 255), (245, 246, 248), (228, 231, 236)
_WALL, _GATE = (60, 66, 78), (46, 160, 103)
_GOAL_FILL, _GOAL_EDGE = (198, 235, 213), (46, 160, 103)
_PATH_OLD, _PATH_NEW = np.array([190, 208, 240]), np.array([31, 87, 190])
_MASS, _CRASH, _START = (20, 58, 140), (208, 52, 44), (160, 166, 178)


def draw(trace: Sequence[tuple[float, float]], context: Floats, crashed: bool) -> Picture:
    """Draws the arena, the wall with its gate, the goal and the way so far.

    Args:
        trace: Positions after every substep, the last one being the present.
        context: Gate position, gate width and friction.
        crashed: Whether the mass hit the wall.
    """
    # Imported here: training never draws, and PIL need not be loaded for it.
    from PIL import Image, ImageDraw

    side = SIZE * _OVERSAMPLING
    image = Image.new("RGB", (side, side), _PAPER)
    pen = ImageDraw.Draw(image)
    _draw_arena(pen)
    _draw_wall(pen, float(context[0]), float(context[1]))
    _disc(pen, (GOAL[0], GOAL[1]), GOAL_RADIUS, fill=_GOAL_FILL, outline=_GOAL_EDGE, width=0.035)
    _disc(pen, trace[0], 0.1, outline=_START, width=0.035)
    _draw_path(pen, trace)
    if crashed:
        _draw_cross(pen, trace[-1])
    else:
        _disc(pen, trace[-1], 0.12, fill=_MASS)
    return np.asarray(image.reduce(_OVERSAMPLING), dtype=np.uint8)


def _pixel(point: tuple[float, float]) -> tuple[float, float]:
    x, y = point
    return (x + ARENA + _MARGIN) * _SCALE, (ARENA + _MARGIN - y) * _SCALE


def _box(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [_pixel((x0, y1)), _pixel((x1, y0))]


def _draw_arena(pen: ImageDraw) -> None:
    pen.rectangle(_box(-ARENA, -ARENA, ARENA, ARENA), fill=_FLOOR)
    for tick in range(-int(ARENA) + 1, int(ARENA)):
        pen.line([_pixel((tick, -ARENA)), _pixel((tick, ARENA))], fill=_GRID, width=2)
        pen.line([_pixel((-ARENA, tick)), _pixel((ARENA, tick))], fill=_GRID, width=2)
    pen.rectangle(_box(-ARENA, -ARENA, ARENA, ARENA), outline=_WALL, width=_width(0.03))


def _draw_wall(pen: ImageDraw, gate: float, width: float) -> None:
    left, right = max(gate - width / 2, -ARENA), min(gate + width / 2, ARENA)
    thickness = 0.07
    if left > -ARENA:
        pen.rectangle(_box(-ARENA, -thickness, left, thickness), fill=_WALL)
    if right < ARENA:
        pen.rectangle(_box(right, -thickness, ARENA, thickness), fill=_WALL)
    for post in (left, right):
        pen.rectangle(_box(post - 0.035, -0.17, post + 0.035, 0.17), fill=_GATE)


def _draw_path(pen: ImageDraw, trace: Sequence[tuple[float, float]]) -> None:
    points = _thinned(trace)
    # Coloured by distance covered: by time, most colours would go to the mass resting at the goal.
    covered = np.cumsum(np.hypot(*np.diff(points, axis=0).T))
    share = covered / max(covered[-1], 1e-9) if len(covered) else covered
    colours = (_PATH_OLD + share[:, None] * (_PATH_NEW - _PATH_OLD)).astype(int)
    pixels = [_pixel((x, y)) for x, y in points]
    radius = _width(0.06) / 2
    for a, b, (red, green, blue) in zip(pixels[:-1], pixels[1:], colours, strict=True):
        pen.line([a, b], fill=(red, green, blue), width=_width(0.06))
        # Round joints: thick segments would leave notches in a bend.
        x, y = b
        pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=(red, green, blue))


def _thinned(trace: Sequence[tuple[float, float]]) -> Floats:
    """Leaves out points that are too near to the one before to be seen."""
    kept = [trace[0]]
    for x, y in trace[1:]:
        if abs(x - kept[-1][0]) + abs(y - kept[-1][1]) > 0.02:
            kept.append((x, y))
    return np.array([*kept, trace[-1]])


def _draw_cross(pen: ImageDraw, point: tuple[float, float]) -> None:
    x, y = point
    for sign in (-1, 1):
        ends = [_pixel((x - 0.18, y - 0.18 * sign)), _pixel((x + 0.18, y + 0.18 * sign))]
        pen.line(ends, fill=_CRASH, width=_width(0.09))


def _disc(
    pen: ImageDraw,
    centre: tuple[float, float],
    radius: float,
    *,
    fill: tuple[int, int, int] | None = None,
    outline: tuple[int, int, int] | None = None,
    width: float = 0.0,
) -> None:
    x, y = centre
    box = _box(x - radius, y - radius, x + radius, y + radius)
    pen.ellipse(box, fill=fill, outline=outline, width=_width(width))


def _width(units: float) -> int:
    return max(1, round(units * _SCALE))
