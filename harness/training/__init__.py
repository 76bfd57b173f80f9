"""Training: a batch of seeds of one cell in, one record per seed out.

    results = harness.training.train(cell, seeds)

Importing this package imports no tensor library; training does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pacebench.harness import threads
from pacebench.harness.records import Checkpoint, Hooks, RunResult
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.checkpoints import UnusableCheckpointsError
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
    if len(set(seeds)) != len(seeds):
        raise ValueError("a seed is given twice.")
    hooks = hooks if hooks is not None else Hooks()
    resolved = ResolvedCell.of(cell)
    capable = resolved.learner.capabilities.checkpoints
    left = {seed: hooks.load(seed) if capable else None for seed in seeds}
    results: dict[RunSeed, RunResult] = {}
    # The order of a sum, and so its rounding, may depend on the number of threads.
    with threads.only_one():
        while left and not hooks.should_stop():
            group = _next_group(resolved, left)
            try:
                batch = TrainingBatch(resolved, group, [left[seed] for seed in group], hooks)
            except UnusableCheckpointsError as error:
                for seed, reason in error.reasons.items():
                    hooks.refuse(seed, reason)
                    left[seed] = None
                continue
            results |= {result.seed: result for result in batch.train()}
            for seed in group:
                del left[seed]
    return [results[seed] for seed in seeds if seed in results]


def _next_group(resolved: ResolvedCell, left: Mapping[RunSeed, Checkpoint | None]) -> list[RunSeed]:
    """Returns the seeds that train together next: those that are furthest behind.

    So an interruption leaves all seeds closer together. A learner that cannot train several seeds
    at once gets one.
    """
    steps = {seed: 0 if saved is None else saved.step for seed, saved in left.items()}
    group = [seed for seed, step in steps.items() if step == min(steps.values())]
    return group if resolved.learner.capabilities.batched_seeds else group[:1]
