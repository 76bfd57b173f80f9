"""The corridor: which points are in it, how walls stop a move, and the shortest way along it."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pacebench.envs.arrays import Bools, Floats

# The corridor is what lies between two squares around the origin, walls included.
INNER, OUTER = 5.0, 7.0
# Goals may be asked for in the walls, too.
ARENA = 9.0
MAX_STEP = 0.3
TARGET_TOLERANCE = 0.05

# Where the shortest way turns, a little off the corners of the inner square.
_TURN = INNER + 0.2
_CORNERS = _TURN * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
# From corner to corner along the corridor: neighbours are one side apart, opposite ones two.
_SIDES = 2.0 * _TURN * np.array([[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])


def inside(points: Floats) -> Bools:
    """Whether points (n, 2) lie in the corridor."""
    far = np.abs(points).max(axis=-1)
    found: Bools = (far >= INNER) & (far <= OUTER)
    return found


def stopped_by_walls(before: Floats, after: Floats) -> Floats:
    """Projects moves (n, 2) back into the corridor.

    A coordinate that entered the inner square by crossing one of its sides is put onto that side.
    """
    after = np.minimum(np.maximum(after, -OUTER), OUTER)
    within = (np.abs(after) < INNER).all(axis=1, keepdims=True)
    after = np.where(within & (before <= -INNER), -INNER, after)
    return np.where(within & (before >= INNER), INNER, after)


def feasible_goals(n: int, rng: Generator) -> Floats:
    """Draws goals (n, 3) uniformly from the corridor, with the smallest tolerance."""
    goals = np.empty((0, 2))
    while len(goals) < n:
        drawn = rng.uniform(-OUTER, OUTER, (2 * n, 2))
        goals = np.concatenate([goals, drawn[inside(drawn)]])
    return np.column_stack([goals[:n], np.full(n, TARGET_TOLERANCE)])


def walk(position: Floats, goals: Floats) -> Floats:
    """Returns the point (N, 2) that the shortest way from each position heads for next.

    A goal in a wall is approached as far as the corridor goes.
    """
    goal = np.clip(goals, -OUTER, OUTER)
    buried = np.abs(goal).max(axis=1) < INNER
    axis = np.abs(goal).argmax(axis=1)
    rows = np.flatnonzero(buried)
    goal[rows, axis[rows]] = np.where(goal[rows, axis[rows]] < 0, -INNER, INNER)
    # Ways lead from the position to a corner, along the sides to another, and on to the goal.
    to_corner, from_corner = _lengths(position, _CORNERS), _lengths(goal, _CORNERS)
    # A corner that has been reached is no aim any more.
    to_corner[to_corner < 0.5 * MAX_STEP] = np.inf
    ways = to_corner[:, :, None] + _SIDES + from_corner[:, None, :]
    corner = _CORNERS[ways.min(axis=2).argmin(axis=1)]
    return np.where(_blocked(position, goal)[:, None], corner, goal)


def _lengths(points: Floats, corners: Floats) -> Floats:
    """Returns the straight distances (N, 4) to the corners, infinite where the wall is between."""
    columns = []
    for corner in corners:
        ends = np.broadcast_to(corner, points.shape)
        straight = np.hypot(*(points - ends).T)
        columns.append(np.where(_blocked(points, ends), np.inf, straight))
    return np.column_stack(columns)


def _blocked(start: Floats, end: Floats) -> Bools:
    """Whether the segments between points cross the inner square (slab method)."""
    delta = end - start
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-INNER - start) / delta, (INNER - start) / delta
    # A coordinate that does not move is between the sides all the time, or never.
    still, between = delta == 0.0, np.abs(start) < INNER
    enter = np.where(still, np.where(between, -np.inf, np.inf), np.minimum(one, other)).max(axis=1)
    leave = np.where(still, np.where(between, np.inf, -np.inf), np.maximum(one, other)).min(axis=1)
    found: Bools = np.maximum(enter, 0.0) < np.minimum(leave, 1.0) - 1e-12
    return found
