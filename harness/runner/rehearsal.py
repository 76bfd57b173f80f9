"""Cells are made once before their first run, in a worker: the runner itself never loads torch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.runner.attempt import AttemptOutcome, Call, Ending
from pacebench.harness.study.specs import PlannedRun, by_cell

_FUNCTION = "pacebench.harness.training.rehearsal:rehearse_here"


def rehearse(runs: Iterable[PlannedRun], do: Callable[[Call], AttemptOutcome]) -> None:
    """Makes the curriculum, the environments and the learner of every cell of some runs.

    Args:
        runs: The runs, of which one per cell is looked at.
        do: Does a job in a worker process.

    Raises:
        UserError: With one sentence for each cell that cannot be trained.
    """
    cells = [own[0].model_dump(mode="json") for own in by_cell(runs)]
    if not cells:
        return
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        call = Call(root=folder, function=_FUNCTION, arguments={"runs": cells, "told": str(told)})
        outcome = do(call)
        if told.exists():
            raise UserError(*json.loads(told.read_text(encoding="utf-8")))
    if outcome.ending is not Ending.DONE:
        raise UserError(f"what the study trains cannot be made: {outcome.reason}.")
