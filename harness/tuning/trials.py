"""A trial: one configuration, run with the tuning seeds by the runner and scored from the store."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacebench import envs
from pacebench.harness.analysis.scores import Scale, scale_of
from pacebench.harness.errors import UserError
from pacebench.harness.records import Status
from pacebench.harness.runner.launch import RunOptions, evaluation_hashes, make_runs
from pacebench.harness.statistics import estimands
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.space import distributions, tuning_study
from pacebench.harness.study.specs import PlannedRun
from pacebench.harness.tuning.search import Search, unfinished
from pacebench.harness.tuning.storage import make_sampler

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial

FLOORED = (Status.DIVERGED, Status.TIMEOUT, Status.CRASHED)


class StoppedError(Exception):
    """The user asked to stop; the trial under way goes on another time."""


@dataclass(frozen=True)
class SeedScore:
    """What one training run says about a configuration.

    Attributes:
        index: The seed's index among the tuning seeds.
        status: How the run ended.
        score: The study's estimand on the normalised scale; the floor where the method failed;
            None where the infrastructure did.
        env_steps: Environment steps of the tuning budget that it stands for.
        seconds: Time it took.
    """

    index: int
    status: str
    score: float | None
    env_steps: int
    seconds: float


def run_configuration(
    search: Search, configurations: list[list[PlannedRun]], options: RunOptions
) -> list[SeedScore]:
    """Runs configurations of a search and returns the scores of the last one.

    Args:
        search: The search they belong to.
        configurations: The runs of every configuration so far, so that the manifest keeps them
            all; what is there already is not run again.
        options: Where and how to run them.

    Raises:
        StoppedError: The user asked to stop before they were done.
    """
    plan = {"search": search.name, "study": search.study.model_dump(mode="json")}
    runs = [run for configuration in configurations for run in configuration]
    summary = make_runs(search.name, plan, runs, search.folder, options, evaluation_hashes(runs))
    if summary.interrupted and not summary.complete:
        raise StoppedError
    return scores_of(search, configurations[-1])


def scores_of(search: Search, runs: list[PlannedRun]) -> list[SeedScore]:
    """Reads the scores of one configuration from the store."""
    store = RunStore(search.folder)
    scale = scale_of(envs.setup(search.setup), search.study.statistics.floor)
    return [_score(store, run, search, scale) for run in runs]


def _score(store: RunStore, run: PlannedRun, search: Search, scale: Scale) -> SeedScore:
    stored = store.read(run.run_id, tables=True)
    if stored is None:
        raise UserError(
            f"run {run.run_id} of '{search.name}' is gone; tune again to make it again."
        )
    score: float | None = None
    if stored.status is Status.OK:
        episodes = stored.tables["evaluations.parquet"].to_pandas()
        score = estimate(episodes, search.study.statistics.primary[0], scale)
    elif stored.status in FLOORED:
        score = scale.floor
    timings = stored.record.get("timings", {})
    return SeedScore(
        index=run.seed.index,
        status=stored.status.value,
        score=score,
        # A run that failed early still used up its share: no method may buy trials by crashing.
        env_steps=run.cell.budget,
        seconds=float(sum(timings.values())),
    )


def estimate(episodes: Any, estimand: str, scale: Scale) -> float:
    """Returns one run's score on the normalised scale, the study's estimand of target episodes."""
    held_out = episodes[
        (episodes["distribution"] == "target") & (episodes["policy"] == "deterministic")
    ]
    last = held_out[held_out["step"] == held_out["step"].max()]
    if estimand == "success":
        return float(last["success"].mean())
    if estimand == "cvar":
        returns = last["return"].to_numpy(dtype=np.float64)
        return float(scale.normalise(estimands.cvar(returns)))
    if estimand == "auc":
        curve = held_out.groupby("step")["return"].mean()
        if len(curve) > 1:
            scores = scale.normalise(curve.to_numpy(dtype=np.float64))
            return estimands.auc(curve.index.to_numpy(), scores)
    # Return, normalised score and IQM agree on what a single run scores.
    return float(scale.normalise(float(last["return"].mean())))


def advance(search: Search, study: OptunaStudy, options: RunOptions) -> bool:
    """Makes the next trial of a search, or ends the one that was left.

    Returns:
        Whether there was one to make: False once the budget is used up.

    Raises:
        StoppedError: The user asked to stop.
    """
    from optuna.trial import TrialState

    tuning = search.study.tuning
    assert tuning is not None
    trials = study.get_trials(deepcopy=False)
    left = unfinished(trials)
    if left is None:
        used = sum(int(trial.user_attrs.get("env_steps", 0)) for trial in trials)
        if used + tuning.seeds_per_trial * tuning_study(search.study).budget > search.budget:
            return False
        study.sampler = make_sampler(tuning.sampler, search.sampler_seed(len(trials)))
        number = study.ask(distributions(search.space)).number
    else:
        number = left.number
    # Asked for again: a trial that was left is no longer known to this process.
    trials = study.get_trials(deepcopy=False)
    trial = trials[number]
    before = [
        search.planned(f"trial {t.number}", t.params, search.seeds[: _seeds_run(t)])
        for t in trials
        if t.number < number
    ]
    stages = [1] * len(search.seeds) if tuning.pruner != "none" else [len(search.seeds)]
    scores: list[SeedScore] = []
    done = 0
    for stage in stages:
        done += stage
        now = search.planned(f"trial {number}", trial.params, search.seeds[:done])
        scores = run_configuration(search, [*before, now], options)
        _note(study, trial, scores)
        if tuning.pruner != "none" and done < len(search.seeds) and _prune(study, number):
            study.tell(number, _mean(scores), state=TrialState.PRUNED)
            return True
    value = _mean(scores)
    if value is None:
        study.tell(number, state=TrialState.FAIL)
    else:
        study.tell(number, value)
    return True


def _seeds_run(trial: FrozenTrial) -> int:
    return len(trial.user_attrs.get("scores", []))


def _note(study: OptunaStudy, trial: FrozenTrial, scores: list[SeedScore]) -> None:
    """Keeps what the pruner, the record and the report need beside the trial.

    By way of the storage: a trial that another process asked for cannot be had as a live object
    without asking the sampler again.
    """
    storage, key = study._storage, trial._trial_id
    storage.set_trial_user_attr(key, "scores", [asdict(score) for score in scores])
    storage.set_trial_user_attr(key, "env_steps", sum(score.env_steps for score in scores))
    for i, score in enumerate(scores):
        if score.score is not None and i not in trial.intermediate_values:
            storage.set_trial_intermediate_value(key, i, score.score)


def _prune(study: OptunaStudy, number: int) -> bool:
    """Says whether the seeds so far show the trial to be worse than the best one."""
    return study.pruner.prune(study, study.get_trials(deepcopy=False)[number])


def _mean(scores: list[SeedScore]) -> float | None:
    """Returns the trial's value; None where the infrastructure left a seed without a score."""
    found = [score.score for score in scores]
    known = [score for score in found if score is not None]
    return statistics.fmean(known) if known and len(known) == len(found) else None
