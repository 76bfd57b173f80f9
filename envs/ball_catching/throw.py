"""What a context means: the throw, and the random rest of an episode's first state."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from pacebench.envs.arrays import Floats
from pacebench.envs.ball_catching.model import (
    BALL_POSITION,
    BALL_VELOCITY,
    DESIRED_ANGLES,
    FREE_JOINTS,
    GRAVITY,
    INITIAL_POSE,
    JOINT_ANGLES,
    JOINT_VELOCITIES,
    STATE_SIZE,
)

_START_Y, _START_Z = (-0.75, -0.65), (0.8, 1.8)
_ANGLE_NOISE, _VELOCITY_NOISE = 0.05, 0.05


def catch_point(context: Floats) -> Floats:
    """Returns the point of the plane x = 0 through which a throw of this context passes."""
    # Scalar functions: NumPy's may differ in the last bit between one context and an array of them.
    angle, radius = float(context[0]), float(context[1])
    return np.array([0.0, -radius * math.cos(angle), 0.75 + radius * math.sin(angle)])


def flight_time(context: Floats) -> float:
    """Returns the seconds from the start of a throw to its catch point."""
    return 0.5 + 0.05 * float(context[2])


def initial_state(context: Floats, rng: Generator) -> Floats:
    """Draws the first state (28,) of an episode: the throw, the arm's pose and velocities."""
    time = flight_time(context)
    start = np.array([context[2], rng.uniform(*_START_Y), rng.uniform(*_START_Z)])
    drop = np.array([0.0, 0.0, 0.5 * GRAVITY * time * time])
    state = np.zeros(STATE_SIZE)
    state[BALL_POSITION] = start
    state[BALL_VELOCITY] = (catch_point(context) - start + drop) / time
    angles = np.array(INITIAL_POSE)
    n = len(FREE_JOINTS)
    angles[FREE_JOINTS] += rng.uniform(-_ANGLE_NOISE, _ANGLE_NOISE, n)
    state[JOINT_ANGLES] = state[DESIRED_ANGLES] = angles
    state[JOINT_VELOCITIES.start + FREE_JOINTS] = _VELOCITY_NOISE * rng.standard_normal(n)
    return state
