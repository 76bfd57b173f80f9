"""What the runner and the store cost.

    python -m benchmarks.runner overhead [--study studies/quick.yaml]
    python -m benchmarks.runner load [--runs 10000]
    python -m benchmarks.runner batches

`overhead` runs a study for real, in a temporary folder, and says which share of the workers' time
went into anything but training. `load` makes up runs, loads them with `load_results`, and loads the
same Parquet files one after the other with pandas for comparison. `batches` trains batches of
growing size and fits the fixed cost of a batch, which the packing assumes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from unittest.mock import patch

import numpy as np

from pacebench.harness import load_results, load_study, run
from pacebench.harness.records import EVALUATION_COLUMNS, RunResult, Status
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.specs import PlannedRun


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    overhead_parser = commands.add_parser("overhead")
    overhead_parser.add_argument("--study", default="studies/quick.yaml")
    overhead_parser.add_argument("--workers", type=int)
    load_parser = commands.add_parser("load")
    load_parser.add_argument("--runs", type=int, default=10_000)
    load_parser.add_argument("--points", type=int, default=10)
    commands.add_parser("batches")
    arguments = parser.parse_args()
    if arguments.command == "overhead":
        overhead(arguments.study, arguments.workers)
    elif arguments.command == "load":
        load(arguments.runs, arguments.points)
    else:
        batches()


def overhead(path: str, workers: int | None) -> None:
    """Runs a study and prints where the workers' time went."""
    study = load_study(path)
    with tempfile.TemporaryDirectory() as folder:
        summary = run(study, results=folder, options=RunOptions(workers=workers))
    accounts = summary.accounts
    print(
        f"{study.name}: {summary.made} runs in {summary.seconds:.1f} s "
        f"with {summary.workers} workers"
    )
    for name, seconds in vars(accounts).items():
        print(f"  {name:<10} {seconds:9.2f} s  {seconds / accounts.total:7.2%}")
    share = accounts.scheduling / accounts.total
    print(f"scheduling overhead (preparing + storing + waiting): {share:.2%} of the workers' time")
    everything = 1 - (accounts.training + accounts.idle) / accounts.total
    print(f"with starting (interpreter and imports, once per worker): {everything:.2%}")


def batches() -> None:
    """Trains batches of growing size and prints what a batch costs beside its seeds."""
    import torch

    from pacebench.harness.runner.packing import FIXED
    from pacebench.harness.training import train

    torch.set_num_threads(1)
    study = load_study("studies/quick.yaml")
    study = study.model_copy(update={"budget": 16_384})
    planned = expand(study)[0]
    train(planned.cell, [planned.seed])
    sizes = (1, 2, 4, 8, 16, 32)
    seconds = []
    for size in sizes:
        seeds = [RunSeed(root=0, role=StudyRole.PILOT, index=i) for i in range(size)]
        # CPU time: what else the machine does is not the batch's cost.
        started = process_time()
        train(planned.cell, seeds)
        seconds.append(process_time() - started)
        print(f"{size:3d} seeds: {seconds[-1]:7.2f} s, {seconds[-1] / size:6.3f} s a seed")
    slope, fixed = np.polyfit(sizes, seconds, 1)
    print(f"fixed cost of a batch: {fixed / slope:.1f} seeds (the packing assumes {FIXED:g})")


def load(count: int, points: int) -> None:
    """Makes up runs and prints how long it takes to load them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "made-up"
        # What is measured is reading, so the writing need not wait for the disk.
        with patch("os.fsync", lambda _: None):
            _make_up(root, count, points)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        seconds = []
        with patch.dict("os.environ", XDG_CACHE_HOME=f"{folder}/cache"):
            for _ in range(2):
                started, worked = perf_counter(), process_time()
                results = load_results(root)
                seconds.append((perf_counter() - started, process_time() - worked))
        assert (results.runs["status"] == "ok").all()
        rows = len(results.evaluations) + len(results.updates)
        count = len(results.runs)
        print(f"{count:,} runs, {rows:,} rows, {size / 2**20:.0f} MiB on disk")
        for name, (wall, cpu) in zip(("first time", "again"), seconds, strict=True):
            print(f"load_results, {name:10}               {wall:.1f} s, {cpu:.1f} s of CPU")
        sample = list((root / "runs").iterdir())[: max(1, count // 10)]
        plain = _read_plainly(sample) * count / len(sample)
        print(f"pandas.read_parquet, file by file:     {plain:.1f} s (from {len(sample):,} runs)")
        print("ratios: " + ", ".join(f"{plain / wall:.1f}" for wall, _ in seconds))


def _read_plainly(folders: list[Path]) -> float:
    import pandas as pd

    names = ("evaluations.parquet", "updates.parquet", "timings.parquet")
    started = perf_counter()
    frames = [[pd.read_parquet(folder / name) for folder in folders] for name in names]
    for kind in frames:
        pd.concat(kind)
    return perf_counter() - started


def _make_up(root: Path, count: int, points: int) -> None:
    study = load_study("studies/quick.yaml")
    each = count // len(study.curricula)
    seeds = study.seeds.model_copy(update={"count": each})
    runs = expand(study.model_copy(update={"seeds": seeds}))
    store = RunStore(root)
    store.extend_manifest("made-up", {}, runs)
    rng = np.random.default_rng(0)
    for made in runs:
        store.write(made, _made_up_result(made, points, rng), {"attempts": 1})


def _made_up_result(made: PlannedRun, points: int, rng: np.random.Generator) -> RunResult:
    contexts, updates = 100, 40
    rows = points * contexts
    values = rng.normal(size=rows)
    evaluations = {
        "step": np.repeat(np.arange(1, points + 1) * 10_000, contexts),
        "distribution": ["target"] * rows,
        "policy": ["deterministic"] * rows,
        "context": np.tile(np.arange(contexts), points),
        "return": values,
        "discounted_return": 0.9 * values,
        "success": values > 0,
        "length": rng.integers(1, 100, rows),
    }
    assert set(evaluations) == set(EVALUATION_COLUMNS)
    numbers = ("epsilon", "threshold", "mean_value", "slack", "predicted_value", "kl_step")
    numbers += ("kl_target_forward", "kl_target_reverse", "ess", "seconds")
    return RunResult(
        seed=made.seed,
        status=Status.OK,
        reason="",
        env_steps=100_000,
        evaluations=evaluations,
        updates={
            "iteration": list(range(updates)),
            "env_steps": [2048 * (i + 1) for i in range(updates)],
            "episodes": [20] * updates,
            "discarded": [0] * updates,
            "mean": rng.normal(size=(updates, 3)).tolist(),
            "std": rng.normal(size=(updates, 3)).tolist(),
            "theta": [None] * updates,
            "step": ["performance"] * updates,
            "case": ["interior"] * updates,
            **{name: rng.normal(size=updates).tolist() for name in numbers},
            "iterations": [0] * updates,
            "accepted": [True] * updates,
        },
        timings={"rollout": 1.0, "policy": 2.0, "curriculum": 0.1, "evaluation": 0.5},
        policy={"weights": rng.normal(size=100).astype(np.float32)},
    )


if __name__ == "__main__":
    main()
