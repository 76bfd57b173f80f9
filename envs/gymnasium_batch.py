"""The batch around copies of a plain `gymnasium.Env`, stepped here or in worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacebench.envs.arrays import Floats, Indices, Picture
from pacebench.envs.base import BatchEnv, ContextSource
from pacebench.envs.gymnasium_copies import CopySteps, EnvCopies
from pacebench.envs.setup import Setup
from pacebench.envs.streams import Seed

# Some environments hand their seed to generators of 32 signed bits.
_SEEDS = 2**31 - 1


class GymnasiumBatch(BatchEnv):
    """N instances of an environment that knows nothing of contexts.

    Each episode of a copy is seeded by one number from the copy's stream, through the environment's
    own `reset(seed=…)`, so that the stream alone decides what it does.
    """

    strobe = False

    def __init__(
        self,
        setup: Setup,
        num_envs: int,
        seed: Seed | Sequence[Seed],
        contexts: ContextSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Takes the arguments of `BatchEnv`."""
        assert setup.gymnasium is not None
        count = max(1, num_envs) if isinstance(num_envs, int) else 1
        processes = min(setup.gymnasium.processes, count)
        if processes > 1:
            # Imported here: few need it.
            from pacebench.envs.gymnasium_workers import WorkerCopies

            self._copies: Any = WorkerCopies(setup, count, render_mode, processes)
        else:
            self._copies = EnvCopies(setup, count, render_mode)
        self.physics_space, self.action_box = self._copies.physics_space, self._copies.action_box
        self.render_fps = self._copies.fps
        super().__init__(setup, num_envs, seed, contexts, render_mode)
        flags = (self._terminated, self._cut, self._success)
        self._copies.write_into(CopySteps(self._physics_obs, self._reward, *flags))

    def _reset_copies(self, indices: Indices, contexts: Floats) -> None:
        chosen = indices.tolist()
        seeds = [int(self._rngs[i].integers(_SEEDS)) for i in chosen]
        self._copies.reset(chosen, contexts.tolist(), seeds)

    def _step_copies(self, actions: Any) -> None:
        self._copies.step(actions)

    def dismiss(self, indices: Indices) -> bool:
        """Steps these copies no more until they are reset; they keep their places."""
        self._copies.dismiss(indices.tolist())
        return super().dismiss(indices)

    def _render_copy(self, index: int) -> Picture:
        return np.asarray(self._copies.render(index))

    def close(self) -> None:
        """Closes the copies."""
        self._copies.close()
