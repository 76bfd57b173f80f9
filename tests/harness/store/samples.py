"""Runs and results made up for tests of the store."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.harness.records import RunResult, Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import PlannedRun
from tests.harness.runner.plans import plan_cell
from tests.harness.runner.substitutes import Walk


def sample_run(index: int = 0, label: str = "walk", **options: Any) -> PlannedRun:
    """Returns a run that nobody has made."""
    planned = plan_cell(label, seeds=index + 1, **options)
    return planned[index]


def sample_result(run: PlannedRun) -> RunResult:
    """Returns what the substitutes would have recorded for a run."""
    walk = Walk(run.cell, run.seed, None)
    for step in run.cell.evaluation.steps:
        walk.advance(step)
    return walk.result()


def empty_result(seed: RunSeed, status: Status = Status.DIVERGED) -> RunResult:
    """Returns the result of a run that recorded nothing."""
    return RunResult(seed, status, "said why", 7, {}, {}, {"rollout": np.nan}, {})
