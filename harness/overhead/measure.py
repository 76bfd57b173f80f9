"""The whole measurement: record, probe, replay, train, then write the findings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pacebench import curricula
from pacebench.harness.overhead.findings import OverheadSummary, load_summary, write_summary
from pacebench.harness.overhead.instances import Floats, Instance, RecordedStream, write_packed
from pacebench.harness.overhead.replay import Hear, measure_cells
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.overhead.training import measure_training, overhead_study
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.provenance import provenance
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.training import train

RECORDED_SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
RECORDING_STEPS = 163_840


def measure(
    folder: Path, settings: Settings, hear: Hear, *, training: bool = True
) -> OverheadSummary:
    """Measures what is missing in `folder`, writes the findings and returns them.

    A cell, block or run that is there already is kept. Unless told not to, it trains, for the
    shares of training time and for recorded streams where they are missing.
    """
    make_folder(folder)
    for setup in RECORDED_SETUPS if training else ():
        path = folder / "streams" / f"{setup}.json.gz"
        if not path.exists():
            hear(f"record: a stream on {setup}")
            write_packed(path, record(setup, settings.seed).model_dump_json())
    # Kept, so that writing the findings again puts no other machine beside the same times.
    machine = folder / f"machine-{settings.cell_digest()}.json"
    if not machine.exists():
        made = provenance()
        public = {key: made[key] for key in ("versions", "revision", "dirty", "hardware")}
        write_atomic(machine, json.dumps(public, indent=1).encode())
    cells = measure_cells(folder, settings, hear)
    trained = measure_training(folder, settings, hear) if training else None
    found = summarise(cells, trained, settings, json.loads(machine.read_bytes()))
    write_summary(folder, found)
    # As written, so that what is shown now and later is the same to the last digit.
    return load_summary(folder)


def record(setup: str, seed: int, steps: int = RECORDING_STEPS) -> RecordedStream:
    """Returns the stream of one training run."""
    study = overhead_study([RECORDED], setup, steps, seed)
    cell = resolve_cell(study, study.curricula[0], setup)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    with _recording() as (name, instances):
        named = cell.curriculum.model_copy(update={"name": name})
        train(cell.model_copy(update={"curriculum": named}), [run])
    about = cell.model_dump(mode="json", include={"setup", "curriculum", "learner", "schedule"})
    source = {**about, "steps": steps, "seed": run.model_dump(mode="json")}
    return RecordedStream(source=source, instances=tuple(instances))


@contextmanager
def _recording() -> Iterator[tuple[str, list[Instance]]]:
    """Registers, for a while, a curriculum that notes what each update is given."""
    name = "overhead-recording"
    instances: list[Instance] = []
    base: Any = curricula.get(RECORDED)

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def _propose(self, contexts: Floats, values: Floats) -> Any:
            given = contexts.copy(), values.copy(), float(self.threshold), self.epsilon
            instances.append(Instance(self.target, self.distribution, *given))
            return super()._propose(contexts, values)

    curricula.register(name)(Recording)
    try:
        yield name, instances
    finally:
        curricula.unregister(name)
