"""Training: a batch of seeds of one cell in, one record per seed out.

    results = harness.training.train(cell, seeds)

Importing this package imports no tensor library; training does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pacebench.harness.records import Checkpoint, Hooks, NoHooks, RunResult
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell

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
    import torch

    if len(set(seeds)) != len(seeds):
        raise ValueError("a seed is given twice.")
    hooks = hooks if hooks is not None else NoHooks()
    resolved = ResolvedCell.of(cell)
    results: dict[RunSeed, RunResult] = {}
    threads = torch.get_num_threads()
    # The order of a sum, and so its rounding, may depend on the number of threads.
    torch.set_num_threads(1)
    try:
        for group in _groups(resolved, seeds, hooks):
            if hooks.should_stop():
                break
            batch = TrainingBatch(resolved, list(group), list(group.values()), hooks)
            results |= {result.seed: result for result in batch.train()}
    finally:
        torch.set_num_threads(threads)
    return [results[seed] for seed in seeds if seed in results]


def _groups(
    resolved: ResolvedCell, seeds: Sequence[RunSeed], hooks: Hooks
) -> list[dict[RunSeed, Checkpoint | None]]:
    """Returns the seeds that train together, with their checkpoints: those at the same step.

    Those furthest behind come first, so that an interruption leaves all seeds closer together.
    """
    capabilities = resolved.learner.capabilities
    groups: dict[tuple[int, int], dict[RunSeed, Checkpoint | None]] = {}
    for i, seed in enumerate(seeds):
        checkpoint = hooks.load(seed) if capabilities.checkpoints else None
        step = checkpoint.step if checkpoint is not None else 0
        # A learner that cannot train several seeds at once gets each in a group of its own.
        key = (step, 0 if capabilities.batched_seeds else i)
        groups.setdefault(key, {})[seed] = checkpoint
    return [groups[key] for key in sorted(groups)]
