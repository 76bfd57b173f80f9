"""The environments of a batch of seeds during training, and the episodes played in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pacebench import envs
from pacebench.envs.arrays import Bools, Floats
from pacebench.harness.learners.base import EnvStep
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.training.non_finite import zero_non_finite
from pacebench.harness.training.scheduler import CurriculumScheduler


class TrainingEnvs:
    """S × n copies of a setup's environment, the contexts drawn by each seed's curriculum.

    Each copy has its own random stream, which belongs to its seed: nothing that happens to one
    seed affects another. Implements `harness.learners.base.RolloutEnvs`.
    """

    def __init__(
        self,
        setup: envs.Setup,
        seeds: Sequence[RunSeed],
        schedulers: Sequence[CurriculumScheduler],
        copies: int,
    ) -> None:
        self.setup, self.schedulers, self.copies = setup, schedulers, copies
        self._shape = (len(seeds), copies)
        total = len(seeds) * copies
        sequences = [seed.sequence(RunRole.ENVIRONMENT, i) for seed in seeds for i in range(copies)]
        self.env = envs.make_batch(setup, total, sequences, self._draw)
        # Held here as well, because a checkpoint keeps their states.
        self._streams = [np.random.default_rng(sequence) for sequence in sequences]
        for i, stream in enumerate(self._streams):
            self.env.set_stream(i, stream)
        self.observation_space = self.env.observation_space
        self.action_space = self.env.action_space
        self.obs: Floats = np.zeros((*self._shape, *self.observation_space.shape))
        self.restarted: list[int] = []
        self.broken: dict[int, str] = {}
        self._return, self._undiscounted, self._length = np.zeros((3, total))
        self._discount = np.ones(total)
        # Number of each copy's running episode within its cohort; −1 outside of any.
        self._slot = np.full(total, -1)

    def streams(self, k: int) -> list[np.random.Generator]:
        """Returns the generators of the copies of the seed at position k."""
        return self._streams[k * self.copies : (k + 1) * self.copies]

    def restart(self, rows: list[int]) -> None:
        """Begins new episodes in all copies of these seeds, with freshly drawn contexts."""
        self.restarted = rows
        if not rows:
            return
        n = self.copies
        chosen = np.concatenate([np.arange(k * n, (k + 1) * n) for k in rows])
        self.obs[rows] = self.env.reset(indices=chosen).reshape(len(rows), n, -1)
        self._start(chosen)

    def step(self, actions: NDArray[np.floating]) -> EnvStep:
        """Steps all copies with actions (S, n, action); finished ones begin anew by themselves."""
        obs, reward, terminated, truncated, info = self.env.step(
            actions.reshape(-1, actions.shape[-1])
        )
        final_obs = info["final_obs"]
        self._return += self._discount * reward
        self._discount *= self.setup.gamma
        self._undiscounted += reward
        self._length += 1
        done = terminated | truncated
        ended = np.flatnonzero(done)
        self._finish(ended, info["context"], info["success"])
        for what, array in (("observation", obs), ("reward", reward), ("observation", final_obs)):
            for i in zero_non_finite(array):
                k, copy = divmod(i, self.copies)
                self.broken.setdefault(
                    k, f"The environment returned a non-finite {what} in copy {copy}."
                )
        shape = self._shape
        self.obs = obs.reshape(*shape, -1)
        self._follow(~done)
        self._start(ended)
        return EnvStep(
            self.obs,
            reward.reshape(shape),
            terminated.reshape(shape),
            truncated.reshape(shape),
            final_obs.reshape(*shape, -1),
        )

    def _draw(self, indices: NDArray[np.intp]) -> Floats:
        """Gives finished copies their next contexts: the batch's context source."""
        owners = indices // self.copies
        return np.concatenate(
            [self.schedulers[k].draw(int(m)) for k, m in enumerate(np.bincount(owners)) if m]
        )

    def _start(self, indices: NDArray[np.intp]) -> None:
        self._return[indices], self._discount[indices] = 0.0, 1.0
        self._undiscounted[indices] = self._length[indices] = 0.0
        for i in indices.tolist():
            k, copy = divmod(i, self.copies)
            self._slot[i] = self.schedulers[k].begin(self.obs[k, copy])

    def _follow(self, running: Bools) -> None:
        """Shows running episodes to the schedulers that want to see all of their observations."""
        for k, scheduler in enumerate(self.schedulers):
            if not (scheduler.follows and scheduler.collecting):
                continue
            for copy in range(self.copies):
                if running[i := k * self.copies + copy]:
                    scheduler.follow(int(self._slot[i]), self.obs[k, copy])

    def _finish(self, indices: NDArray[np.intp], contexts: Floats, success: Bools) -> None:
        for i in indices.tolist():
            self.schedulers[i // self.copies].cohort.end(
                int(self._slot[i]),
                contexts[i],
                float(self._return[i]),
                returns=float(self._undiscounted[i]),
                success=float(success[i]),
                lengths=float(self._length[i]),
            )
