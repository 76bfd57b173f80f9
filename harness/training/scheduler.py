"""The curriculum in the loop of one seed: which episodes it learns from, and when.

An update needs contexts drawn from the *current* distribution, and episodes that are not selected
by their outcome. Cohorts provide both:

- A cohort begins with the iteration after which the next update is due: all copies of the seed
  restart, so that every running episode has its context from the current distribution.
- Its members are the first K episodes *started* from then on, K fixed in advance. The update waits
  until the last of them has ended. Taking the episodes that happen to have *ended* would over-count
  short ones, that is, crashes.

Restarts follow the schedule and not the curriculum, so every curriculum, also one that never
moves, gives the learner the same kind of data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula
from pacebench.envs.arrays import Floats
from pacebench.harness.study.specs import ScheduleCell

Critic = Callable[[Floats], Floats]

# What the environments alone tell of a finished episode.
MEASURED = ("returns", "discounted_returns", "success", "lengths")


class Cohort:
    """The first K episodes started since it was opened.

    Attributes:
        size: K.
        contexts: Their contexts (K, d).
        columns: What else is measured of each, by its name in `curricula.Episodes`, (K,).
        left_out: Episodes outside of any cohort that ended since the last update.
    """

    def __init__(self, size: int, dim: int) -> None:
        self.size = size
        self.contexts = np.zeros((size, dim))
        self.columns = {name: np.zeros(size) for name in MEASURED}
        self.left_out = 0
        self._ended = np.zeros(size, dtype=np.bool_)
        # Closed until `open` is called: a full cohort takes in no further episode.
        self._started = size

    def open(self) -> None:
        """Takes in the episodes that start from here on; those running now belong to none."""
        self._started = 0
        self._ended[:] = False

    def begin(self) -> int:
        """Notes the start of an episode; returns its number in the cohort, −1 if it is full."""
        if self._started >= self.size:
            return -1
        self._started += 1
        return self._started - 1

    def end(
        self,
        slot: int,
        context: NDArray[np.floating],
        discounted_return: float,
        **measured: float,
    ) -> None:
        """Notes the end of an episode, and whatever else of `MEASURED` is known of it."""
        if slot < 0:
            self.left_out += 1
            return
        self.contexts[slot] = context
        for name, value in {"discounted_returns": discounted_return, **measured}.items():
            self.columns[name][slot] = value
        self._ended[slot] = True

    @property
    def complete(self) -> bool:
        """Whether all of the episodes have ended."""
        return bool(self._ended.all())

    def episodes(self, reads: Collection[str], **more: Floats) -> curricula.Episodes:
        """Returns what is to be read of the episodes, in the order in which they started."""
        # Copies: the next cohort is written into the same arrays, and a curriculum may keep these.
        columns = {k: v for k, v in self.columns.items() if k in reads} | more
        kept: dict[str, Any] = {k: v.copy() for k, v in columns.items()}
        return curricula.Episodes(contexts=self.contexts.copy(), **kept)


class CurriculumScheduler:
    """One seed's curriculum with its random stream, its cohort and its records.

    Attributes:
        rng: The stream that contexts are drawn from.
        collecting: Whether the cohort is under way.
        rows: One column per field of the records of all updates so far; empty before the first.
    """

    def __init__(
        self,
        curriculum: curricula.Curriculum,
        rng: np.random.Generator,
        schedule: ScheduleCell,
        copies: int,
    ) -> None:
        self.curriculum, self.rng, self.schedule = curriculum, rng, schedule
        self.cohort = Cohort(max(schedule.min_episodes, copies), curriculum.dim)
        # Observations of the cohort's episodes that a critic may be asked about: the first of each,
        # or where the curriculum reads the errors of the values, all of them.
        self.follows = "value_errors" in curriculum.reads
        self._observed: list[list[Floats]] = [[] for _ in range(self.cohort.size)]
        self.collecting = False
        # Policy updates done at the last curriculum update; before the first, those of the warm-up.
        self._anchor = schedule.warm_up
        self.rows: dict[str, list[Any]] = {}

    def draw(self, n: int) -> Floats:
        """Returns contexts (n, d) from the current distribution."""
        return self.curriculum.sample(n, self.rng)

    def wants_restart(self, policy_updates: int) -> bool:
        """Says whether a cohort begins with the next iteration, after which an update is due."""
        return not self.collecting and policy_updates + 1 - self._anchor >= self.schedule.every

    def open_cohort(self) -> None:
        """Begins the cohort of the next update."""
        self.collecting = True
        self.cohort.open()

    def begin(self, obs: Floats) -> int:
        """Notes the start of an episode; returns its number in the cohort, −1 outside of any."""
        slot = self.cohort.begin()
        if slot >= 0:
            self._observed[slot] = [obs.copy()]
        return slot

    def follow(self, slot: int, obs: Floats) -> None:
        """Notes a further observation of an episode."""
        if slot >= 0:
            self._observed[slot].append(obs.copy())

    @property
    def complete(self) -> bool:
        """Whether the cohort is under way and all of its episodes have ended."""
        return self.collecting and self.cohort.complete

    def update(self, policy_updates: int, env_steps: int, critic: Critic) -> None:
        """Gives the cohort to the curriculum and keeps the record."""
        cohort, reads = self.cohort, self.curriculum.reads
        signal = cohort.columns["discounted_returns"]
        if self.schedule.value_signal == "critic" or "start_values" in reads:
            start_values = critic(np.stack([observed[0] for observed in self._observed]))
            if self.schedule.value_signal == "critic":
                signal = start_values
        more = {"values": signal}
        if "start_values" in reads:
            more["start_values"] = start_values
        if self.follows:
            more["value_errors"] = self._value_errors(critic)
        record = self.curriculum.update(cohort.episodes(reads, **more))
        theta = getattr(self.curriculum, "theta", None)
        mean, std = curricula.moments(self.curriculum.distribution)
        row: dict[str, Any] = {
            "iteration": policy_updates,
            "env_steps": env_steps,
            "episodes": cohort.size,
            "discarded": cohort.left_out,
            "mean": mean.tolist(),
            "std": std.tolist(),
            "theta": None if theta is None else np.asarray(theta).tolist(),
            **record.to_dict(),
        }
        for name, value in row.items():
            self.rows.setdefault(name, []).append(value)
        self._anchor = policy_updates
        self.collecting = False
        cohort.left_out = 0

    def _value_errors(self, critic: Critic) -> Floats:
        """Returns the mean of max(0, R − V(s)) over each episode, R the best return known there."""
        best = np.maximum(
            self.cohort.columns["discounted_returns"],
            self.curriculum.best_returns(self.cohort.contexts),
        )
        lengths = [len(observed) for observed in self._observed]
        values = critic(np.concatenate([np.stack(observed) for observed in self._observed]))
        errors = np.maximum(0.0, np.repeat(best, lengths) - values)
        ends = np.cumsum(lengths)
        return np.add.reduceat(errors, np.concatenate([[0], ends[:-1]])) / lengths

    def state(self) -> dict[str, Any]:
        """Returns what the future depends on, between two cohorts, as JSON-able values."""
        return {
            "curriculum": self.curriculum.state_dict(),
            "rng": self.rng.bit_generator.state,
            "anchor": self._anchor,
            "left_out": self.cohort.left_out,
            "rows": self.rows,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.curriculum.load_state_dict(state["curriculum"])
        self.rng.bit_generator.state = state["rng"]
        self._anchor, self.cohort.left_out = state["anchor"], state["left_out"]
        self.rows = {name: list(column) for name, column in state["rows"].items()}
        self.collecting = False
