"""The whole measurement: record, check, probe, replay, train, then write the findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacebench.harness.overhead import summary as findings
from pacebench.harness.overhead.cells import Cell, CellStore, recorded_sources, synthetic_sources
from pacebench.harness.overhead.machine import machine_state
from pacebench.harness.overhead.replay import (
    CHECK,
    Listener,
    measure_blocks,
    measure_check,
    probe_cells,
)
from pacebench.harness.overhead.settings import Settings, make_settings
from pacebench.harness.overhead.shares import summarise_training
from pacebench.harness.overhead.training import load_runs, measure_training, planned
from pacebench.harness.overhead.words import all_claims
from pacebench.harness.store.files import make_folder, write_atomic

RECORDING_STEPS = 163_840
SUMMARY = "summary.json"


class Silent:
    """Hears nothing."""

    def stage(self, name: str, total: int, done: int) -> None:
        """Ignores the stage."""

    def advance(self, note: str) -> None:
        """Ignores the step."""


def measure(
    out: Path | str,
    settings: Settings | None = None,
    hear: Listener | None = None,
    *,
    training: bool = True,
) -> dict[str, Any]:
    """Measures what is missing in `out`, writes the findings and returns them.

    Args:
        out: The results folder; a cell, block or run that is there already is kept.
        settings: What to measure; the command's defaults if None.
        hear: Hears of progress.
        training: Whether to train, for the shares of training time and for recorded streams where
            they are missing.
    """
    from pacebench.harness.overhead.pages import write_pages

    folder = make_folder(Path(out))
    chosen = settings if settings is not None else make_settings()
    listener = hear if hear is not None else Silent()
    sources = synthetic_sources(chosen)
    streams = make_folder(folder / "streams")
    if training:
        _record(streams, chosen, listener)
    sources = [*recorded_sources(streams), *sources]
    store = CellStore(folder / "cells")
    digest = chosen.cell_digest()
    state = machine_state()
    check = store.load(CHECK, digest)
    measure_check(check, store, chosen, listener)
    cells = [store.load(source, digest) for source in sources]
    probe_cells(cells, store, chosen, listener)
    missing = any(set(range(chosen.blocks)) - set(cell.blocks) for cell in cells)
    measure_blocks(cells, store, chosen, listener)
    if not missing:
        # Writing the findings again must not put today's machine beside yesterday's times.
        state = _recorded_state(folder, digest) or state
    runs: list[dict[str, Any]] = []
    if training:
        plan = planned(chosen)
        kept = folder / "training"
        listener.stage("train", len(plan), len(load_runs(kept, chosen)))
        for note in measure_training(kept, chosen):
            listener.advance(note)
        runs = load_runs(kept, chosen)
    found = summarise(cells, check, runs, chosen, state)
    write_summary(folder, found)
    write_pages(folder)
    return found


def _recorded_state(folder: Path, digest: str) -> dict[str, Any] | None:
    try:
        stored = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found: dict[str, Any] | None = stored.get("machine") if stored["digest"] == digest else None
    return found


def _record(streams: Path, settings: Settings, hear: Listener) -> None:
    from pacebench.harness.overhead.recording import SETUPS, record_streams

    there = sum((streams / f"{setup}.npz").exists() for setup in SETUPS)
    hear.stage("record", len(SETUPS), there)
    if there < len(SETUPS):
        for setup in record_streams(streams, RECORDING_STEPS, settings.seed):
            hear.advance(f"recorded {setup}")


def summarise(
    cells: list[Cell],
    check: Cell,
    runs: list[dict[str, Any]],
    settings: Settings,
    state: dict[str, Any],
) -> dict[str, Any]:
    """Returns all findings as plain JSON."""
    judged = {cell.source.name: findings.judge_cell(cell) for cell in cells}
    rows = [row for found in judged.values() for row in found]
    clock, waiting = findings.choose_clock([check, *cells])
    shown = findings.summarise_cells(cells, judged, settings, clock)
    paced = findings.self_paced(settings.curricula)
    quality = {
        name: findings.pool_quality(mine)
        for name in paced
        if (mine := [row for row in rows if row["method"] == name])
    }
    summary: dict[str, Any] = {
        "settings": settings.model_dump(mode="json"),
        "digest": settings.cell_digest(),
        "machine": state,
        "clock": clock,
        "wall_over_cpu": waiting,
        "check": findings.summarise_check(check, settings, clock),
        "twins": findings.summarise_twins(shown),
        "cells": shown,
        "scaling": findings.summarise_scaling(cells, settings, clock),
        "quality": quality,
        "training": summarise_training(runs) if runs else {},
    }
    summary["claims"] = all_claims(summary)
    return summary


def write_summary(folder: Path, found: dict[str, Any]) -> None:
    """Writes `summary.json`, six digits a number, NaN as null."""
    text = json.dumps(_rounded(found), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(folder / SUMMARY, (text + "\n").encode())


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value
