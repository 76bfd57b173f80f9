"""How much of a study's processor time is evaluation, with all of it and with what claims need.

For each shipped study and setup: seeds train for the steps between two points of the study's grid,
then the trained policies are evaluated as at a point before the last and as at the last, both with
`detail: full` and as the study asks. From these the share of evaluation over the study's whole
budget follows: (points − 1) × before + last, beside the budget's training at the measured rate.
Both sides come from the same policies in the same process, in processor time. The limit is on a
study as a whole, with as many runs on each of its setups. Where a study's runs are committed, the
times that they recorded are shown beside it.

    python -m benchmarks.evaluation                         # every grid and setup of our studies
    python -m benchmarks.evaluation --study paper    # one of them
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.learners import THREADS
from benchmarks.table import row
from pacebench import harness
from pacebench.harness.records import Hooks
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.evaluation import Evaluator
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell

# Longer training shows nothing new about rates; an evaluation costs what its episodes last.
MOST_STEPS = 204_800
MOST = 0.1  # of the processor time


def seconds(cell: Cell, seeds: int) -> tuple[float, float, float]:
    """Returns the processor time of a batch: training, evaluation in full, and as asked."""
    resolved = ResolvedCell.of(cell)
    chosen = [RunSeed(root=0, role=StudyRole.PILOT, index=i) for i in range(seeds)]
    batch = TrainingBatch(resolved, chosen, [None] * seeds, Hooks())
    steps = min(cell.budget // len(cell.evaluation.steps), MOST_STEPS)
    started = time.process_time()
    while batch.env_steps < steps:
        batch.advance()
    training = (time.process_time() - started) / batch.env_steps * cell.budget
    full = cell.evaluation.model_copy(update={"detail": "full", "curve_contexts": None})
    evaluation = []
    for asked in (full, cell.evaluation):
        evaluator = Evaluator(resolved.setup, asked, chosen)
        taken = []
        for last in (False, True):
            started = time.process_time()
            current = [scheduler.curriculum for scheduler in batch.schedulers]
            evaluator.evaluate(batch.agents, current, 0, 0, range(seeds), last=last)
            taken.append(time.process_time() - started)
        evaluation.append(taken[0] * (len(cell.evaluation.steps) - 1) + taken[1])
    return training, evaluation[0], evaluation[1]


def show(what: str, measured: Sequence[tuple[float, float, float]], most: float | None) -> None:
    """Prints the shares of evaluation over some batches."""
    training, full, asked = np.sum(measured, axis=0).tolist()
    everything, share = full / (full + training), asked / (asked + training)
    sides = f"{everything:.1%} if all is evaluated, {share:.1%} as asked"
    row(f"{what}: share of time", sides, share, most=most)


def show_recorded(study: Study) -> None:
    """Prints the share of evaluation in the time that the committed runs of a study recorded."""
    folder = Path("results") / study.name
    if RunStore(folder).manifest() is None:
        return
    runs = load_results(folder).runs
    for setup, some in runs[runs["status"] == "ok"].groupby("setup", observed=True):
        share = some["seconds_evaluation"].sum() / some["seconds"].sum()
        row(f"{study.name}, {setup}: share recorded", f"by {len(some)} runs", share)


def main() -> None:
    """Prints one line per setup, and one for each study as a whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    if any(os.environ.get(variable) != "1" for variable in THREADS):
        # Read when the libraries are loaded, hence the fresh start.
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.evaluation", *sys.argv[1:]])
    torch.set_num_threads(1)
    seen: dict[str, tuple[float, float, float]] = {}
    for path in sorted(Path("studies").glob("*.yaml")):
        study: Study = harness.load_study(path)
        if given.study not in (None, study.name):
            continue
        whole = []
        for setup in study.setups:
            entries = {study.learner_of(entry).name: entry for entry in study.curricula}
            for learner, entry in entries.items():
                cell = resolve_cell(study, entry, setup)
                # Curricula hardly differ in cost, so studies with one grid need one measurement.
                key = f"{setup} {learner} {cell.budget} {cell.evaluation} {cell.learner}"
                if key not in seen:
                    seen[key] = seconds(cell, given.seeds if learner == "ppo" else 1)
                    show(f"{study.name}, {setup}, {learner}", [seen[key]], None)
                whole.append(seen[key])
        show(f"{study.name} as a whole", whole, MOST)
        show_recorded(study)


if __name__ == "__main__":
    main()
