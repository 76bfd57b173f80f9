"""The whole measurement: record, probe, replay, train, then write the findings."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pacebench import curricula
from pacebench.harness.analysis.scores import ResultFrames
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import Floats, Instance, RecordedStream
from pacebench.harness.overhead.findings import SUMMARY, OverheadSummary, load_summary
from pacebench.harness.overhead.replay import Hear, measure_cells
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.records import Hooks, RunResult
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions, evaluation_hashes, make_runs
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.load import load_results
from pacebench.harness.store.provenance import provenance, sources
from pacebench.harness.study.expand import expand, resolve_cell
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell
from pacebench.harness.training import train

SETUP = "point-mass-2"
# The curriculum that makes a stream must keep to a diagonal Gaussian, which every method can start
# from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"


def measure(
    folder: Path, settings: Settings, hear: Hear, *, training: bool = True
) -> OverheadSummary:
    """Measures what is missing in `folder`, writes the findings and returns them.

    A cell, block or run that is there already is kept. Unless told not to, it trains, for the
    shares of training time and for recorded streams where they are missing.
    """
    for setup in ("point-mass-1", SETUP) if training else ():
        path = folder / "streams" / f"{setup}.json.gz"
        if not path.exists():
            hear(f"record: a stream on {setup}")
            record(setup, settings.seed).write(path)
    # Kept, so that writing the findings again puts no other machine beside the same times.
    machine = make_folder(folder) / f"machine-{settings.cell_digest()}.json"
    if not machine.exists():
        made = provenance()
        public = {key: made[key] for key in ("versions", "revision", "dirty", "hardware")}
        write_atomic(machine, json.dumps(public, indent=1).encode())
    cells = measure_cells(folder, settings, hear)
    trained = measure_training(folder, settings, hear) if training else None
    found = summarise(cells, trained, settings, json.loads(machine.read_bytes()))
    found.write(folder / SUMMARY)
    # As written, so that what is shown now and later is the same to the last digit.
    return load_summary(folder)


def overhead_study(
    names: Sequence[str], setup: str = SETUP, steps: int = 1, root: int = 0, seeds: int = 1
) -> Study:
    """Returns a study of some curricula, with every default that a study has."""
    return Study.model_validate(
        {
            "name": "overhead",
            "question": "What does the curriculum cost?",
            "curricula": list(names),
            "setups": [setup],
            "learner": "ppo",
            "seeds": {"count": seeds, "root": root},
            "budget": steps,
            "evaluation": {"points": 10, "contexts": 100},
        }
    )


def record(setup: str, seed: int, steps: int = 163_840) -> RecordedStream:
    """Returns what the updates of one training run were given."""
    study, name = overhead_study([RECORDED], setup, steps, seed), "overhead-recording"
    cell = resolve_cell(study, study.curricula[0], setup)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    base: Any = curricula.get(RECORDED)
    instances: list[Instance] = []

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def _propose(self, contexts: Floats, values: Floats) -> Any:
            given = contexts.copy(), values.copy(), float(self.threshold), self.epsilon
            instances.append(Instance(self.target, self.distribution, *given))
            return super()._propose(contexts, values)

    curricula.register(name)(Recording)
    try:
        named = cell.curriculum.model_copy(update={"name": name})
        train(cell.model_copy(update={"curriculum": named}), [run])
    finally:
        curricula.unregister(name)
    about = cell.model_dump(mode="json", include={"setup", "curriculum", "learner", "schedule"})
    source = {**about, "steps": steps, "seed": run.model_dump(mode="json")}
    return RecordedStream(source=source, instances=tuple(instances))


def measure_training(folder: Path, settings: Settings, hear: Hear) -> ResultFrames:
    """Makes the runs that are missing, one at a time; returns what is stored of all of them.

    They are runs of an ordinary study, made by the runner. Times of parallel jobs would say how
    they got in each other's way. Every seed has a fresh process in which the curricula train one
    after the other in random order, so a seed is a block, and comparisons are paired by it.
    """
    steps, root, seeds = settings.training_steps, settings.seed, settings.training_seeds
    study = overhead_study(settings.curricula, SETUP, steps, root, seeds)
    runs = expand(study)
    # Another implementation has other times, whatever its runs' ids.
    results = folder / "training" / sources()
    options = RunOptions(
        workers=1,
        share=False,
        train=f"{__name__}:train_warm",
        batched=lambda _: False,
        display=Display(),
    )
    plan, asked = study.model_dump(mode="json"), []
    for seed in range(seeds):
        hear(f"train: seed {seed + 1} of {seeds}")
        mine = [run for run in runs if run.seed.index == seed]
        # What earlier seeds asked for is there, and stays asked for.
        asked += [mine[i] for i in settings.order(1_000 + seed).permutation(len(mine))]
        made = make_runs(study.name, plan, asked, results, options, evaluation_hashes(mine))
        if made.interrupted:
            raise UserError("stopped while training; run the same command again to go on.")
    return load_results(results)


@functools.cache
def _warm() -> None:
    """Pays once per process what the first run would pay: imports, first calls into libraries."""
    [run] = expand(overhead_study(["default"]))
    train(run.cell, [run.seed])


def train_warm(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Trains as any run does, in a process that has trained before; what workers call."""
    _warm()
    return train(cell, seeds, hooks)
