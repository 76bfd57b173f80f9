"""Which seeds go together: large batches are cheap per seed, small ones keep every core busy."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from pacebench.harness.study.specs import Cell, PlannedRun, by_cell

# A batch of k seeds takes as long as FIXED + k, in seconds of one more seed: the interpreter's work
# per step is shared. Measured for `ppo` by `python -m benchmarks.runner --only batches`.
FIXED = 2.0
# Beyond this the arrays leave the processor's cache and nothing is gained.
LARGEST = 32


# Runs of one cell that are trained together.
Batch = list[PlannedRun]


class Rates:
    """What is known of how fast kinds of cells train: they differ by a factor of ten.

    Args:
        seconds: Seconds per environment step, by a run of the kind.
    """

    def __init__(self, seconds: Iterable[tuple[PlannedRun, float]] = ()) -> None:
        self._seconds = {_kind(run): rate for run, rate in seconds}

    def measured(self, batch: Batch, seconds: float) -> None:
        """Takes note of how long a batch took."""
        self._seconds[_kind(batch[0])] = seconds / _steps(batch)

    def cost(self, batch: Batch) -> float:
        """Returns how long a batch takes; kinds that are not known are taken for average ones."""
        known = self._seconds.values()
        average = sum(known) / len(known) if known else 1.0
        return self._seconds.get(_kind(batch[0]), average) * _steps(batch)


def _kind(run: PlannedRun) -> tuple[str, str, str]:
    return run.cell.setup, run.cell.learner.name, run.cell.curriculum.name


def _steps(batch: Batch) -> float:
    return batch[0].cell.budget * (FIXED + len(batch))


def is_batched(cell: Cell) -> bool:
    """Says whether the cell's learner trains several seeds in one program."""
    from pacebench.harness import learners

    return learners.get(cell.learner.name).capabilities.batched_seeds


def pack(
    runs: Iterable[PlannedRun],
    workers: int,
    rates: Rates,
    batched: Callable[[Cell], bool] = is_batched,
) -> list[Batch]:
    """Splits every cell's runs into batches so that `workers` processes finish together early.

    All batch sizes up to `LARGEST` are tried, and the one with which the study ends first (batches
    handed out longest first) is taken; of equals the largest, which costs the least work.

    Returns:
        The batches, longest first.
    """
    best: tuple[float, list[Batch]] | None = None
    cells = by_cell(runs)
    together = [batched(cell[0].cell) for cell in cells]
    longest = max(map(len, cells), default=1)
    for size in range(min(longest, LARGEST), 0, -1):
        batches = [
            part
            for cell, many in zip(cells, together, strict=True)
            for part in _split(cell, size if many else 1)
        ]
        end = _makespan([rates.cost(batch) for batch in batches], workers)
        if best is None or end < best[0] * (1 - 1e-9):
            best = (end, batches)
        if not any(together):
            break
    assert best is not None
    return sorted(best[1], key=rates.cost, reverse=True)


def _split(runs: Batch, size: int) -> list[Batch]:
    """Splits runs into as few parts of at most `size` as possible, nearly equally long."""
    parts = -(-len(runs) // size)
    edges = [round(i * len(runs) / parts) for i in range(parts + 1)] if parts else [0]
    return [runs[a:b] for a, b in pairwise(edges)]


def _makespan(costs: Sequence[float], workers: int) -> float:
    """Returns when the last of `workers` processes is done, batches handed out longest first."""
    free = [0.0] * max(1, workers)
    for cost in sorted(costs, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + cost)
    return max(free)
