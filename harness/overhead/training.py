"""Instrumented training runs: the curriculum's share of the time, score per step and per second.

They are runs of an ordinary study, made by the runner, one at a time: times of parallel jobs would
say how they got in each other's way. Every seed has a fresh process in which the curricula train
one after the other in random order, so a seed is a block, and comparisons are paired by it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import target_episodes
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.crossed import geometric_mean, mean
from pacebench.harness.overhead.findings import Ratio, Speed, TrainingFinding, TrainingSummary
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.replay import Hear
from pacebench.harness.overhead.settings import MINIMUM_BLOCKS, REFERENCE, Settings, source_digest
from pacebench.harness.records import Hooks, RunResult
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions, evaluation_hashes, make_runs
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.load import Results, load_results
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
    # Another implementation of the curricula has other times, whatever its runs' ids.
    results = folder / "training" / source_digest()
    options = RunOptions(
        workers=1,
        share=False,
        train=f"{__name__}:train_warm",
        batched=lambda _: False,
        display=Display(),
    )
    plan, asked = study.model_dump(mode="json"), []
    for seed in range(seeds):
        mine = [run for run in runs if run.seed.index == seed]
        # What earlier seeds asked for is there, and stays asked for.
        asked += [mine[i] for i in settings.order(1_000 + seed).permutation(len(mine))]
        made = make_runs(study.name, plan, asked, results, options, evaluation_hashes(mine))
        if made.interrupted:
            raise UserError("stopped while training; run the same command again to go on.")
        hear("train", seed + 1, seeds, f"seed {seed}")
    return summarise_training(training_runs(load_results(results)), SETUP)


@functools.cache
def _warm() -> None:
    """Pays once per process what the first run would pay: imports, first calls into libraries."""
    train(expand(study := overhead_study(["default"]))[0].cell, [expand(study)[0].seed])


def train_warm(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Trains as any run does, in a process that has trained before; what workers call."""
    _warm()
    return train(cell, seeds, hooks)


@dataclass(frozen=True)
class TrainingRun:
    """One instrumented run."""

    curriculum: str
    seed: int
    env_steps: int
    base: float  # seconds of rollouts and policy updates
    spent: float  # seconds in the curriculum
    steps: tuple[int, ...]  # of the evaluations
    returns: tuple[float, ...]  # mean return on the target contexts at them
    updates: pd.DataFrame  # a row each: `env_steps`, `seconds`, `seconds_recording`, `accepted`

    @property
    def seconds(self) -> float:
        """Training seconds; evaluation is left out, because it is no part of training."""
        return self.base + self.spent

    def seconds_at(self, step: float) -> float:
        """Returns the training seconds gone when the run had made `step` environment steps.

        Rollouts and policy updates cost the same at every step; the curriculum's updates are known
        one by one, and what the phase took beyond them is shared among them.
        """
        taken = self.updates["seconds"]
        made = float(taken[self.updates["env_steps"] <= step].sum() / (taken.sum() or 1.0))
        return self.base * step / self.env_steps + self.spent * made

    def score_at(self, elapsed: float) -> float:
        """Returns the score that the run had after so many training seconds, interpolated."""
        clock = [self.seconds_at(step) for step in self.steps]
        return float(np.interp(elapsed, clock, self.returns))


def training_runs(results: Results) -> list[TrainingRun]:
    """Returns the runs of a results folder that ended well."""
    judged = target_episodes(results.evaluations)
    curves = judged.groupby(["run_id", "step"], observed=True)["return"].mean()
    updates = dict(list(results.updates.groupby("run_id", observed=True)))
    return [
        TrainingRun(
            curriculum=run["label"],
            seed=run["seed"],
            env_steps=run["env_steps"],
            base=run["seconds_rollout"] + run["seconds_policy"],
            spent=run["seconds_curriculum"],
            steps=tuple(curves[run["run_id"]].index),
            returns=tuple(curves[run["run_id"]]),
            updates=updates[run["run_id"]],
        )
        for run in results.runs.to_dict("records")
        if run["status"] == "ok"
    ]


def summarise_training(runs: Sequence[TrainingRun], setup: str) -> TrainingSummary | None:
    """Returns the findings per curriculum; None where no two seeds are complete."""
    by = {(run.curriculum, run.seed): run for run in runs}
    names = [name for name in CURRICULA if any(run.curriculum == name for run in runs)]
    seeds = [s for s in sorted({run.seed for run in runs}) if all((n, s) in by for n in names)]
    if len(seeds) < 2:
        return None
    table = {name: [by[name, seed] for seed in seeds] for name in names}
    taken = {name: np.array([run.seconds for run in mine]) for name, mine in table.items()}
    # Scores are compared at the time that the quickest curriculum takes for all its steps; a run
    # that was done before keeps its last score.
    common = min(geometric_mean(mine).estimate for mine in taken.values())
    return TrainingSummary(
        setup=setup,
        env_steps=runs[0].env_steps,
        seeds=len(seeds),
        common_seconds=common,
        methods={
            name: _summarise(mine, common, _against(name, taken)) for name, mine in table.items()
        },
    )


def _against(name: str, taken: dict[str, Floats]) -> Ratio | None:
    """Returns the ratio of training seconds to the reference's, paired by seed."""
    if name == REFERENCE or REFERENCE not in taken or len(taken[name]) < MINIMUM_BLOCKS:
        return None
    found = geometric_mean(taken[name] / taken[REFERENCE])
    outcome = Speed.SLOWER if found.low > 1 else Speed.FASTER if found.high < 1 else None
    return Ratio(
        **dict(found), blocks=len(taken[name]), floor=1.0, outcome=outcome or Speed.INCONCLUSIVE
    )


def _summarise(
    runs: Sequence[TrainingRun], common: float, against: Ratio | None
) -> TrainingFinding:
    spent = np.array([run.spent for run in runs])
    total = np.array([run.seconds for run in runs])
    count = np.array([max(len(run.updates), 1) for run in runs])

    def mean_of(column: str) -> Floats:
        return np.array([run.updates[column].mean() for run in runs])

    return TrainingFinding(
        seconds=geometric_mean(total),
        share=geometric_mean(spent / total),
        per_update=geometric_mean(spent / count),
        per_1000_steps=geometric_mean(1000.0 * spent / np.array([run.env_steps for run in runs])),
        step=geometric_mean(mean_of("seconds")),
        recording=geometric_mean(mean_of("seconds_recording")),
        rejected=sum(int((~run.updates["accepted"].astype(bool)).sum()) for run in runs),
        final=mean(np.array([run.returns[-1] for run in runs])),
        at_common=mean(np.array([run.score_at(common) for run in runs])),
        training_ratio=against,
    )
