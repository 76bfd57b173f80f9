"""The physics of Point Mass over all copies at once.

Per axis, ten Euler substeps of 0.01 s: ṗ = v, v̇ = 1.5 a − c₃ v + N(0, 0.05²), positions clipped
to the arena. A wall at y = 0 has a gate of width c₂ centred at c₁; a substep that reaches the wall
outside the gate stops the mass at the interpolated point and ends the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from pacebench.envs.arrays import Bools, Floats, Indices, Picture
from pacebench.envs.base import BatchEnv
from pacebench.envs.point_mass.arena import (
    ARENA,
    DRIVE,
    GOAL,
    GOAL_RADIUS,
    MAX_FORCE,
    START,
    SUBSTEPS,
    TIME_STEP,
)
from pacebench.envs.point_mass.controller import steer_through_gate
from pacebench.envs.point_mass.drawing import draw

NOISE = 0.05
REWARD_RATE = 0.6
NOISE_BLOCK = 20

_INF = np.inf


class PointMassBatch(BatchEnv):
    """N point masses; observation (x, ẋ, y, ẏ), action the force on each axis.

    Arrays are laid out substep × axis × copy, so that every operation of a substep runs over
    contiguous memory. A copy draws its noise in blocks of 20 steps, from its own stream: few enough
    calls to be cheap, and little drawn in vain when an episode ends early in a crash.
    """

    physics_space = spaces.Box(
        np.array([-ARENA, -_INF, -ARENA, -_INF]),
        np.array([ARENA, _INF, ARENA, _INF]),
        dtype=np.float64,
    )
    action_box = spaces.Box(-MAX_FORCE, MAX_FORCE, (2,), dtype=np.float64)
    render_fps = round(1 / (SUBSTEPS * TIME_STEP))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `BatchEnv`, and allocates all working memory once."""
        super().__init__(*args, **kwargs)
        self._allocate(self.num_envs)

    def _allocate(self, n: int) -> None:
        # Index 0 is the state before the step, index k the state after k substeps.
        self._position: Floats = np.zeros((SUBSTEPS + 1, 2, n))
        self._velocity: Floats = np.zeros((SUBSTEPS + 1, 2, n))
        self._displacement: Floats = np.zeros((SUBSTEPS, 2, n))
        self._impulse: Floats = np.zeros((SUBSTEPS, 2, n))
        self._impulse_rows = self._impulse.reshape(2 * SUBSTEPS, n)
        self._gate: Floats = np.zeros(n)
        self._half_width: Floats = np.zeros(n)
        self._decay: Floats = np.ones((2, n))
        self._low_wall: Floats = np.full((2, n), -ARENA)
        self._high_wall: Floats = np.full((2, n), ARENA)
        self._offset: Floats = np.zeros((2, n))
        self._noise: Floats = np.zeros((n, NOISE_BLOCK, 2 * SUBSTEPS))
        self._noise_rows = self._noise.reshape(n * NOISE_BLOCK, 2 * SUBSTEPS)
        self._noise_now: Floats = np.zeros((n, 2 * SUBSTEPS))
        # Row of the noise that each copy uses next; at the end of its block it draws a new one.
        self._end_row = np.arange(1, n + 1) * NOISE_BLOCK
        self._row = self._end_row.copy()
        # Views made once: indexing inside the substep loop would cost as much as the arithmetic.
        self._velocity_steps = [
            (self._velocity[k], self._velocity[k + 1], self._impulse[k]) for k in range(SUBSTEPS)
        ]
        self._position_steps = [
            (self._position[k], self._position[k + 1], self._displacement[k])
            for k in range(SUBSTEPS)
        ]
        self._traces: list[list[tuple[float, float]]] = [[] for _ in range(n)]

    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        self._row[indices] = self._end_row[indices]
        self._position[-1][:, indices] = START[:, None]
        self._velocity[-1][:, indices] = 0.0
        self._set_contexts(indices, contexts)
        self._physics_obs[indices] = (START[0], 0.0, START[1], 0.0)
        if self.render_mode is not None:
            for i in indices:
                self._traces[i] = [(START[0], START[1])]

    def _set_contexts(self, indices: Indices, contexts: Floats) -> None:
        self._gate[indices] = contexts[:, 0]
        self._half_width[indices] = 0.5 * contexts[:, 1]
        # Setups without a friction are frictionless.
        self._decay[:, indices] = 1.0 - TIME_STEP * contexts[:, 2:].sum(axis=1)

    def _step_copies(self, actions: Floats) -> None:
        position, velocity = self._position, self._velocity
        position[0], velocity[0] = position[-1], velocity[-1]
        used_up = self._row == self._end_row
        if used_up.any():
            for i in np.flatnonzero(used_up):
                self._rngs[i].standard_normal(out=self._noise[i])
            self._row[used_up] -= NOISE_BLOCK
        # "clip" is not needed for safety: it spares NumPy a buffered copy.
        np.take(self._noise_rows, self._row, axis=0, out=self._noise_now, mode="clip")
        self._row += 1
        np.multiply(self._noise_now.T, TIME_STEP * NOISE, out=self._impulse_rows)
        self._impulse += (TIME_STEP * DRIVE) * actions.T

        decay, low, high = self._decay, self._low_wall, self._high_wall
        for before, after, impulse in self._velocity_steps:
            np.multiply(before, decay, out=after)
            np.add(after, impulse, out=after)
        np.multiply(velocity[:-1], TIME_STEP, out=self._displacement)
        for before, after, displacement in self._position_steps:
            np.add(before, displacement, out=after)
            np.maximum(after, low, out=after)
            np.minimum(after, high, out=after)

        self._terminated[:] = False
        y = position[:, 1]
        # The wall is reached from above or from below; a mass that rests on it reached it before.
        above, below = y > 0.0, y < 0.0
        reached = (above[:-1] & ~above[1:]) | (below[:-1] & ~below[1:])
        if reached.any():
            self._stop_at_wall(reached)
        if self.render_mode is not None:
            self._trace()

        end = position[-1]
        self._physics_obs[:, 0::2] = end.T
        self._physics_obs[:, 1::2] = velocity[-1].T
        offset = np.subtract(end, GOAL[:, None], out=self._offset)
        np.multiply(offset, offset, out=offset)
        distance = np.sqrt(offset[0] + offset[1])
        np.less_equal(distance, GOAL_RADIUS, out=self._success)
        np.exp(distance * -REWARD_RATE, out=self._reward)

    def _stop_at_wall(self, reached: Bools) -> None:
        """Stops those that reach the wall outside their gate, at the first point where they do."""
        before, copies = np.nonzero(reached)
        x, y = self._position[:, 0], self._position[:, 1]
        x0, y0 = x[before, copies], y[before, copies]
        x1, y1 = x[before + 1, copies], y[before + 1, copies]
        crossing = x0 + y0 / (y0 - y1) * (x1 - x0)
        outside = np.abs(crossing - self._gate[copies]) > self._half_width[copies]
        if not outside.any():
            return
        # Crossings are in the order of substeps, and `unique` finds the first of each copy.
        stopped, first = np.unique(copies[outside], return_index=True)
        self._position[-1, 0, stopped] = crossing[outside][first]
        self._position[-1, 1, stopped] = 0.0
        self._velocity[-1][:, stopped] = 0.0
        self._terminated[stopped] = True

    def _keep_copies(self, indices: Indices) -> bool:
        position, velocity = self._position[-1][:, indices], self._velocity[-1][:, indices]
        noise, left = self._noise[indices], (self._end_row - self._row)[indices]
        traces = [self._traces[i] for i in indices]
        self._allocate(len(indices))
        self._position[-1], self._velocity[-1], self._traces = position, velocity, traces
        self._noise[:] = noise
        self._row -= left
        self._set_contexts(np.arange(len(indices)), self._clipped[indices])
        return True

    def _reference_actions(self) -> Floats:
        return steer_through_gate(self._position[-1], self._velocity[-1], self._clipped)

    def _trace(self) -> None:
        for i, trace in enumerate(self._traces):
            if not self._terminated[i]:
                trace.extend((float(x), float(y)) for x, y in self._position[1:-1, :, i])
            trace.append((float(self._position[-1, 0, i]), float(self._position[-1, 1, i])))

    def _render_copy(self, index: int) -> Picture:
        return draw(self._traces[index], self._clipped[index], bool(self._terminated[index]))

    def _physics_state(self) -> dict[str, Any]:
        return {
            "position": self._position[-1].copy(),
            "velocity": self._velocity[-1].copy(),
            "noise": self._noise.copy(),
            "row": self._row.copy(),
        }

    def _load_physics_state(self, state: Mapping[str, Any]) -> None:
        self._position[-1] = np.asarray(state["position"])
        self._velocity[-1] = np.asarray(state["velocity"])
        self._noise[:] = np.asarray(state["noise"])
        self._row[:] = np.asarray(state["row"])
        self._set_contexts(self._all, self._clipped)
        self._traces = [[(float(x), float(y))] for x, y in self._position[-1].T]
