"""Replays the streams: probes what is feasible, then measures block by block over all cells.

A block is one pass over the whole grid in random order, in a fresh process. So every block is a
replicate of every table and of every fitted exponent, and a slow hour of the machine falls on all
cells alike.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import thread_time

import numpy as np

from pacebench.harness.overhead.cells import MEMORY, BlockRecord, CellRecord, Probe, save_cell
from pacebench.harness.overhead.instances import Instance
from pacebench.harness.overhead.machine import Watch, limit_memory
from pacebench.harness.overhead.process import (
    OutOfTimeError,
    WorkerError,
    last_line,
    results_of,
    use_at_most,
)
from pacebench.harness.overhead.quality import STAYING, Answer, judge, problem_of, staying
from pacebench.harness.overhead.settings import REFERENCE, TWIN, Settings, order_generator
from pacebench.harness.overhead.streams import ReplayStream
from pacebench.harness.overhead.timing import QUICK, Contestant, Replay, passes_for, time_block

AGAIN, SLOWED = "spgl (again)", "spgl + 5 %"
_CHECKED = (
    Contestant(REFERENCE, REFERENCE),
    Contestant(TWIN, REFERENCE),
    Contestant(AGAIN, REFERENCE),
    Contestant(SLOWED, REFERENCE, slowdown=1.05),
)
_PROBED = 3
# Building a curriculum is not timed, and may take this long.
_BUILDING_SECONDS = 0.5

# Hears how far the measurement is: stage, steps done, steps in all, and what the last one was.
Hear = Callable[[str, int, int, str], None]
Answers = dict[int, dict[str, Answer]]


def probe_cells(cells: Sequence[CellRecord], folder: Path, settings: Settings, hear: Hear) -> None:
    """Finds out, per cell, which curricula make an update within the limit.

    Within the limit means that the probed updates together take no longer than the limit times
    their number: a solver may have a bad instance. Cells are taken from small to large. A
    curriculum over the limit is not tried again at larger d with the same K; the cell says so.
    """
    waiting = [cell for cell in cells if not cell.probes]
    done = len(cells) - len(waiting)
    hear("probe", done, len(cells), "")
    for cell in sorted(waiting, key=lambda c: (c.stream.d * c.stream.size, c.stream.d)):
        smaller = {name: _over_at(name, cell.stream, cells) for name in settings.curricula}
        found = probe(cell.stream, [n for n, at in smaller.items() if at is None], settings.limit)
        for name, at in smaller.items():
            cell.probes[name] = found[name] if at is None else Probe(over=at, attempted=False)
        save_cell(folder, cell)
        done += 1
        hear("probe", done, len(cells), cell.stream.name)


def _over_at(name: str, stream: ReplayStream, cells: Sequence[CellRecord]) -> str | None:
    """Returns the cell of smaller d and the same K that a curriculum was over the limit in."""
    for cell in cells:
        found = cell.probes.get(name, Probe())
        tried = found.attempted and found.over is not None
        if tried and cell.stream.d < stream.d and cell.stream.size == stream.size:
            return cell.stream.name
    return None


def probe(stream: ReplayStream, names: Sequence[str], limit: float) -> dict[str, Probe]:
    """Probes some curricula in one process; after one that ends it, the next has another."""
    found: dict[str, Probe] = {}
    while waiting := [name for name in names if name not in found]:
        try:
            for result in results_of(_probe_all, stream, waiting, limit):
                found[waiting.pop(0)] = result
        except OutOfTimeError:
            found[waiting[0]] = Probe(over=stream.name)
        except WorkerError as error:
            found[waiting[0]] = Probe(failed=str(error))
    return found


def _probe_all(stream: ReplayStream, names: Sequence[str], limit: float) -> Iterator[Probe]:
    limit_memory()
    instances = stream.build(stream.indices[: min(_PROBED, stream.at_most())])
    return (_probe_one(name, instances, limit) for name in names)


def _probe_one(name: str, instances: Sequence[Instance], limit: float) -> Probe:
    """Times a few updates; the kernel ends the process in the one that goes over the limit."""
    taken: list[float] = []
    for instance in instances:
        use_at_most(max(len(instances) * limit - sum(taken), 0.0) + _BUILDING_SECONDS)
        try:
            curriculum = instance.make(name)
            started = thread_time()
            curriculum.update(instance.contexts, instance.values)
            taken.append(thread_time() - started)
        except MemoryError:
            return Probe(over=MEMORY)
        except Exception:  # noqa: BLE001 - an outside curriculum may raise anything
            return Probe(failed=last_line())
        finally:
            use_at_most(0)
    mean = float(np.mean(taken))
    return Probe(seconds=mean) if mean <= limit else Probe(over=mean)


def measure_check(cell: CellRecord, folder: Path, settings: Settings, hear: Hear) -> None:
    """Measures the self-check: one curriculum under three names, and slowed by 5 %."""
    if not cell.probes:
        cell.probes.update(probe(cell.stream, [REFERENCE], settings.limit))
    longer = settings.model_copy(
        update={"blocks": settings.check_blocks, "share": 5 * settings.share}
    )
    measure_blocks([cell], folder, longer, hear, "check")


def measure_blocks(
    cells: Sequence[CellRecord],
    folder: Path,
    settings: Settings,
    hear: Hear,
    stage: str = "replay",
) -> None:
    """Measures what is missing of every block of every cell, one process per block."""
    total = settings.blocks * len(cells)
    done = sum(number < settings.blocks for cell in cells for number in cell.blocks)
    hear(stage, done, total, "")
    for number in range(settings.blocks):
        order = order_generator(settings, number).permutation(len(cells))
        waiting = [cells[i] for i in order if number not in cells[i].blocks]
        if not waiting:
            continue
        results = results_of(_measure_all, waiting, number, settings, cpu=number)
        for cell, (block, answers) in zip(waiting, results, strict=True):
            cell.blocks[number] = block
            cell.answers.update(answers)
            save_cell(folder, cell)
            done += 1
            hear(stage, done, total, f"block {number + 1}, {cell.stream.name}")


def _measure_all(
    cells: Sequence[CellRecord], number: int, settings: Settings
) -> Iterator[tuple[BlockRecord, Answers]]:
    limit_memory()
    for cell in cells:
        # Not a limit on the methods, which have passed their probes: a guard against hanging.
        signal.alarm(120 + int(20 * max(settings.limit * len(cell.probes), settings.process)))
        yield measure_block(cell, number, settings)


def measure_block(cell: CellRecord, number: int, settings: Settings) -> tuple[BlockRecord, Answers]:
    """Times one block of one cell in this process, and judges the answers that are still open."""
    stream, seconds = cell.stream, cell.seconds
    contestants = (
        _CHECKED
        if stream.kind == "check"
        else (*(Contestant(name, name) for name in seconds), Contestant(TWIN, REFERENCE))
    )
    once = sum(seconds[contestant.curriculum] for contestant in contestants)
    # Two halves and a warm-up of all instances.
    wanted = int(np.clip(settings.process / (3 * once), 1, stream.at_most()))
    indices = stream.of_block(number, wanted)
    instances = stream.build(indices)
    waiting = [i for i, index in enumerate(indices) if index not in cell.answers]
    answers: Answers = {indices[i]: {STAYING: staying(instances[i])} for i in waiting}
    replays: dict[str, Replay] = {}
    failed: dict[str, str] = {}
    for contestant in contestants:
        name, label = contestant.curriculum, contestant.label
        judged = waiting if name == label and problem_of(name) is not None else []
        # By count: one for what takes long anyway, more for what is over before caches are warm.
        untimed = settings.warm_up if seconds[name] < QUICK else 1
        try:
            replay = Replay(contestant, instances)
            found = {i: judge(instances[i], *replay.solve(i)) for i in judged}
            for n in range(len(found), untimed):
                replay.solve(n % len(instances))
        except Exception:  # noqa: BLE001 - an outside curriculum may raise anything
            failed[label] = last_line()
            continue
        replays[label] = replay
        for i, answer in found.items():
            answers[indices[i]][label] = answer
    guesses = {label: seconds[replay.contestant.curriculum] for label, replay in replays.items()}
    passes = {n: passes_for(s, len(instances), settings.share) for n, s in guesses.items()}
    quick = [label for label, guess in guesses.items() if guess < QUICK]
    order = (settings.seed, number, stream.d, stream.size, len(stream.name))
    watch = Watch()
    times = time_block(replays, passes, np.random.default_rng(order), quick)
    block = BlockRecord(times=times, failed=failed, machine=watch.report(), indices=indices)
    return block, answers
