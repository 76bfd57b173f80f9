"""How a study's folder grows with its number of runs, on made-up studies of one shape.

Four curricula on two setups, ten evaluations of 20 contexts, 20 updates per run; the runs are
written as the runner writes them. Twice the runs should take twice as long; the last column is the
power of n between two sizes. Seconds are of processor time, so that other work does not count.

To load is to call `load_results`, which returns all tables as frames. The first load is of a study
that was never loaded here: every file is read, verified and decoded, and the tables are left in the
user's cache, which the next load reads. The files are loose, or packed into one. Every load is in a
process of its own; its limit is in seconds by the clock, and processor time is counted too; pandas
reads the same files beside it.

    python -m benchmarks.scale [RUNS …]     (2 000 and 10 000 unless given; no loading alone)
    python -m benchmarks.scale --load [RUNS …]     (10 000 and 50 000; loading alone)
    python -m benchmarks.scale --light [RUNS …]     (up to 50 000; runs without tables, no report)
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.table import row
from pacebench.harness.analysis.history import history_of
from pacebench.harness.analysis.waves import planned_counts
from pacebench.harness.records import RunResult, Status
from pacebench.harness.report.make import report
from pacebench.harness.runner.leases import Leases
from pacebench.harness.runner.snapshot import look, take
from pacebench.harness.store import runs as on_disk
from pacebench.harness.store.ledger import now
from pacebench.harness.store.load import load_results
from pacebench.harness.store.pack import pack
from pacebench.harness.store.runs import failed
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import PlannedRun

LABELS = ("default", "initial", "linear", "spgl")
SETUPS = ("point-mass-1", "point-mass-2")
CONTEXTS, POINTS, UPDATES = 20, 10, 20
USUAL = {"all": (2_000, 10_000), "load": (10_000, 50_000), "light": (5_000, 50_000)}
LOADS = ("first load, loose", "load from cache, loose")
LOADS += ("first load, packed", "load from cache, packed")
LIMITS = {**{(10_000, name): 5.0 for name in LOADS}, (10_000, "report"): 60.0}
LEASES = 2_000  # as of so many workers at once
# Different results of a cell; encoding each run's own would take longer than all that is measured.
DIFFERENT = 250
PLAINLY = 1_000  # runs that pandas reads


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


def fill(root: Path, asked: Study, *, light: bool = False) -> None:
    """Writes every run of a study: it finds the gate or it does not; light ones have no tables."""
    store, planned = RunStore(root), expand(asked)
    store.extend_manifest(asked.name, asked.model_dump(mode="json"), planned)
    rng = np.random.default_rng(0)
    made: dict[tuple[str, str, int], RunResult] = {}
    encoded: dict[int, dict[str, bytes]] = {}

    def contents(result: RunResult) -> dict[str, bytes]:
        key = id(result.evaluations)  # of one that is kept in `made`
        if key not in encoded:
            encoded[key] = encode(result)
        return encoded[key]

    encode = on_disk._contents
    with patch.object(on_disk, "_contents", encode if light else contents):
        for run in planned:
            key = (run.label, run.cell.setup, run.seed.index % DIFFERENT)
            if light:
                result = failed(run.seed, Status.TIMEOUT, "")
            else:
                made[key] = made[key] if key in made else _result(run, rng)
                result = replace(made[key], seed=run.seed)
            store.write(run, result, {"attempts": 1, "seconds": 1.0, "finished": now()})
    events = [{"event": "finish", "run": run.run_id, "status": "ok"} for run in planned]
    store.ledger.append_all(events)


def _result(run: PlannedRun, rng: np.random.Generator) -> RunResult:
    steps = np.repeat(run.cell.evaluation.steps, CONTEXTS)
    solved = rng.random() < 0.2 + 0.2 * LABELS.index(run.label)
    returns = np.clip((85 if solved else 15) + 2 * rng.standard_normal(len(steps)), 0, 93)
    evaluations: dict[str, Any] = {
        "step": steps,
        "distribution": ["target"] * len(steps),
        "policy": ["deterministic"] * len(steps),
        "context": np.tile(np.arange(CONTEXTS), POINTS),
        "return": returns,
        "discounted_return": returns / 10,
        "success": [bool(solved)] * len(steps),
        "length": [100] * len(steps),
    }
    numbers = ("epsilon", "threshold", "mean_value", "slack", "predicted_value", "kl_step", "ess")
    numbers += ("kl_target_forward", "kl_target_reverse", "seconds", "seconds_recording")
    updates: dict[str, Any] = {
        "iteration": list(range(UPDATES)),
        "env_steps": [5_000 * (i + 1) for i in range(UPDATES)],
        "episodes": [20] * UPDATES,
        "discarded": [0] * UPDATES,
        "mean": rng.random((UPDATES, run.cell.task.dim)).tolist(),
        "std": rng.random((UPDATES, run.cell.task.dim)).tolist(),
        "theta": [None] * UPDATES,
        "step": ["performance"] * UPDATES,
        "case": ["interior"] * UPDATES,
        **{name: rng.random(UPDATES).tolist() for name in numbers},
        "iterations": [0] * UPDATES,
        "accepted": [True] * UPDATES,
    }
    return RunResult(
        seed=run.seed,
        status=Status.OK,
        reason="",
        env_steps=run.cell.budget,
        evaluations=evaluations,
        updates=updates,
        timings={"rollout": 1.0},
        policy={},
    )


def tasks(root: Path, asked: Study) -> dict[str, dict[str, Callable[[], object]]]:
    """Returns what is timed, by kind and name."""
    store, planned, leases = RunStore(root), expand(asked), Leases(root)
    manifest = store.manifest()
    assert manifest is not None
    changed = {**asked.model_dump(mode="json"), "question": "And again?"}
    statuses = {run.run_id: "ok" for run in planned}
    sent = root.parent / "sent.zip"
    light: dict[str, Callable[[], object]] = {
        "write manifest": lambda: store.extend_manifest(asked.name, changed, planned),
        "read manifest": store.manifest,
        "read ledger": lambda: history_of(store.ledger),
        "append 100 entries": lambda: [store.ledger.append("look") for _ in range(100)],
        "list leases": leases.split,
        "take 100 leases": lambda: [leases.acquire(f"more-{i}") for i in range(100)],
        "one tick's state": lambda: take(manifest, statuses, {}, {}),
        "status": lambda: look(store, manifest),
    }
    load: dict[str, Callable[[], object]] = {
        "first load, loose": partial(load_results, root),
        "load from cache, loose": partial(load_results, root),
        "pack": lambda: pack(root, sent),
        "first load, packed": partial(load_results, sent),
        "load from cache, packed": partial(load_results, sent),
    }
    rest: dict[str, Callable[[], object]] = {
        "next wave": lambda: planned_counts(asked, root),
        "report": lambda: report(root),
    }
    return {"light": light, "load": load, "all": {**light, **rest}}


def spent() -> float:
    """Returns the seconds of processor time of this process and of those that it has ended."""
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + others.ru_utime + others.ru_stime


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Returns the seconds that a function takes, by the clock and of processor time."""
    start, began = spent(), time.perf_counter()
    function()
    return time.perf_counter() - began, spent() - start


