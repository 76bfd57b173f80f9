"""Small plans for the substitutes, and what tests look at afterwards."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

from pacebench.harness.runner.attempt import Limits
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions, RunSummary, make_runs
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.runs import record_digest
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import (
    Cell,
    CurriculumCell,
    EvaluationCell,
    LearnerCell,
    PlannedRun,
    ScheduleCell,
)

REPOSITORY = Path(__file__).parents[3]
TRAIN = "tests.harness.runner.substitutes:train"


class Heard(Display):
    """Keeps what the runner said."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)


def plan_cell(
    label: str = "walk", *, seeds: int = 3, points: int = 3, **options: Any
) -> list[PlannedRun]:
    """Returns the runs of a cell for the substitutes."""
    steps = tuple(100 * (i + 1) for i in range(points))
    cell = Cell(
        curriculum=CurriculumCell(name="walk", epsilon=None, threshold=None, options=options),
        setup="line",
        setup_digest="0",
        learner=LearnerCell(name="walker", params={}),
        schedule=ScheduleCell(),
        budget=steps[-1],
        evaluation=EvaluationCell(steps=steps, contexts=20, root=0),
        versions={"training": "1"},
    )
    return [PlannedRun(label=label, cell=cell, seed=RunSeed(root=0, index=i)) for i in range(seeds)]


def of_kinds(*seeds: int) -> list[list[PlannedRun]]:
    """Returns cells that differ in their curriculum, and so may differ in speed."""
    found = []
    for i, count in enumerate(seeds):
        runs = plan_cell(f"c{i}", seeds=count)
        other = runs[0].cell.curriculum.model_copy(update={"name": f"walk-{i}"})
        cell = runs[0].cell.model_copy(update={"curriculum": other})
        found.append([run.model_copy(update={"cell": cell}) for run in runs])
    return found


def digests(root: Path) -> dict[str, str]:
    """Returns the hash of every run's record, timings aside."""
    found = {}
    for path in sorted((root / "runs").iterdir()):
        if (path / "run.json").exists():
            found[path.name] = record_digest(json.loads((path / "run.json").read_text()))
    return found


def statuses(store: RunStore) -> dict[tuple[str, int], tuple[str, str]]:
    """Returns status and reason by label and seed."""
    # Not above: runners in processes of their own have no use for pandas.
    from pacebench.harness.store.load import load_results

    frame = load_results(store.root).runs
    columns = (frame[name] for name in ("label", "seed", "status", "reason"))
    return {
        (label, seed): (status, reason)
        for label, seed, status, reason in zip(*columns, strict=True)
    }


def starts(store: RunStore, run_id: str) -> list[dict[str, Any]]:
    """Returns the attempts at a run that the ledger knows of."""
    return [e for e in store.ledger.read() if e["event"] == "start" and e["run"] == run_id]


def run_id_of(store: RunStore, label: str, seed: int) -> str:
    """Returns the id of a run of the manifest."""
    manifest = store.manifest()
    assert manifest is not None
    (found,) = [e.run_id for e in manifest.entries if (e.label, e.seed.index) == (label, seed)]
    return found


def launch_at(
    root: Path, *cells: list[PlannedRun], batched: bool = True, **options: Any
) -> tuple[RunSummary, RunStore, Heard]:
    """Runs cells with the substitutes; returns the summary, the store and what was said."""
    heard = Heard()
    given = RunOptions(
        **{
            "workers": 1,
            "train": TRAIN,
            "batched": lambda _: batched,
            "display": heard,
            **options,
            "limits": Limits(**{"heartbeat": 0.2, **options.get("limits", {})}),
        }
    )
    return (
        make_runs("walks", {"name": "walks"}, [*chain(*cells)], root, given),
        RunStore(root),
        heard,
    )
