"""The oracle: it foresees the ball's flight and moves the net there by inverse kinematics."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from scipy.optimize import least_squares

from pacebench.envs.arrays import Floats, Indices
from pacebench.envs.ball_catching.model import (
    BALL_POSITION,
    BALL_VELOCITY,
    DESIRED_ANGLES,
    FREE_FALL,
    FREE_JOINTS,
    INITIAL_POSE,
    SUBSTEPS,
    load_model,
)

_TIME = 0
_SETTLE = 0.12
"""Seconds before the catch at which the desired angles arrive; the servos lag behind them."""

# Scales of the three things a plan weighs: the net's distance from the ball (m), the angle between
# the net's normal and the flight (rad), and how far the joints travel (rad).
_REACH, _FACE, _TRAVEL = 0.004, 0.5, 12.0
_MARGIN = 0.03


class Plan(NamedTuple):
    """Where the joints are to be, and when.

    Attributes:
        angles: Desired angles (5,) of the free joints, the servos' sag under gravity included.
        time: Time in the episode at which the ball meets the net, in seconds.
    """

    angles: Floats
    time: float


class Interceptor:
    """Plans one catch per episode and copy, and moves there at constant velocity.

    It knows the ball's whole flight from its first position and velocity, that is, the context.
    """

    def __init__(self, num_copies: int) -> None:
        """Prepares for `num_copies` copies, none of them planned yet."""
        self._planner = Planner()
        self._plans: list[Plan | None] = [None] * num_copies

    def forget(self, indices: Indices) -> None:
        """Drops the plans of copies whose state has been replaced."""
        for i in indices:
            self._plans[i] = None

    def actions(self, state: Floats) -> Floats:
        """Returns the commanded velocities (N, 5) in the states (N, 28)."""
        actions = np.zeros((len(state), len(FREE_JOINTS)))
        for i, row in enumerate(state):
            plan = self._plans[i] or self._planner.plan(row)
            self._plans[i] = plan
            if row[_TIME] < plan.time:
                left = max(plan.time - _SETTLE - row[_TIME], self._planner.step_seconds)
                actions[i] = (plan.angles - row[DESIRED_ANGLES][FREE_JOINTS]) / left
        return actions


class Planner:
    """Inverse kinematics of the net, for a ball in flight."""

    def __init__(self) -> None:
        """Loads the model and its joint limits."""
        self._model = model = load_model()
        self._data = mujoco.MjData(model)
        self._net = model.body("net").id
        self._jacobians = np.zeros((2, 3, model.nv))
        self._timestep = float(model.opt.timestep)
        self.step_seconds = SUBSTEPS * self._timestep
        self._low, self._high = model.jnt_range[FREE_JOINTS].T + np.array([[_MARGIN], [-_MARGIN]])

    def plan(self, state: Floats) -> Plan:
        """Returns the catch of the ball that flies in `state` (28,)."""
        position, velocity = state[BALL_POSITION], state[BALL_VELOCITY]
        arrival = -position[0] / velocity[0]
        start = np.array(INITIAL_POSE)[FREE_JOINTS]
        bounds = (np.append(self._low, arrival - 0.1), np.append(self._high, arrival + 0.1))

        def residual(x: Floats) -> Floats:
            net, normal = self._net_pose(x[:5])
            ball, flight = _fly(position, velocity, x[5], self._timestep)
            direction = flight / np.linalg.norm(flight)
            return np.concatenate(
                [(net - ball) / _REACH, (normal - direction) / _FACE, (x[:5] - start) / _TRAVEL]
            )

        def jacobian(x: Floats) -> Floats:
            _, normal = self._net_pose(x[:5])
            moving, turning = self._net_jacobians()
            _, flight = _fly(position, velocity, x[5], self._timestep)
            speed = np.linalg.norm(flight)
            direction = flight / speed
            turn = FREE_FALL / speed - direction * (direction @ FREE_FALL / speed)
            rows = np.zeros((11, 6))
            rows[:3, :5] = moving / _REACH
            rows[:3, 5] = -(flight + 0.5 * FREE_FALL * self._timestep) / _REACH
            rows[3:6, :5] = np.cross(turning, normal, axis=0) / _FACE
            rows[3:6, 5] = -turn / _FACE
            rows[6:, :5] = np.eye(5) / _TRAVEL
            return rows

        best = least_squares(residual, np.append(start, arrival), jacobian, bounds=bounds).x
        return Plan(best[:5] + self._sag(best[:5]), float(state[_TIME] + best[5]))

    def _net_pose(self, angles: Floats) -> tuple[Floats, Floats]:
        self._data.qpos[FREE_JOINTS] = angles
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.xpos[self._net], self._data.xmat[self._net].reshape(3, 3)[:, 2]

    def _net_jacobians(self) -> tuple[Floats, Floats]:
        """Returns how the net moves and turns with each free joint, (3, 5) each."""
        mujoco.mj_comPos(self._model, self._data)
        moving, turning = self._jacobians
        mujoco.mj_jacBody(self._model, self._data, moving, turning, self._net)
        return moving[:, FREE_JOINTS], turning[:, FREE_JOINTS]

    def _sag(self, angles: Floats) -> Floats:
        """Returns by how much the servos must aim higher to rest at `angles`."""
        self._data.qpos[FREE_JOINTS] = angles
        mujoco.mj_forward(self._model, self._data)
        stiffness = self._model.actuator_gainprm[:, 0]
        return np.asarray(self._data.qfrc_bias[FREE_JOINTS] / stiffness[FREE_JOINTS])


def _fly(position: Floats, velocity: Floats, time: float, step: float) -> tuple[Floats, Floats]:
    """Returns the ball's position and velocity after `time`, as the Euler integrator makes them."""
    fallen = 0.5 * FREE_FALL * time * (time + step)
    return position + velocity * time + fallen, velocity + FREE_FALL * time
