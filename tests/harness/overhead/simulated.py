"""Cells whose times follow a known law, so that what the analysis says can be checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pacebench.harness.overhead.cells import (
    Answer,
    BlockRecord,
    BlockTimes,
    CellRecord,
    replay_streams,
    synthetic,
)
from pacebench.harness.overhead.quality import judge
from pacebench.harness.overhead.settings import SLOWED, TWIN, Settings

# Seconds of an update: fixed cost, cost per K·d, exponent of d.
LAWS = {
    "default": (5e-5, 1e-9, 1.0),
    "spgl": (1e-4, 4e-9, 1.0),
    "spgl-shared": (1.6e-4, 5e-9, 1.0),
    "spdl-sqp": (8e-3, 1e-7, 2.0),
    "spdl": (2e-1, 1e-6, 2.0),
}
SETTINGS = Settings(
    curricula=tuple(LAWS),
    dimensions=(1, 3, 10, 100, 1_000, 10_000),
    sizes=(16, 64, 256),
    limit=2.0,
    instances=4,
)
# Half of every update is the method's own step.
STEP = 0.5


def law(name: str, d: int, size: int) -> float:
    """Returns the true seconds of an update, geometric mean over instances."""
    fixed, work, exponent = LAWS[name]
    return fixed + work * size * d**exponent


def simulated_cells(
    rng: np.random.Generator, noise: float = 0.02, slower: float = 1.0
) -> list[CellRecord]:
    """Returns the measured grid; `slower` stretches the times of `spgl-shared`."""
    cells = []
    for stream in replay_streams(Path("nowhere"), SETTINGS):
        cell = CellRecord(stream=stream, digest="simulated")
        # Instances differ by the same factors in every measurement of the stream.
        spread = np.exp(np.linspace(-1, 1, len(stream.indices)))
        seconds = {name: law(name, stream.d, stream.size) for name in LAWS}
        seconds["spgl-shared"] *= slower
        for name, taken in seconds.items():
            if taken <= SETTINGS.limit:
                cell.seconds[name] = taken
            else:
                cell.untimed[name] = "over the limit"
        timed = dict(cell.seconds)
        timed |= {TWIN: seconds["spgl"], SLOWED: 1.05 * seconds["spgl"]}
        for number in range(SETTINGS.blocks):
            # The machine's mood is shared by all that is measured in one block.
            mood = float(np.exp(0.2 * rng.standard_normal()))
            cell.blocks[number] = BlockRecord(
                times={n: _times(t * mood * spread, rng, noise) for n, t in timed.items()},
                load=0.5,
                steal=0.0,
            )
        if stream.d <= 3:
            found = [answers(stream.d, stream.size, i) for i in range(3)]
            cell.answers.update({name: tuple(a[name] for a in found) for name in found[0]})
        cells.append(cell)
    return cells


def answers(d: int, size: int, index: int) -> dict[str, Answer]:
    """Returns real answers to a real instance, judged."""
    instance = synthetic(d, size, index, seed=1, epsilon=0.05)
    found = {"staying": judge(instance, instance.current)}
    for name in ("spgl", "spgl-shared", "spdl-sqp"):
        curriculum = instance.make(name)
        record = curriculum.update(instance.contexts, instance.values)
        found[name] = judge(instance, curriculum.distribution, record)
    return found


class SimulatedRuns:
    """Ten training runs per curriculum, as `load_results` gives them: (seconds, score) of each."""

    def __init__(self, laws: dict[str, tuple[float, float]], seeds: int = 10) -> None:
        runs, evaluations, updates = [], [], []
        for name, (spent, score) in laws.items():
            for seed in range(seeds):
                run = {"run_id": f"{name}-{seed}", "label": name, "seed": seed, "current": True}
                phases = {"rollout": 5.0, "policy": 3.0 + 0.1 * seed, "curriculum": spent}
                clocks = {f"seconds_{phase}": taken for phase, taken in phases.items()}
                runs.append({**run, "setup": "s", "status": "ok", "env_steps": 1000, **clocks})
                for step, share in ((500, 0.5), (1000, 1.0)):
                    scored = {"distribution": "target", "policy": "deterministic"}
                    reached = {"return": share * (score + 0.01 * seed)}
                    evaluations.append({**run, "step": step, **scored, **reached})
                for step, share in ((400, 0.2), (800, 0.6)):
                    own = {"seconds": share * spent, "seconds_recording": 0.1 * spent}
                    updates.append({**run, "env_steps": step, **own, "accepted": step == 400})
        frames = (pd.DataFrame(rows) for rows in (runs, evaluations, updates))
        self.runs, self.evaluations, self.updates = frames


def _times(seconds: np.ndarray, rng: np.random.Generator, noise: float) -> BlockTimes:
    wall = seconds * np.exp(noise * rng.standard_normal(len(seconds)))
    return {"wall": tuple(wall), "cpu": tuple(wall), "step": tuple(STEP * wall)}
