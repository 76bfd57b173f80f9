"""A trial: one configuration, run with the tuning seeds by the runner and scored from the store."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pandas as pd

from pacebench.harness.analysis.scores import FLOORED, Scale, scale_of, target_episodes
from pacebench.harness.errors import UserError
from pacebench.harness.records import Status
from pacebench.harness.runner.launch import RunOptions, evaluation_hashes, make_runs
from pacebench.harness.statistics import estimands
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.space import distributions
from pacebench.harness.study.specs import PlannedRun
from pacebench.harness.tuning.search import Search
from pacebench.harness.tuning.storage import make_sampler

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial


class StoppedError(Exception):
    """The user asked to stop; the same command goes on with what is unfinished."""


@dataclass(frozen=True)
class SeedScore:
    """What one training run says about a configuration.

    Attributes:
        index: The seed's index among the tuning seeds.
        score: The study's estimand on the normalised scale; the floor where the method failed;
            None where the infrastructure did.
        env_steps: Environment steps of the tuning budget that it stands for.
    """

    index: int
    status: str
    score: float | None
    env_steps: int
    seconds: float


def advance(
    search: Search, study: OptunaStudy, options: RunOptions, check: Callable[[], None]
) -> bool:
    """Makes the next trial of a search, or finishes the one that a stopped process left.

    `check` is asked before every change, and raises where the search is another process's by now.
    Returns False once the budget is used up.

    Raises:
        StoppedError: The user asked to stop.
    """
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    number = next((t.number for t in trials if t.state is TrialState.RUNNING), None)
    if number is None:
        used = sum(score.env_steps for trial in trials for score in noted(trial))
        if used + search.trial_steps > search.budget:
            return False
        check()
        number = _ask(search, study, trials)
        trials = study.get_trials(deepcopy=False)
    trial = trials[number]
    before = runs_of(search, trials[:number])
    seeds = search.seeds
    # A pruner is asked after every seed; without one all seeds are run at once.
    first = len(seeds) if search.tuning.pruner == "none" else 1
    for count in range(first, len(seeds) + 1):
        now = search.planned(f"trial {number}", trial.params, seeds[:count])
        run_planned(search, [*before, *now], options)
        scores = scores_of(search, now)
        check()
        _note(study, trial, scores)
        now_scored = study.get_trials(deepcopy=False)[number]
        if count < len(seeds) and study.pruner.prune(study, now_scored):
            study.tell(number, state=TrialState.PRUNED)
            return True
    value = mean_score(scores)
    state = TrialState.FAIL if value is None else TrialState.COMPLETE
    study.tell(number, value, state)
    return True


def _ask(search: Search, study: OptunaStudy, trials: Sequence[FrozenTrial]) -> int:
    """Proposes the next trial, and returns its number.

    It is asked for in a copy and comes into the storage with all its parameters at once: a process
    that dies while it asks leaves no trial that has only some of them.
    """
    import optuna

    copy = optuna.create_study(
        direction="maximize",
        sampler=make_sampler(search.tuning.sampler, search.sampler_seed(len(trials))),
    )
    copy.add_trials(trials)
    copy.ask(distributions(search.space))
    study.add_trial(copy.get_trials(deepcopy=False)[-1])
    return len(trials)


def runs_of(search: Search, trials: Sequence[FrozenTrial]) -> list[PlannedRun]:
    """Returns the runs of trials that are in this folder; others may have made theirs elsewhere."""
    store = RunStore(search.folder)
    return [
        run
        for t in trials
        for run in search.planned(f"trial {t.number}", t.params, search.seeds[: len(noted(t))])
        if store.has(run.run_id)
    ]


def run_planned(search: Search, runs: list[PlannedRun], options: RunOptions) -> None:
    """Makes runs that are not there yet; all of the search so far are given, for its manifest.

    Raises:
        StoppedError: The user asked to stop before they were done.
    """
    plan = {"search": search.name, "study": search.study.model_dump(mode="json")}
    summary = make_runs(search.name, plan, runs, search.folder, options, evaluation_hashes(runs))
    if summary.interrupted and not summary.complete:
        raise StoppedError


def scores_of(search: Search, runs: list[PlannedRun]) -> list[SeedScore]:
    """Reads the scores of one configuration from the store."""
    store = RunStore(search.folder)
    scale = scale_of(search.study.setup(search.setup), search.study.statistics.floor)
    scores = []
    for run in runs:
        stored = store.read(run.run_id, tables=True)
        if stored is None:
            raise UserError(
                f"run {run.run_id} of '{search.name}' is gone; tune again to make it again."
            )
        score: float | None = None
        if stored.status is Status.OK:
            episodes = stored.tables["evaluations.parquet"].table.to_pandas()
            score = estimate(episodes, search.study.statistics.primary[0], scale)
        elif stored.status in FLOORED:
            score = scale.floor
        # A run that failed early still used up its share: no method may buy trials by crashing.
        steps, seconds = run.cell.budget, float(sum(stored.record.get("timings", {}).values()))
        scores.append(SeedScore(run.seed.index, stored.status.value, score, steps, seconds))
    return scores


def estimate(episodes: pd.DataFrame, estimand: str, scale: Scale) -> float:
    """Returns one run's score on the normalised scale, the study's estimand of target episodes."""
    held_out = target_episodes(episodes)
    last = held_out[held_out["step"] == held_out["step"].max()]
    if estimand in ("success", "solved"):
        return float(last["success"].mean())
    if estimand == "cvar":
        return float(scale.normalise(estimands.cvar(last["return"])))
    curve = held_out.groupby("step")["return"].mean().astype(float)
    if estimand == "auc" and len(curve) > 1:
        return estimands.auc(curve.index, scale.normalise(curve))
    # Return, normalised score and IQM agree on what a single run scores.
    return float(scale.normalise(float(last["return"].mean())))


def noted(trial: FrozenTrial) -> list[SeedScore]:
    """Returns the scores that are kept beside a trial."""
    return [SeedScore(**score) for score in trial.user_attrs.get("scores", [])]


def mean_score(scores: Sequence[SeedScore]) -> float | None:
    """Returns the mean over seeds; None where the infrastructure left a seed without a score."""
    known = [score.score for score in scores if score.score is not None]
    return statistics.fmean(known) if known and len(known) == len(scores) else None


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
