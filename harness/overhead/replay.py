"""Replays the streams: probes what is feasible, then measures block by block over all cells.

A block is one pass over the whole grid in random order, in a fresh process. So every block is a
replicate of every table and of every fitted exponent, and a slow hour of the machine falls on all
cells alike. The processes are the runner's workers; they leave what they find in the cells' files.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import psutil

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import BlockRecord, CellRecord, load_cells, save_cell
from pacebench.harness.overhead.instances import Instance
from pacebench.harness.overhead.quality import STAYING, judge, problem_of, staying
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings
from pacebench.harness.overhead.timing import Replay, passes_for, time_block
from pacebench.harness.runner.attempt import Call, Ending, Limits
from pacebench.harness.runner.process import complete
from pacebench.harness.store.files import describe

_PROBED = 3
OVER, MEMORY = "over the limit", "out of memory"
# Seconds below which an update is over before caches are warm; such ones begin every pass with
# untimed updates. Every curriculum makes some when a block begins, one if it takes long anyway.
QUICK, WARM, _WARM_UP = 0.01, 3, 2
# Building a curriculum is not timed, and may take this long.
_BUILDING_SECONDS = 0.5
# No limit on the methods, which are probed first: a guard against hanging for ever.
_HANGING_SECONDS = 7200.0

# Hears what is begun.
Hear = Callable[[str], None]


def measure_cells(folder: Path, settings: Settings, hear: Hear) -> list[CellRecord]:
    """Measures what is missing of all streams in the folder; returns the cells.

    Raises:
        UserError: The reference cannot be timed in some cell, or a measuring process failed.
    """
    cells, numbers = load_cells(folder, settings), range(settings.blocks)
    if not all(cell.probed for cell in cells):
        hear("probe: which curricula keep within the limit")
        _in_fresh_process(probe_here, folder, settings)
        cells = load_cells(folder, settings)
    for cell in cells:
        if why := cell.untimed.get(REFERENCE):
            raise UserError(f"{REFERENCE} is {why} in {cell.stream.name}; raise --limit.")
    for number in numbers:
        if not all(number in cell.blocks for cell in cells):
            hear(f"replay: block {number + 1} of {settings.blocks}")
            _in_fresh_process(measure_here, folder, settings, number=number)
    # There may be more blocks of an earlier command.
    return [
        cell.model_copy(update={"blocks": {n: cell.blocks[n] for n in numbers}})
        for cell in load_cells(folder, settings)
    ]


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
    stopped: dict[tuple[str, int], str] = {}
    for cell in sorted(cells, key=lambda c: (c.stream.d * c.stream.size, c.stream.d)):
        size = cell.stream.size
        if not cell.probed:
            instances = [cell.stream.build(i) for i in cell.stream.indices[:_PROBED]]
            for name in given.curricula:
                if (name, size) in stopped:
                    cell.untimed[name] = f"not attempted: {stopped[name, size]} already"
                else:
                    _probe(name, cell, instances, given.limit)
            save_cell(Path(folder), cell)
        for name, why in cell.untimed.items():
            if why in (OVER, MEMORY):
                stopped[name, size] = f"{why} at {cell.stream.name}"


def _probe(name: str, cell: CellRecord, instances: Sequence[Instance], limit: float) -> None:
    """Notes the mean time of a few updates, or why there is none; interrupts what takes longer."""
    allowed, total = len(instances) * limit, 0.0
    for instance in instances:
        # Processor time: on a busy machine, waiting for one's turn is not the method's doing. Under
        # such a timer Linux reads `process_time` by the tick only; `thread_time` stays exact.
        left = allowed - total + _BUILDING_SECONDS
        signal.setitimer(signal.ITIMER_PROF, left)
        try:
            curriculum = instance.make(name)
            given = instance.given(curriculum)
            started = thread_time()
            curriculum.update(*given)
            total += thread_time() - started
        except OutOfTimeError:
            total = math.inf
        except MemoryError:
            cell.untimed[name] = MEMORY
            return
        except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
            cell.untimed[name] = describe(error)
            return
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if total > allowed:
            cell.untimed[name] = OVER
            return
    cell.seconds[name] = total / len(instances)


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
    """Times one block of one cell in this process; the first one judges the answers too."""
    stream, judged = cell.stream, not cell.answers
    instances = [stream.build(i) for i in stream.indices]
    if judged:
        cell.answers[STAYING] = tuple(staying(instance) for instance in instances)
    contestants = [(name, name, 1.0) for name in cell.seconds]
    contestants += [(TWIN, REFERENCE, 1.0), (SLOWED, REFERENCE, 1.05)]
    replays: dict[str, Replay] = {}
    for label, name, slowdown in contestants:
        guess, warmed = cell.seconds[name], 0
        passes = passes_for(guess, len(instances), settings.share)
        try:
            replay = Replay(name, instances, passes, WARM if guess < QUICK else 0, slowdown)
            if judged and label == name and problem_of(name) is not None:
                solved = [judge(x, *replay.solve(i)) for i, x in enumerate(instances)]
                cell.answers[name], warmed = tuple(solved), len(solved)
            for i in range(warmed, _WARM_UP if guess < QUICK else 1):
                replay.solve(i)
        except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
            cell.untimed[name] = describe(error)
            continue
        replays[label] = replay
    for name in cell.untimed:
        cell.seconds.pop(name, None)
    load = psutil.getloadavg()[0]
    psutil.cpu_times_percent()
    times = time_block(replays, settings.order(number, stream.d, stream.size, len(stream.name)))
    # Per cent since the call before; only Linux knows what a hypervisor took.
    steal = getattr(psutil.cpu_times_percent(), "steal", 0.0) / 100
    cell.blocks[number] = BlockRecord(times=times, load=load, steal=steal)
