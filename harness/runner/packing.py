"""Which seeds go together: large batches are cheap per seed, small ones keep every core busy."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell

# A batch of k seeds takes as long as FIXED + k, in seconds of one more seed: the interpreter's work
# per step is shared. Measured for `ppo` by `python -m benchmarks.runner batches`.
FIXED = 2.0
# Beyond this the arrays leave the processor's cache and nothing is gained.
LARGEST = 32


@dataclass(frozen=True)
class Batch:
    """Seeds of one cell that are trained together."""

    label: str
    cell: Cell
    seeds: tuple[RunSeed, ...]

    def cost(self, rate: float = 1.0) -> float:
        """Returns how long it takes, in seconds where `rate` is seconds per environment step."""
        return rate * self.cell.budget * (FIXED + len(self.seeds))


def is_batched(cell: Cell) -> bool:
    """Says whether the cell's learner trains several seeds in one program."""
    from pacebench.harness import learners

    return learners.get(cell.learner.name).capabilities.batched_seeds


def pack(
    cells: Sequence[tuple[str, Cell, Sequence[RunSeed]]],
    workers: int,
    batched: Callable[[Cell], bool] = is_batched,
) -> list[Batch]:
    """Splits every cell's seeds into batches so that `workers` processes finish together early.

    All batch sizes up to `LARGEST` are tried, and the one with which the study ends first (batches
    handed out longest first) is taken; of equals the largest, which costs the least work.

    Returns:
        The batches, longest first.
    """
    best: tuple[float, list[Batch]] | None = None
    together = [batched(cell) for _, cell, _ in cells]
    longest = max((len(seeds) for _, _, seeds in cells), default=1)
    for size in range(min(longest, LARGEST), 0, -1):
        batches = [
            Batch(label, cell, part)
            for (label, cell, seeds), many in zip(cells, together, strict=True)
            for part in _split(seeds, size if many else 1)
        ]
        end = _makespan([batch.cost() for batch in batches], workers)
        if best is None or end < best[0] * (1 - 1e-9):
            best = (end, batches)
        if not any(together):
            break
    assert best is not None
    return sorted(best[1], key=Batch.cost, reverse=True)


def _split(seeds: Sequence[RunSeed], size: int) -> list[tuple[RunSeed, ...]]:
    """Splits seeds into as few parts of at most `size` as possible, nearly equally long."""
    parts = -(-len(seeds) // size)
    edges = [round(i * len(seeds) / parts) for i in range(parts + 1)] if parts else [0]
    return [tuple(seeds[a:b]) for a, b in pairwise(edges)]


def _makespan(costs: Sequence[float], workers: int) -> float:
    """Returns when the last of `workers` processes is done, batches handed out longest first."""
    free = [0.0] * max(1, workers)
    for cost in sorted(costs, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + cost)
    return max(free)
