"""Training: a batch of seeds of one cell in, one record per seed out.

    results = harness.training.train(cell, seeds)

Importing this package imports no tensor library; training does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pacebench.harness.records import Hooks, NoHooks, RunResult
from pacebench.harness.seeding import RunSeed

if TYPE_CHECKING:
    from pacebench.harness.study.specs import Cell

__all__ = ["train"]


def train(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks | None = None) -> list[RunResult]:
    """Trains all seeds of one cell, as one batch where the learner can.

    A seed's records depend on the cell and the seed alone: not on the batch, its order, an
    interruption or the process. Learners that train one seed at a time are called in a loop; seeds
    whose checkpoints lie at different steps train in groups of equal step.

    Args:
        cell: What to train.
        seeds: The seeds, without repetition.
        hooks: Checkpoints, progress and interruption; none if left out.

    Returns:
        The results of the seeds that ended, in the order of `seeds`; after an interruption the
        others are absent, and a later call with the same hooks goes on from their checkpoints.

    Raises:
        UserError: The cell asks for what its parts cannot do.
    """
    from pacebench.harness.training.groups import train_in_groups

    if len(set(seeds)) != len(seeds):
        raise ValueError("a seed is given twice.")
    return train_in_groups(cell, list(seeds), hooks if hooks is not None else NoHooks())
