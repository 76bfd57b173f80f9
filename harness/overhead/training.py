"""Instrumented training runs: the curriculum's share of the time, score per step and per second.

Every seed has a fresh process, pinned to one thread, in which the curricula train one after the
other in random order; no two runs share a moment, because times of parallel jobs would say how they
got in each other's way. So a seed is a block, and comparisons between curricula are paired by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, PlainSerializer

from pacebench.harness.analysis.scores import target_episodes
from pacebench.harness.overhead.findings import (
    Ratio,
    StoredRecord,
    TrainingFinding,
    TrainingSummary,
)
from pacebench.harness.overhead.machine import Activity, Watch
from pacebench.harness.overhead.process import results_of
from pacebench.harness.overhead.ratios import geometric_mean, mean, ratio
from pacebench.harness.overhead.replay import Hear
from pacebench.harness.overhead.settings import (
    MINIMUM_BLOCKS,
    REFERENCE,
    Settings,
    order_generator,
    source_digest,
)
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.store.files import write_atomic
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell, digest

SETUP = "point-mass-2"
CURRICULA = ("default", "spgl", "spgl-shared", "spdl-sqp", "spdl")
EVALUATIONS = 10

Rounded = Annotated[float, PlainSerializer(lambda x: float(f"{x:.6g}"))]


class TrainingRun(StoredRecord):
    """One instrumented run, as its file holds it.

    Attributes:
        timings: Seconds by phase.
        steps: Environment steps of the evaluations.
        returns: Mean return on the target contexts at them.
        success: Share of successes at them.
        update_steps: Environment steps at the curriculum's updates.
        update_seconds: What each update took.
        rejected: Updates that the method itself rejected.
        kl_step: KL of each update.
    """

    curriculum: str
    seed: int
    setup: str
    status: str
    env_steps: int
    timings: dict[str, Rounded]
    steps: tuple[int, ...]
    returns: tuple[float, ...] = Field(alias="return")
    success: tuple[float, ...]
    update_steps: tuple[int, ...]
    update_seconds: tuple[Rounded, ...] = ()
    rejected: int = 0
    kl_step: tuple[Rounded, ...] = ()
    machine: Activity

    @property
    def seconds(self) -> float:
        """Training seconds; evaluation is left out, because it is no part of training."""
        return sum(self.timings[phase] for phase in ("rollout", "policy", "curriculum"))

    def seconds_at(self, step: float) -> float:
        """Returns the training seconds gone when the run had made `step` environment steps.

        Rollouts and policy updates cost the same at every step; the curriculum's updates are known
        one by one.
        """
        base = self.timings["rollout"] + self.timings["policy"]
        taken = np.array(self.update_seconds)
        known = float(taken.sum())
        # What the phase took beyond the updates themselves is shared among them.
        scale = self.timings["curriculum"] / known if known > 0 else 0.0
        made = float(taken[np.array(self.update_steps) <= step].sum())
        return base * step / self.env_steps + scale * made

    def score_at(self, elapsed: float) -> float:
        """Returns the score that the run had after so many training seconds, interpolated."""
        clock = [self.seconds_at(step) for step in self.steps]
        return float(np.interp(elapsed, clock, self.returns))


def overhead_study(
    names: Sequence[str], setup: str = SETUP, steps: int = 1, root: int = 0
) -> Study:
    """Returns a study of some curricula, with every default that a study has."""
    return Study.model_validate(
        {
            "name": "overhead",
            "question": "What does the curriculum cost?",
            "curricula": list(names),
            "setups": [setup],
            "learner": "ppo",
            "seeds": {"count": 1, "root": root},
            "budget": steps,
            "evaluation": {"points": EVALUATIONS, "contexts": 100},
        }
    )


def training_cell(curriculum: str, setup: str, steps: int, root: int) -> Cell:
    """Returns the cell of one training run."""
    study = overhead_study([curriculum], setup, steps, root)
    return resolve_cell(study, study.curricula[0], setup)


def measure_training(folder: Path, settings: Settings, hear: Hear) -> list[TrainingRun]:
    """Runs what is missing, one after the other; returns all runs."""
    names = [name for name in CURRICULA if name in settings.curricula]
    plan = {
        (seed, names[i]): _path(folder, settings, seed, names[i])
        for seed in range(settings.training_seeds)
        for i in order_generator(settings, 1_000 + seed).permutation(len(names))
    }
    done = sum(path.exists() for path in plan.values())
    hear("train", done, len(plan), "")
    for seed in range(settings.training_seeds):
        missing = [n for (s, n), path in plan.items() if s == seed and not path.exists()]
        if not missing:
            continue
        for run in results_of(train_all, missing, seed, settings, cpu=seed):
            text = run.model_dump_json(by_alias=True)
            write_atomic(plan[seed, run.curriculum], text.encode(), durable=False)
            done += 1
            hear("train", done, len(plan), f"{run.curriculum}, seed {seed}")
    return [TrainingRun.model_validate_json(path.read_bytes()) for path in plan.values()]


def _path(folder: Path, settings: Settings, seed: int, name: str) -> Path:
    """Returns where a run is kept; other settings or another source give another name."""
    key = digest([settings.seed, settings.training_steps, SETUP, source_digest()])
    return folder / f"{name}-{seed:02d}-{key[:8]}.json"


def train_all(names: Sequence[str], seed: int, settings: Settings) -> Iterator[TrainingRun]:
    """Trains with some curricula in this process, one after the other."""
    # What the first run would pay alone: imports, first calls into the tensor library.
    _train("default", 10_000, settings.model_copy(update={"training_steps": 1}))
    for name in names:
        yield _train(name, seed, settings)


def _train(curriculum: str, index: int, settings: Settings) -> TrainingRun:
    """Trains once; returns timings, the curve and the curriculum's updates."""
    from pacebench.harness.training import train

    cell = training_cell(curriculum, SETUP, settings.training_steps, settings.seed)
    seed = RunSeed(root=settings.seed, role=StudyRole.EVALUATE, index=index)
    watch = Watch()
    [result] = train(cell, [seed])
    judged = target_episodes(pd.DataFrame(result.evaluations))
    curve = judged.groupby("step")[["return", "success"]].mean()
    updates = result.updates
    return TrainingRun.model_validate(
        {
            "curriculum": curriculum,
            "seed": index,
            "setup": SETUP,
            "status": str(result.status),
            "env_steps": result.env_steps,
            "timings": result.timings,
            "steps": curve.index.tolist(),
            **curve.to_dict("list"),
            "update_steps": updates["env_steps"],
            "update_seconds": updates.get("seconds", ()),
            "rejected": sum(not accepted for accepted in updates.get("accepted", ())),
            "kl_step": updates.get("kl_step", ()),
            "machine": watch.report(),
        }
    )


