"""The environments of a batch of seeds during training, and the episodes played in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pacebench import envs
from pacebench.envs.arrays import Bools, Floats
from pacebench.harness.learners.base import EnvStep
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.training.non_finite import zero_non_finite
from pacebench.harness.training.scheduler import CurriculumScheduler


@dataclass(frozen=True)
class EpisodeLog:
    """What the copies of one seed have done since they last restarted together.

    Physics engines cannot all save their state, so a checkpoint in the middle of episodes holds
    what led there, and playing it again leads there again.

    Attributes:
        actions: (steps, n, action).
        contexts: Those of every copy's episodes in their order, copy after copy, (episodes, d).
        episodes: How many of them are each copy's, (n,).
        streams: States of the copies' generators when they restarted.
        in_cohort: Whether the cohort that began with the restart is still under way.
    """

    actions: NDArray[np.floating]
    contexts: Floats
    episodes: NDArray[np.int64]
    streams: Sequence[Mapping[str, Any]]
    in_cohort: bool


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
        self.action_space: spaces.Box | spaces.Discrete = self.env.action_space
        self.obs: Floats = np.zeros((*self._shape, *self.observation_space.shape))
        self.restarted: list[int] = []
        self.broken: dict[int, str] = {}
        selective = any(scheduler.curriculum.selective for scheduler in schedulers)
        self.learned = np.ones(self._shape, dtype=np.bool_) if selective else None
        self._return, self._undiscounted, self._length = np.zeros((3, total))
        self._discount = np.ones(total)
        # Number of each copy's running episode within its cohort; −1 outside of any.
        self._slot = np.full(total, -1)
        # The log of all seeds: actions (S, n, action) since the earliest restart, the first step of
        # each seed in it, and what belongs to its restart.
        self._actions: list[NDArray[np.floating]] = []
        self._first = [0] * len(seeds)
        self._contexts: list[list[Floats]] = [[] for _ in range(total)]
        self._restart_streams: list[Sequence[Mapping[str, Any]]] = [[] for _ in seeds]
        self._replayed: list[list[Floats]] | None = None

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
        for k in rows:
            self._first[k] = len(self._actions)
            self._restart_streams[k] = [rng.bit_generator.state for rng in self.streams(k)]
        for i in chosen.tolist():
            self._contexts[i] = []
        if needless := min(self._first):
            del self._actions[:needless]
            self._first = [first - needless for first in self._first]
        self.obs[rows] = self.env.reset(indices=chosen).reshape(len(rows), n, -1)
        self._start(chosen)

    def step(self, actions: NDArray[Any]) -> EnvStep:
        """Steps all copies with actions (S, n, …); finished ones begin anew by themselves."""
        self._actions.append(actions.copy())
        obs, reward, terminated, truncated, info = self.env.step(
            actions.reshape(-1, *actions.shape[2:])
        )
        final_obs = info["final_obs"]
        self._return += self._discount * reward
        self._discount *= self.setup.gamma
        self._undiscounted += reward
        self._length += 1
        done = terminated | truncated
        ended = np.flatnonzero(done)
        self._finish(ended, info["context"], info["success"])
        seen = [("observation", obs), ("reward", reward)]
        if len(ended):
            seen.append(("observation", final_obs))
        for what, array in seen:
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
        if self._replayed is not None:
            # Copies that are only there to be stepped along have no contexts left, or none yet.
            idle = np.array(self.setup.initial_mean)
            drawn = np.stack([q.pop(0) if (q := self._replayed[i]) else idle for i in indices])
        else:
            owners = indices // self.copies
            drawn = np.concatenate(
                [self.schedulers[k].draw(int(m)) for k, m in enumerate(np.bincount(owners)) if m]
            )
            if self.learned is not None:
                for i, context in zip(indices.tolist(), drawn, strict=True):
                    k, copy = divmod(i, self.copies)
                    said = self.schedulers[k].curriculum.learns_from(context[None])
                    self.learned[k, copy] = said[0]
        for i, context in zip(indices.tolist(), drawn, strict=True):
            self._contexts[i].append(context)
        return drawn

    def log(self, k: int) -> EpisodeLog:
        """Returns what led the copies of the seed at position k to where they are."""
        n, done = self.copies, self._actions[self._first[k] :]
        played = self._contexts[k * n : (k + 1) * n]
        return EpisodeLog(
            actions=np.stack([actions[k] for actions in done]),
            contexts=np.concatenate([np.stack(own) for own in played]),
            episodes=np.array([len(own) for own in played]),
            streams=self._restart_streams[k],
            in_cohort=self.schedulers[k].collecting,
        )

    def check_log(self, log: EpisodeLog) -> None:
        """Refuses a log that copies of this setup cannot have left.

        Raises:
            ValueError: It is one.
        """
        n, (steps, *shape) = self.copies, log.actions.shape
        whole = (
            steps > 0
            and shape == [n, *(self.action_space.shape or ())]
            and log.episodes.shape == (n,)
            and log.episodes.min() > 0
            and log.contexts.shape == (log.episodes.sum(), self.setup.dim)
            and len(log.streams) == n
        )
        if not whole:
            raise ValueError("its log of actions cannot be right")

    def replay(self, logs: Mapping[int, EpisodeLog]) -> None:
        """Leads the copies of some seeds, by position, to where their logs end, all together.

        Their cohorts are filled again on the way. The copies of the other seeds must be restarted
        afterwards, and what their schedulers and streams went through must be set right.
        """
        seeds, n = self._shape
        longest = max(len(log.actions) for log in logs.values())
        kind = next(iter(logs.values())).actions.dtype
        queues: list[list[Floats]] = [[] for _ in range(seeds * n)]
        self._replayed = queues
        self.restart([k for k in range(seeds) if k not in logs])
        for t in range(longest):
            beginning = [k for k, log in logs.items() if len(log.actions) == longest - t]
            for k in beginning:
                ends = np.cumsum(logs[k].episodes)[:-1]
                queues[k * n : (k + 1) * n] = map(list, np.split(logs[k].contexts, ends))
                for rng, saved in zip(self.streams(k), logs[k].streams, strict=True):
                    rng.bit_generator.state = saved
                if logs[k].in_cohort:
                    self.schedulers[k].open_cohort()
            # The copies must all have been reset once before the first step.
            self.restart(beginning if t else [*beginning, *(k for k in logs if k not in beginning)])
            actions = np.zeros((seeds, n, *(self.action_space.shape or ())), kind)
            for k, log in logs.items():
                if (now := t - longest + len(log.actions)) >= 0:
                    actions[k] = log.actions[now]
            self.step(actions)
        self._replayed = None
        self.restarted, self.broken = [], {}

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
