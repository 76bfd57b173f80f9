"""The batched environment: throws, rewards and observations around the simulated arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from pacebench.envs.arrays import Floats, Indices, Picture
from pacebench.envs.ball_catching.model import (
    BALL_POSITION,
    BALL_VELOCITY,
    DESIRED_ANGLES,
    FREE_JOINTS,
    JOINT_ANGLES,
    JOINT_VELOCITIES,
    STATE_SIZE,
    Simulator,
)
from pacebench.envs.ball_catching.policies import Interceptor
from pacebench.envs.ball_catching.render import painter
from pacebench.envs.ball_catching.throw import catch_point, initial_state
from pacebench.envs.base import BatchEnv
from pacebench.envs.errors import SetupError

MAX_VELOCITY = 2.0 * np.array([1.985, 2.02, 2.9, 1.57, 2.7])
"""Largest commanded velocities of the free joints, rad/s."""

OBSERVATION_LIMIT = 10.0
ALIVE_REWARD, VELOCITY_COST = 0.275, 5e-3
CATCH_REWARD, ALIGNMENT_REWARD = 50.0, 25.0

_OBSERVED = np.concatenate(
    [
        DESIRED_ANGLES.start + FREE_JOINTS,
        JOINT_ANGLES.start + FREE_JOINTS,
        np.r_[BALL_POSITION],
        JOINT_VELOCITIES.start + FREE_JOINTS,
        np.r_[BALL_VELOCITY],
    ]
)


class BallCatchingBatch(BatchEnv):
    """N copies of the arm, each with its own ball.

    The context is angle φ, radius r and distance d of the throw. The action is the velocity of the
    desired angles of joints 1, 3, 4, 5 and 6, the observation (21): desired angles (5), angles (5),
    ball position (3), angular velocities (5), ball velocity (3). An episode ends when the ball
    touches anything; touching the net is the catch, also if it touches something else in the same
    substep.
    """

    physics_space = spaces.Box(-OBSERVATION_LIMIT, OBSERVATION_LIMIT, (len(_OBSERVED),), np.float64)
    action_box = spaces.Box(-MAX_VELOCITY, MAX_VELOCITY, dtype=np.float64)
    baseline_policy: ClassVar[str] = "hold"
    render_fps = 100

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `BatchEnv`."""
        super().__init__(*args, **kwargs)
        self._simulator = Simulator(self.num_envs)
        self._state: Floats = np.zeros((self.num_envs, STATE_SIZE))
        self._oracle: Interceptor | None = None
        self._trails: list[list[Floats]] = [[] for _ in range(self.num_envs)]

    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        for i, context in zip(indices, contexts, strict=True):
            self._state[i] = initial_state(context, self._rngs[i])
        self._physics_obs[indices] = _observe(self._state[indices])
        if self._oracle is not None:
            self._oracle.forget(indices)
        if self.render_mode is not None:
            for i in indices:
                self._trails[i] = [self._state[i, BALL_POSITION].copy()]

    def _step_copies(self, actions: Floats) -> None:
        outcome = self._simulator.advance(self._state, actions)
        self._state = outcome.state
        self._physics_obs[:] = _observe(self._state)
        c = outcome.alignment
        # c⁵ as a product: what `pow` returns may depend on where in an array an element stands.
        bonus = CATCH_REWARD + ALIGNMENT_REWARD * (c * c * c * c * c)
        cost = VELOCITY_COST * np.square(actions).sum(axis=1)
        self._reward[:] = ALIVE_REWARD - cost + np.where(outcome.caught, bonus, 0.0)
        self._terminated[:] = outcome.touched
        self._success[:] = outcome.caught
        if self.render_mode is not None:
            for trail, row in zip(self._trails, self._state, strict=True):
                trail.append(row[BALL_POSITION].copy())

    def _keep_copies(self, indices: Indices) -> bool:
        if self._oracle is not None:
            # The reference controller has a plan for each copy.
            return False
        self._simulator = Simulator(len(indices))
        self._state = self._state[indices]
        self._trails = [self._trails[i] for i in indices]
        return True

    def _reference_actions(self) -> Floats:
        if self._oracle is None:
            self._oracle = Interceptor(self.num_envs)
        return self._oracle.actions(self._state)

    def _render_copy(self, index: int) -> Picture:
        target = catch_point(self._clipped[index])
        return painter().draw(self._state[index], self._trails[index], target)

    def _physics_state(self) -> dict[str, Any]:
        return {"state": self._state.copy()}

    def _load_physics_state(self, state: Mapping[str, Any]) -> None:
        loaded = np.array(state["state"], dtype=np.float64)
        if loaded.shape != self._state.shape:
            raise SetupError(
                f"the saved physics have shape {loaded.shape}, this batch {self._state.shape}; "
                "restore them into a batch of the same size."
            )
        self._state = loaded
        if self._oracle is not None:
            self._oracle.forget(self._all)
        self._trails = [[row[BALL_POSITION].copy()] for row in loaded]


def _observe(state: Floats) -> Floats:
    return np.clip(state[:, _OBSERVED], -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
