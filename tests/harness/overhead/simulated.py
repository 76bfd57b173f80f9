"""Cells whose times follow a known law, so that what the analysis says can be checked."""

from __future__ import annotations

import numpy as np

from pacebench.harness.overhead.cells import BlockRecord, CellRecord, Probe
from pacebench.harness.overhead.instances import synthetic
from pacebench.harness.overhead.machine import Activity
from pacebench.harness.overhead.quality import Answer, judge, staying
from pacebench.harness.overhead.replay import AGAIN, SLOWED
from pacebench.harness.overhead.settings import TWIN, Settings
from pacebench.harness.overhead.streams import ReplayStream, check_stream, grid_streams
from pacebench.harness.overhead.timing import BlockTimes

# Seconds of an update: fixed cost, cost per K·d, exponent of d.
LAWS = {
    "default": (5e-5, 1e-9, 1.0),
    "spgl": (1e-4, 4e-9, 1.0),
    "spgl-shared": (1.6e-4, 5e-9, 1.0),
    "spdl-sqp": (8e-3, 1e-7, 2.0),
    "spdl": (2e-1, 1e-6, 2.0),
}
SETTINGS = Settings(
    curricula=tuple(LAWS), dimensions=(1, 3, 10, 100, 1_000, 10_000), sizes=(16, 64, 256), limit=2.0
)
_STATE = Activity(load=(0.5, 0.5, 0.5), steal=0.0, preemptions=3)


def simulated_cells(
    rng: np.random.Generator, settings: Settings = SETTINGS, noise: float = 0.02
) -> tuple[list[CellRecord], CellRecord]:
    """Returns the measured grid and the self-check."""
    cells = [_cell(source, rng, settings, noise) for source in grid_streams(settings)]
    return cells, _check(rng, settings, noise)


def _cell(
    stream: ReplayStream, rng: np.random.Generator, settings: Settings, noise: float
) -> CellRecord:
    cell = CellRecord(stream=stream, digest=settings.cell_digest())
    seconds = {name: _law(name, stream.d, stream.size) for name in settings.curricula}
    for name, taken in seconds.items():
        within = taken <= settings.limit
        cell.probes[name] = Probe(seconds=taken) if within else Probe(over=stream.name)
    for number in range(settings.blocks):
        # The machine's mood is shared by all that is measured in one block.
        mood = float(np.exp(0.2 * rng.standard_normal()))
        times = {name: seconds[name] for name in cell.seconds} | {TWIN: seconds["spgl"]}
        cell.blocks[number] = BlockRecord(
            times={name: _times(taken * mood, rng, noise) for name, taken in times.items()},
            machine=_STATE,
        )
    if stream.d <= 3:
        cell.answers.update({i: answers(stream, i, list(cell.seconds)) for i in range(3)})
    return cell


def answers(stream: ReplayStream, index: int, names: list[str]) -> dict[str, Answer]:
    """Returns real answers to a real instance, judged."""
    instance = synthetic(stream.d, stream.size, index, seed=1, epsilon=0.05)
    found = {"staying": staying(instance)}
    for name in names:
        if name in ("default", "spdl"):
            continue
        curriculum = instance.make(name)
        record = curriculum.update(instance.contexts, instance.values)
        found[name] = judge(instance, record, curriculum.distribution)
    return found


def _check(rng: np.random.Generator, settings: Settings, noise: float) -> CellRecord:
    cell = CellRecord(stream=check_stream(settings), digest=settings.cell_digest())
    cell.probes["spgl"] = Probe(seconds=1e-4)
    factors = {"spgl": 1.0, TWIN: 1.0, AGAIN: 1.0, SLOWED: 1.05}
    for number in range(settings.check_blocks):
        times = {label: _times(1e-4 * f, rng, noise) for label, f in factors.items()}
        cell.blocks[number] = BlockRecord(times=times, machine=_STATE)
    return cell


def _law(name: str, d: int, size: int) -> float:
    fixed, work, exponent = LAWS[name]
    return fixed + work * size * d**exponent


def _times(seconds: float, rng: np.random.Generator, noise: float) -> BlockTimes:
    wall = tuple((seconds * np.exp(noise * rng.standard_normal(4))).tolist())
    return BlockTimes(wall=wall, cpu=wall, passes=5)
