"""Everything that training needs is made once before it begins: a typo is no method's failure."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.records import Hooks
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.specs import PlannedRun, by_cell
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell
from pacebench.registry import UserMistakeError


def rehearse(runs: Iterable[PlannedRun]) -> None:
    """Makes the curriculum, the environments and the learner of every cell.

    Raises:
        UserError: With one sentence for each cell that cannot be trained.
    """
    mistakes: dict[str, None] = {}
    for cell_runs in by_cell(runs):
        run = cell_runs[0]
        # A pilot's seed: not even the first context of an evaluation run is to be looked at.
        seed = RunSeed(root=run.seed.root, role=StudyRole.PILOT, index=0)
        try:
            batch = TrainingBatch(ResolvedCell.of(run.cell), [seed], [None], Hooks())
            batch.envs.restart([0])
            batch.envs.env.close()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - outside packages may fail in any way
            where = f"{run.label} on {run.cell.setup}"
            mistakes[f"{where} cannot be trained: {_described(error)}"] = None
    if mistakes:
        raise UserError(*mistakes)


def rehearse_here(runs: Iterable[Mapping[str, Any]], told: str) -> None:
    """Rehearses in the worker process that this is, and leaves what it has to tell in a file."""
    try:
        rehearse(map(PlannedRun.model_validate, runs))
    except UserError as error:
        Path(told).write_text(json.dumps(error.sentences), encoding="utf-8")


def _described(error: Exception) -> str:
    if isinstance(error, UserMistakeError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    return f"{type(error).__name__}: {error} ({place}); correct it, or the options it is given."
