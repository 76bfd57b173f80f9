"""Instrumented training runs: the curriculum's share of the time, score per step and per second.

They are runs of an ordinary study, made by the runner, one at a time: times of parallel jobs would
say how they got in each other's way. Every seed has a fresh process in which the curricula train
one after the other in random order, so a seed is a block, and comparisons are paired by it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pacebench.harness.analysis.scores import ResultFrames, target_episodes
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.crossed import geometric_mean, mean
from pacebench.harness.overhead.findings import TrainingFinding, TrainingSummary
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.replay import Hear
from pacebench.harness.overhead.settings import REFERENCE, Settings
from pacebench.harness.records import Hooks, RunResult
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions, evaluation_hashes, make_runs
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.load import load_results
from pacebench.harness.store.provenance import sources
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell
from pacebench.harness.training import train

SETUP = "point-mass-2"
CURRICULA = (
    *("default", "spgl", "spgl-shared", "spgl-mixture", "spdl-sqp", "spdl"),
    *("acl", "plr", "currot", "alp-gmm", "procurl", "goal-gan"),
)
EVALUATIONS = 10


def overhead_study(
    names: Sequence[str], setup: str = SETUP, steps: int = 1, root: int = 0, seeds: int = 1
) -> Study:
    """Returns a study of some curricula, with every default that a study has."""
    return Study.model_validate(
        {
            "name": "overhead",
            "question": "What does the curriculum cost?",
            "curricula": list(names),
            "setups": [setup],
            "learner": "ppo",
            "seeds": {"count": seeds, "root": root},
            "budget": steps,
            "evaluation": {"points": EVALUATIONS, "contexts": 100},
        }
    )


def measure_training(folder: Path, settings: Settings, hear: Hear) -> TrainingSummary | None:
    """Makes the runs that are missing, one after the other; returns what all of them show."""
    names = [name for name in CURRICULA if name in settings.curricula]
    steps, root, seeds = settings.training_steps, settings.seed, settings.training_seeds
    study = overhead_study(names, SETUP, steps, root, seeds)
    runs = expand(study)
    # Another implementation has other times, whatever its runs' ids.
    results = folder / "training" / sources()
    options = RunOptions(
        workers=1,
        share=False,
        train=f"{__name__}:train_warm",
        batched=lambda _: False,
        display=Display(),
    )
    plan, asked = study.model_dump(mode="json"), []
    for seed in range(seeds):
        hear(f"train: seed {seed + 1} of {seeds}")
        mine = [run for run in runs if run.seed.index == seed]
        # What earlier seeds asked for is there, and stays asked for.
        asked += [mine[i] for i in settings.order(1_000 + seed).permutation(len(mine))]
        made = make_runs(study.name, plan, asked, results, options, evaluation_hashes(mine))
        if made.interrupted:
            raise UserError("stopped while training; run the same command again to go on.")
    return summarise_training(load_results(results))


@functools.cache
def _warm() -> None:
    """Pays once per process what the first run would pay: imports, first calls into libraries."""
    [run] = expand(overhead_study(["default"]))
    train(run.cell, [run.seed])


def train_warm(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Trains as any run does, in a process that has trained before; what workers call."""
    _warm()
    return train(cell, seeds, hooks)


def summarise_training(results: ResultFrames) -> TrainingSummary | None:
    """Returns the findings per curriculum; None where no two seeds are complete."""
    runs = results.runs[results.runs["status"] == "ok"].sort_values("seed")
    names = [name for name in CURRICULA if name in set(runs["label"])]
    labels = runs.groupby("seed")["label"].nunique()
    complete = labels.index[labels == len(names)]
    if len(complete) < 2:
        return None
    updates = results.updates.groupby("run_id", observed=True)
    made = updates.agg(
        updates=("seconds", "size"),
        step=("seconds", "mean"),
        recording=("seconds_recording", "mean"),
        accepted=("accepted", "sum"),
    )
    runs = runs[runs["seed"].isin(complete)].join(made, on="run_id")
    # Evaluation is no part of training.
    spent, base = runs["seconds_curriculum"], runs["seconds_rollout"] + runs["seconds_policy"]
    runs = runs.assign(base=base, seconds=base + spent, share=spent / (base + spent))
    # Scores are compared at the time that the quickest curriculum takes for all its steps; a run
    # that was done before keeps its last score.
    common = float(runs.groupby("label", observed=True)["seconds"].agg(stats.gmean).min())
    scores = target_episodes(results.evaluations).groupby(["run_id", "step"], observed=True)
    curves = scores["return"].mean()
    final, at_common = [], []
    for run in runs.to_dict("records"):
        curve = curves[run["run_id"]]
        clock = training_clock(run, updates.get_group(run["run_id"]), curve.index.to_numpy())
        final.append(curve.iloc[-1])
        at_common.append(np.interp(common, clock, curve))
    runs = runs.assign(
        final=final,
        at_common=at_common,
        per_update=spent / runs["updates"],
        per_1000_steps=1000.0 * spent / runs["env_steps"],
        rejected=runs["updates"] - runs["accepted"],
    )
    reference = runs[runs["label"] == REFERENCE]["seconds"].to_numpy()
    return TrainingSummary(
        setup=SETUP,
        env_steps=int(runs["env_steps"].iloc[0]),
        seeds=len(complete),
        common_seconds=common,
        methods={name: _finding(runs[runs["label"] == name], reference) for name in names},
    )


def _finding(runs: pd.DataFrame, reference: Floats) -> TrainingFinding:
    """Returns one curriculum's findings from its runs, and the reference's seconds, by seed."""
    # Scores may be negative.
    scores = {key: mean(runs[key].to_numpy()) for key in ("final", "at_common")}
    rates = ("share", "per_update", "step", "recording", "per_1000_steps", "seconds")
    return TrainingFinding(
        **scores,
        **{key: geometric_mean(runs[key].to_numpy()) for key in rates},
        ratio=geometric_mean(runs["seconds"].to_numpy() / reference),
        rejected=int(runs["rejected"].sum()),
    )


def training_clock(run: Mapping[Any, Any], updates: pd.DataFrame, steps: Floats) -> Floats:
    """Returns the training seconds gone when a run had made so many environment steps.

    Rollouts and policy updates cost the same at every step; the curriculum's updates are known one
    by one, and what the phase took beyond them is shared among them.
    """
    taken, made = updates["seconds"].to_numpy(), updates["env_steps"].to_numpy()
    shares = [taken[made <= step].sum() / (taken.sum() or 1.0) for step in steps]
    spent = run["seconds_curriculum"] * np.array(shares)
    return np.asarray(run["base"] * steps / run["env_steps"] + spent)
