"""Cells whose times follow a known law, so that what the analysis says can be checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.harness.overhead.cells import Cell, Source, synthetic_sources
from pacebench.harness.overhead.instances import Instance, synthetic
from pacebench.harness.overhead.quality import judge, staying
from pacebench.harness.overhead.replay import AGAIN, CHECK, SLOWED
from pacebench.harness.overhead.settings import TWIN, Settings

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
_STATE = {"load": [0.5, 0.5, 0.5], "steal": 0.0, "preemptions": 3}


def simulated_cells(
    rng: np.random.Generator, settings: Settings = SETTINGS, noise: float = 0.02
) -> tuple[list[Cell], Cell]:
    """Returns the measured grid and the self-check."""
    cells = [_cell(source, rng, settings, noise) for source in synthetic_sources(settings)]
    return cells, _check(rng, settings, noise)


def _cell(source: Source, rng: np.random.Generator, settings: Settings, noise: float) -> Cell:
    cell = Cell(source, settings.cell_digest())
    seconds = {name: _law(name, source.d, source.size) for name in settings.curricula}
    for name, taken in seconds.items():
        within = taken <= settings.limit
        cell.probes[name] = (
            {"seconds": taken, "attempted": True}
            if within
            else {"over": source.name, "attempted": True}
        )
    for number in range(settings.blocks):
        # The machine's mood is shared by all that is measured in one block.
        mood = float(np.exp(0.2 * rng.standard_normal()))
        times = {name: seconds[name] for name in cell.timed()} | {TWIN: seconds["spgl"]}
        cell.blocks[number] = {
            "times": {name: _times(taken * mood, rng, noise) for name, taken in times.items()},
            "failed": {},
            "machine": _STATE,
        }
    if source.d <= 3:
        cell.answers = {index: answers(source, index, cell.timed()) for index in range(3)}
    return cell


def answers(source: Source, index: int, names: list[str]) -> dict[str, Any]:
    """Returns real answers to a real instance, judged."""
    instance: Instance = synthetic(source.d, source.size, index, seed=1, epsilon=0.05)
    found: dict[str, Any] = {"staying": staying(instance).to_dict()}
    for name in names:
        if name in ("default", "spdl"):
            continue
        curriculum = instance.make(name)
        record = curriculum.update(instance.contexts, instance.values)
        found[name] = judge(instance, record, curriculum.distribution).to_dict()
    return found


def _check(rng: np.random.Generator, settings: Settings, noise: float) -> Cell:
    cell = Cell(CHECK, settings.cell_digest(), {"spgl": {"seconds": 1e-4, "attempted": True}})
    factors = {"spgl": 1.0, TWIN: 1.0, AGAIN: 1.0, SLOWED: 1.05}
    for number in range(settings.check_blocks):
        cell.blocks[number] = {
            "times": {label: _times(1e-4 * f, rng, noise) for label, f in factors.items()},
            "machine": _STATE,
        }
    return cell


def _law(name: str, d: int, size: int) -> float:
    fixed, work, exponent = LAWS[name]
    return fixed + work * size * d**exponent


def _times(seconds: float, rng: np.random.Generator, noise: float) -> dict[str, Any]:
    wall = seconds * np.exp(noise * rng.standard_normal(4))
    return {"wall": wall.tolist(), "cpu": wall.tolist(), "passes": 5}
