"""The whole measurement: record, probe, replay, train, then write the findings."""

from __future__ import annotations

from pathlib import Path

from pacebench.harness.overhead import findings, recording
from pacebench.harness.overhead.instances import save_stream
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
    make_folder(folder)
    for setup in recording.RECORDED_SETUPS if training else ():
        path = folder / "streams" / f"{setup}.json.gz"
        if not path.exists():
            hear(f"record: a stream on {setup}")
            save_stream(path, recording.record(setup, settings.seed))
    # Kept, so that writing the findings again puts no other machine beside the same times.
    machine = folder / f"machine-{settings.cell_digest()}.json"
    if not machine.exists():
        facts = findings.MachineState.model_validate(provenance())
        write_atomic(machine, facts.model_dump_json(indent=1).encode())
    state = findings.MachineState.model_validate_json(machine.read_bytes())
    cells = measure_cells(folder, settings, hear)
    trained = measure_training(folder, settings, hear) if training else None
    findings.write_summary(folder, summarise(cells, trained, settings, state))
    # As written, so that what is shown now and later is the same to the last digit.
    return findings.load_summary(folder)