def alone(function: Callable[[], object]) -> tuple[float, float]:
    """Returns what `timed` does, of a process that has done nothing else, as users' have not."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(timed, function).result()


def read_plainly(root: Path) -> float:
    """Returns the seconds in which pandas reads and joins the tables, from some of the runs."""
    folders = sorted((root / "runs").iterdir())
    some = folders[:PLAINLY]
    started = time.perf_counter()
    for name in ("evaluations.parquet", "updates.parquet", "timings.parquet"):
        pd.concat([pd.read_parquet(folder / name) for folder in some])
    return (time.perf_counter() - started) * len(folders) / len(some)


def main() -> None:
    """Prints the seconds of each step for every size, and how they grow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=int)
    for kind in USUAL:
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    parser.set_defaults(kind="all")
    said = parser.parse_args()
    before: dict[str, tuple[int, float]] = {}
    powers: dict[str, float] = {}

    def show(runs: int, name: str, found: float, unit: str) -> None:
        old = before.get(name)
        growth = math.log(found / old[1]) / math.log(runs / old[0]) if old else math.nan
        print(f"{runs:7,} runs  {name:24} {found:9.3f} {unit:3}  n^{growth:.2f}", flush=True)
        before[name] = (runs, found)
        # What takes no time to speak of has no growth to speak of.
        if old and found > 0.5:
            powers[name] = growth

    for runs in said.runs or USUAL[said.kind]:
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ):
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            root, asked = Path(folder) / "scale", study(runs)
            # What is measured is processor time, so nothing need wait for the disk.
            with patch("os.fsync", lambda _: None):
                fill(root, asked, light=said.kind == "light")
                for run in expand(asked)[:LEASES]:
                    Leases(root).acquire(run.run_id)
                for name, function in tasks(root, asked)[said.kind].items():
                    wall, taken = (alone if name in LOADS else timed)(function)
                    show(runs, name, taken, "s")
                    if limit := LIMITS.get((runs, name)):
                        found = wall if name in LOADS else taken
                        sides = f"{found:.1f} s / {limit:g} s"
                        if name in LOADS:
                            sides += f"; {taken:.1f} s of processor time"
                        row(f"{runs:,} runs: {name} / limit", sides, found / limit, most=1.0)
                    if name == LOADS[0]:
                        plain = read_plainly(root)
                        sides = f"{plain:.1f} s / {wall:.1f} s"
                        row(f"{runs:,} runs: pandas, unverified / {name}", sides, plain / wall)
            if said.kind == "all":
                size = (root / "report" / "index.html").stat().st_size
                show(runs, "page", size / 2**20, "MiB")
            peak = max(
                resource.getrusage(whose).ru_maxrss
                for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            )
            show(runs, "memory, at most", peak / 2**10, "MiB")
    if powers:
        worst = max(powers, key=lambda name: powers[name])
        sides = "; ".join(f"{name} {power:.2f}" for name, power in powers.items())
        sizes = " to ".join(f"{size:,}" for size in said.runs or USUAL[said.kind])
        text = (
            f"from {sizes} runs: largest power of their number that anything grows with ({worst})"
        )
        row(text, sides, powers[worst], most=1.25)


if __name__ == "__main__":
    main()
