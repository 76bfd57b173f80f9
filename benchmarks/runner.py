"""What the runner costs.

    python -m benchmarks.runner [--study studies/quick.yaml]     # about three minutes
    python -m benchmarks.runner --only batches

A study is run for real, in a temporary folder: which share of the workers' time went into anything
but training? Then batches of growing size are trained and the fixed cost of a batch is fitted,
which the packing assumes.
"""

from __future__ import annotations

import argparse
import tempfile
from time import process_time

import numpy as np

from benchmarks.table import row
from pacebench.harness import load_study, run
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.expand import expand


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["overhead", "batches"])
    parser.add_argument("--study", default="studies/quick.yaml")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    if given.only != "batches":
        overhead(given.study, given.workers)
    if given.only != "overhead":
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
    text = f"{study.name}: preparing, storing and waiting / the workers' time"
    sides = f"{accounts.scheduling:.2f} s / {accounts.total:.1f} s"
    row(text, sides, share)
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
    sides = f"{fixed / slope:.1f} / {FIXED:g} seeds"
    row("fixed cost of a batch / what the packing assumes", sides, fixed / slope / FIXED)


if __name__ == "__main__":
    main()
