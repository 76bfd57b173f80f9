"""How much of a study's processor time is evaluation, with all of it and with what claims need.

For each shipped study and setup: seeds train for the steps between two points of the study's grid,
then the trained policies are evaluated as at a point before the last and as at the last, both with
`detail: full` and as the study asks. From these the share of evaluation over the study's whole
budget follows: (points − 1) × before + last, beside the budget's training at the measured rate.
Both sides come from the same policies in the same process, in processor time.

    python -m benchmarks.evaluation                         # every grid and setup of our studies
    python -m benchmarks.evaluation --study paper    # one of them
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks.learners import THREADS
from benchmarks.table import row
from pacebench import harness
from pacebench.harness.records import Hooks
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.evaluation import Evaluator
from pacebench.harness.training.loop import TrainingBatch
from pacebench.harness.training.resolved import ResolvedCell

# Longer training shows nothing new about rates; an evaluation costs what its episodes last.
MOST_STEPS = 204_800
MOST = 0.1  # of the processor time


def shares(cell: Cell, seeds: int) -> tuple[float, float]:
    """Returns the share of evaluation in processor time, with all of it and as the cell asks."""
    resolved = ResolvedCell.of(cell)
    chosen = [RunSeed(root=0, role=StudyRole.PILOT, index=i) for i in range(seeds)]
    batch = TrainingBatch(resolved, chosen, [None] * seeds, Hooks())
    steps = min(cell.budget // len(cell.evaluation.steps), MOST_STEPS)
    started = time.process_time()
    while batch.env_steps < steps:
        batch.advance()
    training = (time.process_time() - started) / batch.env_steps * cell.budget
    found = []
    for detail, contexts in (("full", None), (cell.evaluation.detail, ...)):
        asked = cell.evaluation.model_copy(update={"detail": detail})
        if contexts is None:
            asked = asked.model_copy(update={"curve_contexts": None})
        evaluator = Evaluator(resolved.setup, asked, chosen)
        seconds = []
        for last in (False, True):
            started = time.process_time()
            current = [scheduler.curriculum for scheduler in batch.schedulers]
            evaluator.evaluate(batch.agents, current, 0, 0, range(seeds), last=last)
            seconds.append(time.process_time() - started)
        evaluation = seconds[0] * (len(cell.evaluation.steps) - 1) + seconds[1]
        found.append(evaluation / (evaluation + training))
    return found[0], found[1]


def main() -> None:
    """Prints one line per study and setup."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    if any(os.environ.get(variable) != "1" for variable in THREADS):
        # Read when the libraries are loaded, hence the fresh start.
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.evaluation", *sys.argv[1:]])
    torch.set_num_threads(1)
    seen: dict[str, tuple[float, float]] = {}
    for path in sorted(Path("studies").glob("*.yaml")):
        study: Study = harness.load_study(path)
        if given.study not in (None, study.name):
            continue
        for setup in study.setups:
            entries = {study.learner_of(entry).name: entry for entry in study.curricula}
            for learner, entry in entries.items():
                cell = resolve_cell(study, entry, setup)
                # Curricula hardly differ in cost, so studies with one grid need one measurement.
                key = f"{setup} {learner} {cell.budget} {cell.evaluation} {cell.learner}"
                seeds = given.seeds if learner == "ppo" else 1
                if key in seen:
                    continue
                everything, asked = seen[key] = shares(cell, seeds)
                sides = f"{everything:.1%} if all is evaluated, {asked:.1%} as asked"
                row(f"{study.name}, {setup}, {learner}: share of time", sides, asked, most=MOST)


if __name__ == "__main__":
    main()
