"""The maze over all copies at once: bounded moves, walls that stop them, and one rewarded event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from pacebench.envs.arrays import Floats, Indices, Picture
from pacebench.envs.base import BatchEnv
from pacebench.envs.sparse_maze.drawing import draw
from pacebench.envs.sparse_maze.ring import INNER, MAX_STEP, OUTER, stopped_by_walls, walk


class SparseMazeBatch(BatchEnv):
    """N walkers; observation the position, action the move, of length one at most.

    A move longer than one is shortened to it, and is then `MAX_STEP` long. Each step costs 1 until
    the walker is nearer to its goal than the tolerance, which ends the episode and costs nothing.
    """

    physics_space = spaces.Box(-OUTER, OUTER, (2,), dtype=np.float64)
    action_box = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `BatchEnv`."""
        super().__init__(*args, **kwargs)
        self._position: Floats = np.zeros((self.num_envs, 2))
        self._traces: list[list[tuple[float, float]]] = [[] for _ in range(self.num_envs)]

    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        for i in indices:
            self._position[i] = self._rngs[i].uniform(-OUTER, -INNER, 2)
            self._traces[i] = [tuple(self._position[i])]
        self._physics_obs[indices] = self._position[indices]

    def _step_copies(self, actions: Floats) -> None:
        x, y = actions.T
        length = np.maximum(1.0, np.sqrt(x * x + y * y))
        before = self._position
        self._position = stopped_by_walls(before, before + MAX_STEP * (actions / length[:, None]))
        self._physics_obs[:] = self._position
        dx, dy = (self._position - self._clipped[:, :2]).T
        np.less(np.sqrt(dx * dx + dy * dy), self._clipped[:, 2], out=self._success)
        self._terminated[:] = self._success
        self._reward[:] = np.where(self._success, 0.0, -1.0)
        if self.render_mode is not None:
            for trace, (px, py) in zip(self._traces, self._position.tolist(), strict=True):
                trace.append((px, py))

    def _keep_copies(self, indices: Indices) -> bool:
        self._position = self._position[indices]
        self._traces = [self._traces[i] for i in indices]
        return True

    def _reference_actions(self) -> Floats:
        """Walks the corridor along the shortest way."""
        move = (walk(self._position, self._clipped[:, :2]) - self._position) / MAX_STEP
        scaled: Floats = move / np.maximum(1.0, np.hypot(*move.T))[:, None]
        return scaled

    def _render_copy(self, index: int) -> Picture:
        return draw(self._traces[index], self._clipped[index], bool(self._success[index]))

    def _physics_state(self) -> dict[str, Any]:
        return {"position": self._position.copy()}

    def _load_physics_state(self, state: Mapping[str, Any]) -> None:
        self._position[:] = np.asarray(state["position"])
        self._traces = [[(float(x), float(y))] for x, y in self._position]
