"""Where the seeds of a batch practise: their copies of the environment, and their episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pacebench import envs
from pacebench.harness.learners.base import EnvStep, Floats
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.training.scheduler import CurriculumScheduler


class TrainingEnvs:
    """S × n copies of a setup's environment, the contexts drawn by each seed's curriculum.

    Each copy has its own random stream, which belongs to its seed: nothing that happens to one
    seed is felt by another.

    Attributes:
        obs: The current observations (S, n, observation).
        broken: Why the observations of a seed cannot be learned from, by its position.
    """

    def __init__(
        self,
        setup: envs.Setup,
        seeds: Sequence[RunSeed],
        schedulers: Sequence[CurriculumScheduler],
        copies: int,
    ) -> None:
        self.setup, self.seeds, self.schedulers, self.copies = setup, seeds, schedulers, copies
        self.count = len(seeds)
        total = self.count * copies
        sequences = [
            _child(seed.sequence(RunRole.ENVIRONMENT), i) for seed in seeds for i in range(copies)
        ]
        self.env = envs.make_batch(setup, total, sequences, self._draw)
        # Held here as well, because a checkpoint keeps their states.
        self.streams = [np.random.default_rng(sequence) for sequence in sequences]
        for i, stream in enumerate(self.streams):
            self.env.set_stream(i, stream)
        self.observation_space = self.env.observation_space
        self.action_space = self.env.action_space
        self._shape = (self.count, copies)
        self.obs: Floats = np.zeros((*self._shape, *self.observation_space.shape))
        self.restarted: list[int] = []
        self.broken: dict[int, str] = {}
        self._return = np.zeros(total)
        self._discount = np.ones(total)
        # Number of the running episode within its cohort; −1 outside of any.
        self._slot = np.full(total, -1)

    def restart(self, rows: list[int]) -> None:
        """Begins new episodes in all copies of these seeds, with contexts from the current p."""
        self.restarted = rows
        if not rows:
            return
        n = self.copies
        chosen = np.concatenate([np.arange(k * n, (k + 1) * n) for k in rows])
        obs = self.env.reset(indices=chosen)
        self.obs[rows] = obs.reshape(len(rows), n, -1)
        self._return[chosen], self._discount[chosen] = 0.0, 1.0
        self._start(chosen)

    def step(self, actions: NDArray[np.floating]) -> EnvStep:
        """Steps all copies with actions (S, n, action); finished ones begin anew by themselves."""
        obs, reward, terminated, truncated, info = self.env.step(
            actions.reshape(-1, actions.shape[-1])
        )
        self._return += self._discount * reward
        self._discount *= self.setup.gamma
        done = terminated | truncated
        if done.any():
            finished = np.flatnonzero(done)
            self._finish(finished, info["context"])
            self._return[finished], self._discount[finished] = 0.0, 1.0
        final_obs = info["final_obs"]
        # A sum is finite only if all its terms are, and costs less than asking each of them.
        if not np.isfinite(obs.sum() + reward.sum() + final_obs.sum()):
            self._mend(obs, reward, final_obs)
        shape = self._shape
        self.obs = obs.reshape(*shape, -1)
        if done.any():
            self._start(finished)
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
        n = self.copies
        for i in indices.tolist():
            k = i // n
            self._slot[i] = self.schedulers[k].begin(self.obs[k, i - k * n])

    def _finish(self, indices: NDArray[np.intp], contexts: Floats) -> None:
        for i in indices.tolist():
            cohort = self.schedulers[i // self.copies].cohort
            cohort.end(int(self._slot[i]), contexts[i], float(self._return[i]))

    def _mend(self, obs: Floats, reward: Floats, final_obs: Floats) -> None:
        """Blames the seeds whose numbers are not finite, and lets the others go on."""
        n = self.copies
        for what, array in (("observation", obs), ("reward", reward), ("observation", final_obs)):
            bad = ~np.isfinite(array)
            if not bad.any():
                continue
            for i in np.flatnonzero(bad.reshape(len(array), -1).any(axis=1)).tolist():
                self.broken.setdefault(
                    i // n, f"The environment returned a non-finite {what} in copy {i % n}."
                )
            array[bad] = 0.0


def _child(sequence: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, index))
