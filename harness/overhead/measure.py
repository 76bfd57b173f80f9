"""The whole measurement: record, check, probe, replay, train, then write the findings."""

from __future__ import annotations

from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import load_cell
from pacebench.harness.overhead.findings import OverheadSummary, load_summary, write_summary
from pacebench.harness.overhead.machine import machine_state
from pacebench.harness.overhead.replay import Hear, measure_blocks, measure_check, probe_cells
from pacebench.harness.overhead.settings import Settings, make_settings
from pacebench.harness.overhead.streams import (
    RECORDED_SETUPS,
    RECORDING_STEPS,
    check_stream,
    grid_streams,
    record,
    recorded_streams,
    save_stream,
)
from pacebench.harness.overhead.summary import summarise
from pacebench.harness.overhead.training import measure_training, summarise_training
from pacebench.harness.store.files import make_folder


def _silent(stage: str, done: int, total: int, note: str) -> None:
    """Ignores progress."""


def measure(
    out: Path | str,
    settings: Settings | None = None,
    hear: Hear = _silent,
    *,
    training: bool = True,
) -> OverheadSummary:
    """Measures what is missing in `out`, writes the findings and returns them.

    Args:
        out: The results folder; a cell, block or run that is there already is kept.
        settings: What to measure; the command's defaults if None.
        hear: Hears of progress.
        training: Whether to train, for the shares of training time and for recorded streams where
            they are missing.
    """
    settings = make_settings() if settings is None else settings
    folder = make_folder(Path(out))
    streams, stored = make_folder(folder / "streams"), make_folder(folder / "cells")
    if training:
        _record_streams(streams, settings, hear)
    digest, state = settings.cell_digest(), machine_state()
    check = load_cell(stored, check_stream(settings), digest)
    measure_check(check, stored, settings, hear)
    cells = [
        load_cell(stored, stream, digest)
        for stream in (*recorded_streams(streams), *grid_streams(settings))
    ]
    probe_cells(cells, stored, settings, hear)
    complete = all(set(range(settings.blocks)) <= set(cell.blocks) for cell in cells)
    measure_blocks(cells, stored, settings, hear)
    if complete:
        # Writing the findings again must not put today's machine beside yesterday's times.
        try:
            before = load_summary(folder)
        except UserError:
            pass
        else:
            state = before.machine if before.digest == digest else state
    trained = None
    if training:
        runs = measure_training(make_folder(folder / "training"), settings, hear)
        trained = summarise_training(runs)
    write_summary(folder, summarise(cells, check, trained, settings, state))
    # As written, so that what is shown now and later is the same to the last digit.
    return load_summary(folder)


def _record_streams(folder: Path, settings: Settings, hear: Hear) -> None:
    paths = {setup: folder / f"{setup}.npz" for setup in RECORDED_SETUPS}
    missing = [setup for setup, path in paths.items() if not path.exists()]
    hear("record", len(paths) - len(missing), len(paths), "")
    for i, setup in enumerate(missing, len(paths) - len(missing) + 1):
        save_stream(paths[setup], record(setup, RECORDING_STEPS, settings.seed))
        hear("record", i, len(paths), f"recorded {setup}")
