"""One number per training run: the only thing an interval or a test accepts.

Seed identities travel with the values. An array of episodes cannot pass for an array of runs,
because its rows would repeat seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pacebench.harness.errors import UserError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one method: `matrix[i, j]` is the run with seed `seeds[i]` on task `tasks[j]`.

    Attributes:
        method: The method's name.
        tasks: Task names, one per column.
        seeds: Seed identities, one per row.
        matrix: The scores, runs × tasks, read-only.
    """

    method: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    matrix: FloatArray

    def __post_init__(self) -> None:
        where = f"Scores of '{self.method}'"
        try:
            values = np.array(self.matrix, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{where} are ragged or not numbers: give every task one number for every seed."
            ) from error
        if values.size == 0:
            raise UserError(f"{where} are empty.")
        if not all(isinstance(task, str) for task in self.tasks):
            raise UserError(f"{where}: task names must be strings; were seeds given as tasks?")
        if not all(isinstance(seed, int | np.integer) for seed in self.seeds):
            raise UserError(f"{where}: seeds must be integers; were tasks given as seeds?")
        shape = (len(self.seeds), len(self.tasks))
        if values.shape != shape:
            hint = (
                "it is transposed: runs are rows and tasks are columns"
                if values.shape == shape[::-1]
                else "give one row per seed and one column per task"
            )
            raise UserError(f"{where} have shape {values.shape}, expected {shape}; {hint}.")
        if len(set(self.tasks)) != len(self.tasks):
            raise UserError(f"{where} name a task twice.")
        if len(set(self.seeds)) != len(self.seeds):
            raise UserError(
                f"{where} hold a seed twice; the unit is the training run, so average the "
                f"episodes of each run before comparing runs."
            )
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise UserError(
                f"{where}: seed {self.seeds[row]} on '{self.tasks[column]}' is "
                f"{values[row, column]}; score failed runs with the declared floor."
            )
        values.setflags(write=False)
        object.__setattr__(self, "matrix", values)
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))

    @classmethod
    def single_task(
        cls, method: str, values: Sequence[float] | FloatArray, task: str = "task"
    ) -> Scores:
        """Builds the scores of one task from one value per run, with seeds 0, 1, 2, …."""
        column = np.asarray(values, dtype=np.float64)
        if column.ndim != 1:
            raise UserError(f"Scores of '{method}' on one task must be a vector, one per run.")
        return cls(method, (task,), tuple(range(column.size)), column[:, None])

    @property
    def runs(self) -> int:
        """Runs per task."""
        return len(self.seeds)

    def task(self, name: str) -> Scores:
        """Returns the scores on one task alone."""
        column = self.tasks.index(name)
        return Scores(self.method, (name,), self.seeds, self.matrix[:, [column]])


def aligned(a: Scores, b: Scores) -> tuple[FloatArray, FloatArray]:
    """Returns two methods' matrices with the tasks in the same order.

    Raises:
        UserError: If the methods were not run on the same tasks.
    """
    if set(a.tasks) != set(b.tasks):
        raise UserError(
            f"'{a.method}' and '{b.method}' were run on different tasks "
            f"({', '.join(sorted(set(a.tasks) ^ set(b.tasks)))}); compare them on common ones."
        )
    return a.matrix, b.matrix[:, [b.tasks.index(task) for task in a.tasks]]


def require_replication(*scores: Scores) -> None:
    """Refuses fewer than two runs per task: one run has no spread.

    Raises:
        UserError: If a method has a single run.
    """
    for item in scores:
        if item.runs < 2:
            raise UserError(
                f"'{item.method}' has one run per task, from which no spread can be estimated; "
                f"run at least 3 seeds (10 for a claim, 20 recommended)."
            )
