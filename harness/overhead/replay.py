"""Replays the streams: probes what is feasible, then measures block by block over all cells.

A block is one pass over the whole grid in random order, in a fresh process. So every block is a
replicate of every table and of every fitted exponent, and a slow hour of the machine falls on all
cells alike. The processes are the runner's workers; they leave what they find in the cells' files.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import psutil

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import BlockRecord, CellRecord, Probe, load_cells, save_cell
from pacebench.harness.overhead.instances import Instance
from pacebench.harness.overhead.quality import STAYING, judge, problem_of, staying
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings
from pacebench.harness.overhead.timing import QUICK, Contestant, Replay, passes_for, time_block
from pacebench.harness.runner.attempt import Call, Ending, Limits
from pacebench.harness.runner.process import complete
from pacebench.harness.store.files import describe

_PROBED = 3
# Untimed updates of each curriculum in a block; one for what takes long anyway.
_WARM_UP = 2
# Building a curriculum is not timed, and may take this long.
_BUILDING_SECONDS = 0.5
# No limit on the methods, which are probed first: a guard against hanging for ever.
_HANGING_SECONDS = 7200.0

# Hears how far the measurement is: stage, steps done, steps in all, and what the last one was.
Hear = Callable[[str, int, int, str], None]


def measure_cells(folder: Path, settings: Settings, hear: Hear) -> list[CellRecord]:
    """Measures what is missing of all streams in the folder; returns the cells."""
    cells = load_cells(folder, settings)
    hear("probe", 0, 1, "")
    if not all(cell.probes for cell in cells):
        _in_fresh_process(probe_here, folder, settings)
        hear("probe", 1, 1, "which curricula keep within the limit")
    hear("replay", 0, settings.blocks, "")
    for number in range(settings.blocks):
        if not all(number in cell.blocks for cell in cells):
            _in_fresh_process(measure_here, folder, settings, number=number)
            hear("replay", number + 1, settings.blocks, f"block {number + 1}")
    return load_cells(folder, settings)


def _in_fresh_process(
    function: Callable[..., None], folder: Path, settings: Settings, **arguments: object
) -> None:
    """Calls `function(folder, settings, **arguments)` in a worker process of the runner.

    It has one thread and half of the machine's memory, and nothing of our state to measure too.

    Raises:
        UserError: It did not return.
    """
    given = {"folder": str(folder), "settings": settings.model_dump(mode="json"), **arguments}
    call = Call(
        root=str(folder),
        function=f"{function.__module__}:{function.__name__}",
        arguments=given,
        limits=Limits(memory=psutil.virtual_memory().total // 2, seconds=_HANGING_SECONDS),
    )
    outcome = complete(call)
    if outcome.ending is not Ending.DONE:
        raise UserError(
            f"a measuring process failed: {outcome.reason}. Its log is {folder / call.log}; repair "
            "that and run the same command again, which goes on from here."
        )
    (folder / call.log).unlink(missing_ok=True)


class OutOfTimeError(BaseException):
    """An update used up its processor time; not an `Exception`, which a solver might catch."""


def probe_here(folder: str, settings: Mapping[str, Any]) -> None:
    """Finds out, in this process, which curricula make an update within the limit in which cell.

    Within the limit means that the probed updates together take no longer than the limit times
    their number: a solver may have a bad instance. Cells are taken from small to large. A
    curriculum over the limit is not tried again at larger d with the same K; the cell says so.
    """

    def stop(*_: object) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGPROF, stop)
    given = Settings.model_validate(settings)
    cells = load_cells(Path(folder), given)
    for cell in sorted(cells, key=lambda c: (c.stream.d * c.stream.size, c.stream.d)):
        if cell.probes:
            continue
        instances = [cell.stream.build(i) for i in cell.stream.indices[:_PROBED]]
        for name in given.curricula:
            if smaller := _over_at(name, cell, cells):
                cell.probes[name] = Probe(over=smaller, attempted=False)
            else:
                cell.probes[name] = _probe(name, instances, given.limit)
        save_cell(Path(folder), cell)


def _over_at(name: str, larger: CellRecord, cells: Sequence[CellRecord]) -> str | None:
    """Returns the cell of smaller d and the same K that a curriculum was over the limit in."""
    for cell in cells:
        found, here = cell.probes.get(name, Probe()), cell.stream
        tried = found.attempted and found.over is not None
        if tried and here.d < larger.stream.d and here.size == larger.stream.size:
            return here.name
    return None


def _probe(name: str, instances: Sequence[Instance], limit: float) -> Probe:
    """Times a few updates, and interrupts the one that goes over the limit."""
    taken: list[float] = []
    for instance in instances:
        # Processor time: on a busy machine, waiting for one's turn is not the method's doing. Under
        # such a timer Linux reads `process_time` by the tick only; `thread_time` stays exact.
        left = max(len(instances) * limit - sum(taken), 0.0) + _BUILDING_SECONDS
        signal.setitimer(signal.ITIMER_PROF, left)
        try:
            curriculum = instance.make(name)
            given = instance.given(curriculum)
            started = thread_time()
            curriculum.update(*given)
            taken.append(thread_time() - started)
        except OutOfTimeError:
            return Probe(over="the limit")
        except MemoryError:
            return Probe(over="memory")
        except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
            return Probe(failed=describe(error))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    mean = float(np.mean(taken))
    return Probe(seconds=mean) if mean <= limit else Probe(over="the limit")


def measure_here(folder: str, settings: Mapping[str, Any], number: int) -> None:
    """Measures one block of all cells in this process, on one processor; keeps each at once."""
    given = Settings.model_validate(settings)
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[number % len(allowed)]})
    cells = load_cells(Path(folder), given)
    for i in given.order(number).permutation(len(cells)):
        if number not in cells[i].blocks:
            measure_block(cells[i], number, given)
            save_cell(Path(folder), cells[i])


def measure_block(cell: CellRecord, number: int, settings: Settings) -> None:
    """Times one block of one cell in this process, and judges the answers that are still open."""
    stream, seconds = cell.stream, cell.seconds
    contestants = [
        *(Contestant(name, name) for name in seconds),
        Contestant(TWIN, REFERENCE),
        Contestant(SLOWED, REFERENCE, slowdown=1.05),
    ]
    instances = [stream.build(i) for i in stream.indices]
    waiting = [n for n, index in enumerate(stream.indices) if index not in cell.answers]
    answers = {stream.indices[n]: {STAYING: staying(instances[n])} for n in waiting}
    replays: dict[str, Replay] = {}
    failed: dict[str, str] = {}
    for contestant in contestants:
        name, label = contestant.curriculum, contestant.label
        judged = waiting if name == label and problem_of(name) is not None else []
        try:
            replay = Replay(contestant, instances)
            found = {n: judge(instances[n], *replay.solve(n)) for n in judged}
            for n in range(len(found), _WARM_UP if seconds[name] < QUICK else 1):
                replay.solve(n)
        except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
            failed[label] = describe(error)
            continue
        replays[label] = replay
        for n, answer in found.items():
            answers[stream.indices[n]][label] = answer
    guesses = {label: seconds[replay.contestant.curriculum] for label, replay in replays.items()}
    passes = {label: passes_for(s, len(instances), settings.share) for label, s in guesses.items()}
    quick = [label for label, guess in guesses.items() if guess < QUICK]
    load = psutil.getloadavg()[0]
    psutil.cpu_times_percent()
    order = settings.order(number, stream.d, stream.size, len(stream.name))
    times = time_block(replays, passes, order, quick)
    # Per cent since the call before; only Linux knows what a hypervisor took.
    steal = getattr(psutil.cpu_times_percent(), "steal", 0.0) / 100
    cell.blocks[number] = BlockRecord(times=times, failed=failed, load=load, steal=steal)
    cell.answers.update(answers)
