"""How loading and analysing grow with the number of runs, on made-up studies of one shape.

Four curricula on two setups, ten evaluations of 20 contexts, 20 updates per run; the runs are
written as the runner writes them. Twice the runs should take twice as long; the last column is the
power of n between two sizes. Seconds are of one core (CPU time), so that other work does not count.

    python -m benchmarks.scale [RUNS …]     (500, 1 000 and 2 000 unless given)
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pacebench.harness.analysis.waves import planned_counts
from pacebench.harness.records import RunResult, Status
from pacebench.harness.report.gather import gather
from pacebench.harness.store.ledger import Ledger, now
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study

LABELS = ("default", "initial", "linear", "spgl")
SETUPS = ("point-mass-1", "point-mass-2")
CONTEXTS, POINTS = 20, 10


def study(runs: int) -> Study:
    """Returns a study of so many runs."""
    return Study.model_validate(
        {
            "name": "scale",
            "question": "How long does it take to read this?",
            "curricula": list(LABELS),
            "setups": list(SETUPS),
            "seeds": {"count": runs // (len(LABELS) * len(SETUPS))},
            "budget": 100_000,
            "evaluation": {"points": POINTS, "contexts": CONTEXTS},
            "statistics": {"comparisons": [["spgl", "default"], ["spgl", "linear"]]},
        }
    )


def fill(root: Path, asked: Study) -> None:
    """Writes every run of a study: it finds the gate or it does not."""
    store, planned = RunStore(root), expand(asked)
    store.extend_manifest(asked.name, asked.model_dump(mode="json"), planned)
    rng = np.random.default_rng(0)
    steps = np.repeat(asked.evaluation_steps(), CONTEXTS)
    for run in planned:
        solved = rng.random() < 0.2 + 0.2 * LABELS.index(run.label)
        returns = np.clip((85 if solved else 15) + 2 * rng.standard_normal(len(steps)), 0, 93)
        evaluations: dict[str, Any] = {
            "step": steps.tolist(),
            "distribution": ["target"] * len(steps),
            "policy": ["deterministic"] * len(steps),
            "context": np.tile(np.arange(CONTEXTS), POINTS).tolist(),
            "return": returns.tolist(),
            "discounted_return": (returns / 10).tolist(),
            "success": [bool(solved)] * len(steps),
            "length": [100] * len(steps),
        }
        result = RunResult(
            seed=run.seed,
            status=Status.OK,
            reason="",
            env_steps=asked.budget,
            evaluations=evaluations,
            updates={},
            timings={"rollout": 1.0},
            policy={},
        )
        store.write(run, result, {"attempts": 1, "seconds": 1.0, "finished": now()})


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    """Prints the seconds of each step for every size, and how they grow."""
    sizes = [int(text) for text in sys.argv[1:]] or [500, 1_000, 2_000]
    before: dict[str, tuple[int, float]] = {}
    for runs in sizes:
        with tempfile.TemporaryDirectory() as folder:
            root, asked = Path(folder) / "scale", study(runs)
            fill(root, asked)
            tasks: dict[str, Callable[[], object]] = {
                "load": lambda root=root: load_results(root),
                "next wave": lambda root=root, asked=asked: planned_counts(asked, root),
                "report data": lambda root=root: gather(root, load_results(root), Ledger(root)),
            }
            for name, function in tasks.items():
                seconds = _seconds(function)
                old = before.get(name)
                growth = math.log(seconds / old[1]) / math.log(runs / old[0]) if old else math.nan
                print(f"{runs:7,} runs  {name:12} {seconds:8.2f} s   n^{growth:.2f}")
                before[name] = (runs, seconds)


if __name__ == "__main__":
    main()
