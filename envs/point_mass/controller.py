"""A scripted controller that knows the gate: the reference policy of Point Mass."""

from __future__ import annotations

import numpy as np

from envs.base import Floats

_CONTROL_STEP = 0.1
_ACCELERATION = 15.0
_BRAKING = 0.6 * _ACCELERATION
_WAIT_HEIGHT = 0.45
_GOAL_Y = -3.0


def steer_through_gate(position: Floats, velocity: Floats, contexts: Floats) -> Floats:
    """Returns forces (N, 2): first over the gate, then through it, then to the goal.

    Each axis follows the fastest velocity from which it can still brake in time. Above the wall a
    mass descends to the goal only once it will reach the wall inside the middle of the gate, and
    waits at a small height until then.

    Args:
        position: Positions (2, N).
        velocity: Velocities (2, N).
        contexts: Gate position, gate width and friction of each copy (N, 3).
    """
    gate, width, friction = contexts.T
    x, y = position
    margin = 0.5 * width * 0.6
    above = y > 0.0
    fall = np.maximum(-velocity[1], 1e-6)
    arrival = x + velocity[0] * np.minimum(y / fall, 0.25)
    aligned = (np.abs(x - gate) < margin) & (np.abs(arrival - gate) < margin)
    # Just below the wall the mass keeps clear of it before it turns towards the goal.
    x_target = np.where(above | (y > -0.15), gate, 0.0)
    y_target = np.where(above & ~aligned, _WAIT_HEIGHT, _GOAL_Y)
    error = np.stack([x_target, y_target]) - position
    speed = np.minimum(np.sqrt(2.0 * _BRAKING * np.abs(error)), np.abs(error) / 0.2)
    wanted = (np.sign(error) * speed - velocity) / _CONTROL_STEP
    force: Floats = (wanted + friction * velocity) / 1.5
    return np.clip(force, -10.0, 10.0).T
