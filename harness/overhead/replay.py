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

import psutil

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import BlockRecord, CellRecord, Instance, load_cells
from pacebench.harness.overhead.quality import STAYING, judge, problem_of
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings
from pacebench.harness.overhead.timing import Replay, time_block
from pacebench.harness.runner.attempt import Call, Ending, Limits
from pacebench.harness.runner.process import complete
from pacebench.harness.store.files import describe

_PROBED = 3
OVER, MEMORY = "over the limit", "out of memory"
# Building curricula is not timed, and may take this long.
_BUILDING_SECONDS = 1.5
# No limit on the methods, which are probed first: a guard against hanging for ever.
_HANGING_SECONDS = 7200.0

Hear = Callable[[str], None]  # is told what is begun


def measure_cells(folder: Path, settings: Settings, hear: Hear) -> list[CellRecord]:
    """Measures what is missing of all streams in the folder; returns the cells.

    Raises:
        UserError: The reference cannot be timed in some cell, or a measuring process failed.
    """
    cells, numbers = load_cells(folder, settings), range(settings.blocks)
    if not all(cell.seconds or cell.untimed for cell in cells):
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

    It has one thread and half of the machine's memory, and nothing of our state to measure too. A
    `UserError` tells that it did not return.
    """
    arguments |= {"folder": str(folder), "settings": settings.model_dump(mode="json")}
    call = Call(
        root=str(folder),
        function=f"{function.__module__}:{function.__name__}",
        arguments=arguments,
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
        if not (cell.seconds or cell.untimed):
            instances = [cell.stream.build(i) for i in cell.stream.indices[:_PROBED]]
            for name in given.curricula:
                if (name, size) in stopped:
                    cell.untimed[name] = f"not attempted: {stopped[name, size]} already"
                else:
                    _probe(name, cell, instances, given.limit)
            cell.write(cell.stream.path)
        for name, why in cell.untimed.items():
            if why in (OVER, MEMORY):
                stopped[name, size] = f"{why} at {cell.stream.name}"


def _probe(name: str, cell: CellRecord, instances: Sequence[Instance], limit: float) -> None:
    """Notes the mean time of a few updates, or why there is none; interrupts what takes longer."""
    # Processor time: on a busy machine, waiting for one's turn is not the method's doing. Under
    # such a timer Linux reads `process_time` by the tick only; `thread_time` stays exact.
    signal.setitimer(signal.ITIMER_PROF, len(instances) * limit + _BUILDING_SECONDS)
    try:
        replay = Replay(name, instances)
        started = thread_time()
        for i in range(len(instances)):
            replay.solve(i)
        seconds = (thread_time() - started) / len(instances)
        if seconds > limit:
            raise OutOfTimeError
        cell.seconds[name] = seconds
    except OutOfTimeError:
        cell.untimed[name] = OVER
    except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
        cell.untimed[name] = MEMORY if isinstance(error, MemoryError) else describe(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


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
            cells[i].write(cells[i].stream.path)


def measure_block(cell: CellRecord, number: int, settings: Settings) -> None:
    """Times one block of one cell in this process; the first one judges the answers too."""
    stream, judged = cell.stream, not cell.answers
    instances = [stream.build(i) for i in stream.indices]
    if judged:
        cell.answers[STAYING] = tuple(judge(x, x.current) for x in instances)
    contestants = {name: name for name in cell.seconds} | {TWIN: REFERENCE, SLOWED: REFERENCE}
    rng = settings.order(number, *stream.name.encode())
    replays: dict[str, Replay] = {}
    # What is built first is slower by some tenths of a per cent than what is built last; in a fixed
    # order that would be a difference between two names of one curriculum.
    for label in rng.permutation(list(contestants)).tolist():
        name, slowdown = contestants[label], 1.05 if label == SLOWED else 1.0
        try:
            replay = Replay(name, instances, cell.seconds[name], settings.share, slowdown)
            if judged and problem_of(name) is not None:
                solved = [judge(x, *replay.solve(i)) for i, x in enumerate(instances)]
                cell.answers[name] = tuple(solved)
            else:
                replay.solve(0)
            replays[label] = replay
        except Exception as error:  # noqa: BLE001 - an outside curriculum may raise anything
            cell.untimed[name] = describe(error)
    for name in cell.untimed:
        cell.seconds.pop(name, None)
    load = psutil.getloadavg()[0]
    psutil.cpu_times_percent()
    times = time_block(replays, rng)
    # Per cent since the call before; only Linux knows what a hypervisor took.
    steal = getattr(psutil.cpu_times_percent(), "steal", 0.0) / 100
    cell.blocks[number] = BlockRecord(times=times, load=load, steal=steal)