def summarise_training(runs: Sequence[TrainingRun]) -> TrainingSummary | None:
    """Returns the findings per curriculum; None where no two seeds are complete."""
    there = {run.curriculum for run in runs}
    names = [name for name in CURRICULA if name in there]
    by = {(run.curriculum, run.seed): run for run in runs}
    seeds = [s for s in sorted({run.seed for run in runs}) if all((n, s) in by for n in names)]
    if len(seeds) < 2:
        return None
    table = {name: [by[name, seed] for seed in seeds] for name in names}
    taken = {name: np.array([run.seconds for run in mine]) for name, mine in table.items()}
    # Scores are compared at the time that the quickest curriculum takes for all its steps; a run
    # that was done before keeps its last score.
    common = min(geometric_mean(mine).estimate for mine in taken.values())
    reference = taken.get(REFERENCE) if len(seeds) >= MINIMUM_BLOCKS else None
    loads = [run.machine.load[0] for run in runs if run.machine.load]
    return TrainingSummary(
        setup=runs[0].setup,
        env_steps=runs[0].env_steps,
        seeds=len(seeds),
        common_seconds=common,
        methods={
            name: _summarise(
                mine,
                common,
                None if reference is None or name == REFERENCE else ratio(taken[name], reference),
            )
            for name, mine in table.items()
        },
        load=float(np.mean(loads)) if loads else float("nan"),
    )


def _summarise(
    runs: Sequence[TrainingRun], common: float, against: Ratio | None
) -> TrainingFinding:
    spent = np.array([run.timings["curriculum"] for run in runs])
    total = np.array([run.seconds for run in runs])
    updates = np.array([max(len(run.update_steps), 1) for run in runs])
    grid = runs[0].steps
    curve = np.array([run.returns for run in runs])
    clock = np.mean([[run.seconds_at(step) for step in grid] for run in runs], axis=0)
    return TrainingFinding(
        seconds=geometric_mean(total),
        share=geometric_mean(spent / total),
        per_update=geometric_mean(spent / updates),
        per_1000_steps=geometric_mean(1000.0 * spent / np.array([run.env_steps for run in runs])),
        updates=float(updates.mean()),
        rejected=sum(run.rejected for run in runs),
        final=mean(curve[:, -1]),
        per_step_auc=mean(curve.mean(axis=1)),
        at_common=mean(np.array([run.score_at(common) for run in runs])),
        success=mean(np.array([run.success[-1] for run in runs])),
        status=tuple(sorted({run.status for run in runs})),
        grid=grid,
        curve=tuple(mean(column) for column in curve.T),
        clock=tuple(clock.tolist()),
        training_ratio=against,
    )
