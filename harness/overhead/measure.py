"""The whole measurement: record, probe, replay, train, then write the findings."""

from __future__ import annotations

import json
from pathlib import Path

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.instances import (
    RECORDED_SETUPS,
    RECORDING_STEPS,
    record,
    save_stream,
)
from pacebench.harness.overhead.replay import Hear, measure_cells
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.overhead.training import measure_training
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.provenance import provenance


def measure(
    folder: Path, settings: Settings, hear: Hear, *, training: bool = True
) -> findings.OverheadSummary:
    """Measures what is missing in `folder`, writes the findings and returns them.

    A cell, block or run that is there already is kept. Unless told not to, it trains, for the
    shares of training time and for recorded streams where they are missing.
    """
    streams = make_folder(make_folder(folder) / "streams")
    for i, setup in enumerate(RECORDED_SETUPS if training else (), 1):
        path = streams / f"{setup}.npz"
        if not path.exists():
            save_stream(path, *record(setup, RECORDING_STEPS, settings.seed))
            hear("record", i, len(RECORDED_SETUPS), setup)
    digest = settings.cell_digest()
    # Kept, so that writing the findings again puts no other machine beside the same times.
    machine = folder / f"machine-{digest}.json"
    if not machine.exists():
        write_atomic(machine, json.dumps(provenance(), indent=1).encode())
    cells = measure_cells(folder, settings, hear)
    trained = measure_training(folder, settings, hear) if training else None
    state = findings.MachineState.model_validate_json(machine.read_bytes())
    findings.write_summary(folder, summarise(cells, trained, settings, state))
    # As written, so that what is shown now and later is the same to the last digit.
    return findings.load_summary(folder)
