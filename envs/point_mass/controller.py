"""A scripted controller that knows the gate: the reference policy of Point Mass."""

from __future__ import annotations

import numpy as np

from pacebench.envs.arrays import Floats
from pacebench.envs.point_mass.arena import DRIVE, GOAL, MAX_FORCE, SUBSTEPS, TIME_STEP

_CONTROL_STEP = SUBSTEPS * TIME_STEP
_ACCELERATION = DRIVE * MAX_FORCE
_BRAKING = 0.5 * _ACCELERATION
_TIME_CONSTANT = 0.2
_WAIT_HEIGHT = 0.35
_CLEARANCE = 0.1
_GATE_SHARE = 0.7


def steer_through_gate(position: Floats, velocity: Floats, contexts: Floats) -> Floats:
    """Returns forces (N, 2): first over the gate, then through it, then to the goal.

    Each axis follows the fastest velocity from which it can still brake in time. Above the wall a
    mass falls freely towards the goal once it will reach the wall well inside the gate, and until
    then descends to a small height only.

    Args:
        position: Positions (2, N).
        velocity: Velocities (2, N).
        contexts: Gate position, gate width and, unless it is 0, friction of each copy (N, 2 or 3).
    """
    gate, width, friction = *contexts.T[:2], contexts[:, 2:].sum(axis=1)
    y = position[1]
    above = y > 0.0
    aligned = np.abs(_arrival(position, velocity, gate) - gate) < 0.5 * width * _GATE_SHARE
    x_target = np.where(y > -_CLEARANCE, gate, 0.0)
    y_target = np.where(above & ~aligned, _WAIT_HEIGHT, GOAL[1])
    error = np.stack([x_target, y_target]) - position
    speed = np.minimum(np.sqrt(2.0 * _BRAKING * np.abs(error)), np.abs(error) / _TIME_CONSTANT)
    wanted = (np.sign(error) * speed - velocity) / _CONTROL_STEP
    force: Floats = (wanted + friction * velocity) / DRIVE
    return np.clip(force, -MAX_FORCE, MAX_FORCE).T


def _arrival(position: Floats, velocity: Floats, gate: Floats) -> Floats:
    """Predicts where a mass that falls as fast as it can will reach the wall."""
    x, y = position
    fall = np.maximum(-velocity[1], 0.0)
    time = (np.sqrt(fall**2 + 2.0 * _ACCELERATION * np.maximum(y, 0.0)) - fall) / _ACCELERATION
    drift = velocity[0] * np.minimum(time, 0.3)
    # On its way to the gate it brakes there; moving away from it, it does not.
    brakes = (drift * (gate - x) > 0.0) & (np.abs(drift) > np.abs(gate - x))
    return np.where(brakes, gate, x + drift)
