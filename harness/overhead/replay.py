"""Replays the streams: probes what is feasible, then measures block by block over all cells.

A block is one pass over the whole grid in random order, in a fresh process. So every block is a
replicate of every table and of every fitted exponent, and a slow hour of the machine falls on all
cells alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from pacebench.harness.overhead.cells import Cell, CellStore, Source
from pacebench.harness.overhead.instances import spread_over
from pacebench.harness.overhead.processes import START_SECONDS, Worker, WorkerError
from pacebench.harness.overhead.settings import REFERENCE, TWIN, Settings, order_generator
from pacebench.harness.overhead.timing import Entry

CHECK = Source("check", "check-d00003-k0064", 3, 64, tuple(range(10)))
AGAIN, SLOWED = "spgl (again)", "spgl + 5 %"
CHECK_ENTRIES = (
    Entry(REFERENCE, REFERENCE),
    Entry(TWIN, REFERENCE),
    Entry(AGAIN, REFERENCE),
    Entry(SLOWED, REFERENCE, slowdown=1.05),
)
_PROBED = 3


class Listener(Protocol):
    """Hears how far the measurement is."""

    def stage(self, name: str, total: int, done: int) -> None:
        """A stage begins, `done` of its `total` steps being there already."""

    def advance(self, note: str) -> None:
        """One step is done."""


def probe_cells(
    cells: Sequence[Cell], store: CellStore, settings: Settings, hear: Listener
) -> None:
    """Finds out, per cell, which curricula make an update within the limit.

    Within the limit means that the probed updates together take no longer than the limit times
    their number: a solver may have a bad instance. Cells are taken from small to large. A
    curriculum over the limit is not tried again at larger d with the same K; the cell says so.
    """
    open_ = [cell for cell in cells if not cell.probes]
    hear.stage("probe", len(cells), len(cells) - len(open_))
    for cell in sorted(open_, key=lambda c: (c.source.d * c.source.size, c.source.d)):
        names = []
        for name in settings.curricula:
            cause = _over_already(name, cell.source, cells)
            if cause is None:
                names.append(name)
            else:
                cell.probes[name] = {"over": cause.source.name, "attempted": False}
        _probe(cell, names, settings)
        cell.probes = {name: cell.probes[name] for name in settings.curricula}
        store.save(cell)
        hear.advance(cell.source.name)


def _over_already(name: str, source: Source, cells: Sequence[Cell]) -> Cell | None:
    for cell in cells:
        probe = cell.probes.get(name, {})
        tried = probe.get("attempted", False) and "over" in probe
        if tried and cell.source.d < source.d and cell.source.size == source.size:
            return cell
    return None


def _probe(cell: Cell, names: list[str], settings: Settings) -> None:
    """Fills in the probes of a cell; a process that is over the limit is ended and replaced."""
    waiting = list(names)
    taken: dict[str, list[float]] = {name: [] for name in names}
    own = cell.source.name
    indices = list(cell.source.indices[: min(_PROBED, cell.source.at_most())])
    while waiting:
        job = {
            "mode": "probe",
            "cpu": 0,
            "source": cell.source.job(settings),
            "indices": indices,
            "curricula": waiting,
        }
        current, left = waiting[0], 0.0
        try:
            with Worker(job) as worker:
                worker.next(START_SECONDS)
                patience = START_SECONDS
                while (line := worker.next_within(patience)) is not None:
                    current = line["curriculum"]
                    if "failed" in line:
                        why = "over" if line["failed"] == "memory" else "failed"
                        cell.probes[current] = {why: line["failed"], "attempted": True}
                    elif "seconds" in line:
                        taken[current].append(line["seconds"])
                    left = len(indices) * settings.limit - sum(taken[current])
                    # Half a second is for building the curriculum, which is not timed.
                    patience = max(left, 0.0) + 0.5 if "starting" in line else START_SECONDS
        except TimeoutError:
            cell.probes[current] = {"over": own, "attempted": True}
        except WorkerError as error:
            cell.probes[current] = {"failed": str(error), "attempted": True}
        waiting = waiting[waiting.index(current) + 1 :]
    for name in names:
        if name not in cell.probes:
            mean = float(np.mean(taken[name]))
            within = mean <= settings.limit
            cell.probes[name] = {"seconds" if within else "over": mean, "attempted": True}


def measure_blocks(
    cells: Sequence[Cell], store: CellStore, settings: Settings, hear: Listener
) -> None:
    """Measures what is missing of every block of every cell, one process per block."""
    done = sum(len(_within(cell, settings.blocks)) for cell in cells)
    hear.stage("replay", settings.blocks * len(cells), done)
    for number in range(settings.blocks):
        order = order_generator(settings, number).permutation(len(cells))
        open_ = [cells[i] for i in order if number not in cells[i].blocks]
        jobs = [_job(cell, number, _entries(cell), settings, settings.share) for cell in open_]
        for cell in _measured(open_, jobs, number, settings):
            store.save(cell)
            hear.advance(f"block {number + 1}, {cell.source.name}")


def measure_check(cell: Cell, store: CellStore, settings: Settings, hear: Listener) -> None:
    """Measures the self-check: one curriculum under three names, and slowed by 5 %."""
    if not cell.probes:
        _probe(cell, [REFERENCE], settings)
    hear.stage("check", settings.check_blocks, len(_within(cell, settings.check_blocks)))
    for number in range(settings.check_blocks):
        if number not in cell.blocks:
            job = _job(cell, number, CHECK_ENTRIES, settings, 5 * settings.share)
            for measured in _measured([cell], [job], number, settings):
                store.save(measured)
                hear.advance(f"self-check, block {number + 1}")


def _within(cell: Cell, blocks: int) -> list[int]:
    return [number for number in cell.blocks if number < blocks]


def _entries(cell: Cell) -> list[Entry]:
    return [*(Entry(name, name) for name in cell.timed()), Entry(TWIN, REFERENCE)]


def _job(
    cell: Cell, number: int, entries: Sequence[Entry], settings: Settings, share: float
) -> dict[str, Any]:
    """Returns what the worker is to do in one cell."""
    source = cell.source
    seconds = {name: cell.probes[name]["seconds"] for name in cell.timed()}
    once = sum(seconds[entry.curriculum] for entry in entries)
    # Two halves and a warm-up of all instances.
    wanted = int(np.clip(settings.process / (3 * once), 1, source.at_most()))
    positions = spread_over(len(source.indices), wanted, number)
    indices = [source.indices[p] for p in positions]
    return {
        "name": source.name,
        "source": source.job(settings),
        "indices": indices,
        "entries": [asdict(entry) for entry in entries],
        "seconds": seconds,
        "share": share,
        "warm_up": settings.warm_up,
        "judge": [i for i, index in enumerate(indices) if index not in cell.answers],
        "order": [settings.seed, number, source.d, source.size, len(source.name)],
    }


def _measured(
    cells: Sequence[Cell], jobs: Sequence[dict[str, Any]], number: int, settings: Settings
) -> Iterator[Cell]:
    """Runs one block of some cells in one fresh process; yields each cell as it is done."""
    if not cells:
        return
    job = {"mode": "blocks", "cpu": number, "cells": list(jobs)}
    # Not a limit on the methods, which have passed their probes: a guard against hanging.
    patience = START_SECONDS + 20 * max(settings.limit * len(settings.curricula), settings.process)
    with Worker(job) as worker:
        worker.next_within(START_SECONDS)
        for cell, asked in zip(cells, jobs, strict=True):
            found = worker.next_within(patience)
            if found is None:
                raise WorkerError(f"a measuring process ended before {cell.source.name}")
            _keep(cell, number, asked["indices"], found)
            yield cell


def _keep(cell: Cell, number: int, indices: list[int], found: dict[str, Any]) -> None:
    for position, staying in found.pop("staying").items():
        cell.answers[indices[int(position)]] = {"staying": staying}
    for label, answers in found.pop("answers").items():
        for position, answer in answers.items():
            cell.answers[indices[int(position)]][label] = answer
    del found["name"]
    cell.blocks[number] = found | {"indices": indices}
