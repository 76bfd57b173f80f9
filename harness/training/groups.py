"""Which seeds train together."""

from __future__ import annotations

import torch

from pacebench.harness.records import Checkpoint, Hooks, RunResult
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell


def train_in_groups(cell: Cell, seeds: list[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Trains seeds that are at the same step together; see `harness.training.train`."""
    resolved = ResolvedCell.of(cell)
    capabilities = resolved.learner.capabilities
    groups: dict[tuple[int, int], list[tuple[RunSeed, Checkpoint | None]]] = {}
    for i, seed in enumerate(seeds):
        checkpoint = hooks.load(seed) if capabilities.checkpoints else None
        step = checkpoint.step if checkpoint is not None else 0
        groups.setdefault((step, 0 if capabilities.batched_seeds else i), []).append(
            (seed, checkpoint)
        )
    results: dict[RunSeed, RunResult] = {}
    threads = torch.get_num_threads()
    # The order of a sum, and so its rounding, may depend on the number of threads.
    torch.set_num_threads(1)
    try:
        # Those furthest behind first, so that an interruption leaves the batch closer together.
        for key in sorted(groups):
            if hooks.should_stop():
                break
            members = groups[key]
            batch = TrainingBatch(resolved, [s for s, _ in members], [c for _, c in members], hooks)
            for result in batch.train():
                results[result.seed] = result
    finally:
        torch.set_num_threads(threads)
    return [results[seed] for seed in seeds if seed in results]
