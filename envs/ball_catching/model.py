"""The MuJoCo model of the arm and the ball, and how N copies of it advance by one control step."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from pacebench.envs.arrays import Bools, Floats

MODEL_FILE = Path(__file__).with_name("model.xml")
SUBSTEPS = 5
GRAVITY = 9.81
FREE_FALL = np.array([0.0, 0.0, -GRAVITY])
"""Acceleration of the ball in flight."""
INITIAL_POSE = (0.0, 0.4, 0.0, 1.5, 0.0, 0.0, 0.0)
"""Joint angles around which an episode starts."""
FREE_JOINTS = np.array([1, 3, 4, 5, 6])
"""The joints under control; their servos hold joints 0 and 2 at zero."""

# One row of state is MuJoCo's mjSTATE_FULLPHYSICS: time, positions, velocities, activations. The
# arm's seven joints come first, the ball's three slides follow; activations are desired angles.
STATE_SIZE = 28
JOINT_ANGLES, BALL_POSITION = slice(1, 8), slice(8, 11)
JOINT_VELOCITIES, BALL_VELOCITY = slice(11, 18), slice(18, 21)
DESIRED_ANGLES = slice(21, 28)

_CAUGHT, _TOUCHED, _NORMAL, _VELOCITY = 0, 1, slice(2, 5), slice(5, 8)


@cache
def load_model() -> mujoco.MjModel:
    """Returns the compiled model; contexts are no part of it, so all environments share one."""
    model = mujoco.MjModel.from_xml_path(str(MODEL_FILE))
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value)
    if size != STATE_SIZE:
        raise RuntimeError(f"{MODEL_FILE.name} has a state of {size} numbers, not {STATE_SIZE}.")
    return model


class CatchOutcome(NamedTuple):
    """What one control step led to in each copy.

    Attributes:
        state: State (N, 28) after the step, or after the substep in which the ball touched
            something.
        touched: Whether the ball touched anything (N,).
        caught: Whether it touched the net (N,), first or together with something else.
        alignment: n·v̂ (N,) at the touch, of the net's normal and the ball's direction of flight: 1
            where the ball met the front of the net head-on; 0 without a catch.
    """

    state: Floats
    touched: Bools
    caught: Bools
    alignment: Floats


class Simulator:
    """N copies of the model, advanced together without Python between their substeps.

    Every call starts the constraint solver cold, so what a copy does is a function of its state and
    control alone: neither of the steps before, nor of the other copies, nor of the threads.
    """

    def __init__(self, num_copies: int, nthread: int = 0) -> None:
        """Allocates the buffers; `nthread=0` computes in the calling thread."""
        n = self.num_copies = num_copies
        model = load_model()
        self._models = [model] * n
        self._data = [mujoco.MjData(model) for _ in range(max(nthread, 1))]
        self._rollout = Rollout(nthread=nthread)
        self._control = np.zeros((n, SUBSTEPS, model.nu))
        self._states = np.empty((n, SUBSTEPS, STATE_SIZE))
        self._sensors = np.empty((n, SUBSTEPS, model.nsensordata))
        self._rows = np.arange(n)

    def advance(self, state: Floats, velocities: Floats) -> CatchOutcome:
        """Advances `state` (N, 28) by one control step of commanded joint `velocities` (N, 5)."""
        self._control[:, :, FREE_JOINTS] = velocities[:, None, :]
        self._rollout.rollout(
            self._models,
            self._data,
            np.ascontiguousarray(state),
            self._control,
            skip_checks=True,
            nstep=SUBSTEPS,
            state=self._states,
            sensordata=self._sensors,
        )
        found = self._sensors[:, :, _TOUCHED] > 0
        touched: Bools = np.asarray(found.any(axis=1))
        # Sensors of a substep belong to the state it starts from: the ball is in contact there, and
        # the state after that substep is where the episode stops.
        last = np.where(touched, found.argmax(axis=1), SUBSTEPS - 1)
        caught = self._sensors[self._rows, last, _CAUGHT] > 0
        alignment = np.zeros(self.num_copies)
        for i in np.flatnonzero(caught):
            velocity = self._sensors[i, last[i], _VELOCITY]
            # A ball at rest has no direction; tiny keeps its alignment at zero.
            speed = max(np.sqrt(velocity @ velocity), np.finfo(np.float64).tiny)
            alignment[i] = self._sensors[i, last[i], _NORMAL] @ velocity / speed
        return CatchOutcome(self._states[self._rows, last], touched, caught, alignment)
