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

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula
from pacebench.envs.arrays import Floats
from pacebench.harness.study.specs import ScheduleCell

Critic = Callable[[Floats], Floats]


class Cohort:
    """The first K episodes started since it was opened.

    Attributes:
        size: K.
        contexts: Their contexts (K, d).
        values: Their values (K,).
        left_out: Episodes outside of any cohort that ended since the last update.
    """

    def __init__(self, size: int, dim: int) -> None:
        self.size = size
        self.contexts = np.zeros((size, dim))
        self.values = np.zeros(size)
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

    def end(self, slot: int, context: NDArray[np.floating], value: float) -> None:
        """Notes the end of an episode."""
        if slot < 0:
            self.left_out += 1
            return
        self.contexts[slot], self.values[slot] = context, value
        self._ended[slot] = True

    @property
    def complete(self) -> bool:
        """Whether all of the episodes have ended."""
        return bool(self._ended.all())


class CurriculumScheduler:
    """One seed's curriculum with its random stream, its cohort and its records.

    Attributes:
        curriculum: The curriculum.
        rng: The stream that contexts are drawn from.
        cohort: The episodes of the next update.
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
        # First observations of the cohort's episodes, where a critic may be asked for their values.
        self._first_obs: list[Floats] = [np.zeros(0)] * self.cohort.size
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
            self._first_obs[slot] = obs.copy()
        return slot

    @property
    def complete(self) -> bool:
        """Whether the cohort is under way and all of its episodes have ended."""
        return self.collecting and self.cohort.complete

    def update(self, policy_updates: int, env_steps: int, critic: Critic) -> None:
        """Gives the cohort to the curriculum and keeps the record."""
        cohort = self.cohort
        by_return = self.schedule.value_signal == "return"
        values = cohort.values if by_return else critic(np.stack(self._first_obs))
        record = self.curriculum.update(cohort.contexts, values)
        theta = getattr(self.curriculum, "theta", None)
        row: dict[str, Any] = {
            "iteration": policy_updates,
            "env_steps": env_steps,
            "episodes": cohort.size,
            "discarded": cohort.left_out,
            "mean": self.curriculum.distribution.mean.tolist(),
            "std": self.curriculum.distribution.std.tolist(),
            "theta": None if theta is None else np.asarray(theta).tolist(),
            **record.to_dict(),
        }
        for name, value in row.items():
            self.rows.setdefault(name, []).append(value)
        self._anchor = policy_updates
        self.collecting = False
        cohort.left_out = 0

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
