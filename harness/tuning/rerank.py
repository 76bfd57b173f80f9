"""The choice: the best of many scores is biased upwards, so the best trials run on fresh seeds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.space import at_boundary, place_of
from pacebench.harness.study.specs import PlannedRun
from pacebench.harness.tuning.record import Candidate, SearchRecord, TrialRecord
from pacebench.harness.tuning.search import Search
from pacebench.harness.tuning.trials import mean_score, noted, run_planned, runs_of, scores_of

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial

# With fewer complete trials, shares of the scores' variation would be noise.
_LEAST_FOR_IMPORTANCE = 10


def conclude(search: Search, study: OptunaStudy, options: RunOptions) -> SearchRecord:
    """Runs the best configurations and the study's own on fresh seeds, and chooses.

    Raises:
        UserError: No trial came to an end, or the infrastructure failed the re-ranking.
        StoppedError: The user asked to stop.
    """
    tried = study.get_trials(deepcopy=False)
    trials = [_recorded(trial) for trial in tried]
    complete = [trial for trial in trials if trial.state == "COMPLETE"]
    if not complete:
        raise UserError(f"'{search.name}': no trial came to an end; see the logs of its runs.")
    # The sort is stable: of equal trials the earlier one wins.
    best = sorted(complete, key=lambda trial: -(trial.value or 0.0))[: search.tuning.rerank]
    # What another process found, who may have made its runs in another folder.
    known = study.user_attrs.get("candidates", {})
    if known.get("trials") == len(tried):
        candidates = [Candidate.model_validate(found) for found in known["found"]]
    else:
        candidates = _run_again(search, tried, best, options)
        found = [candidate.model_dump(mode="json") for candidate in candidates]
        study.set_user_attr("candidates", {"trials": len(tried), "found": found})
    # The study's own configuration is among them: tuning may find nothing better.
    number = max(candidates, key=lambda candidate: candidate.mean).trial
    point = next((trial.point for trial in best if trial.number == number), {})
    return SearchRecord(
        method=search.entry.shown,
        curriculum=search.entry.name,
        setup=search.setup,
        replicate=search.replicate,
        space=dict(search.space),
        budget=search.budget,
        trials=tuple(trials),
        importance=_importance(study, len(complete)),
        candidates=tuple(candidates),
        chosen=number,
        point=point,
        own=place_of(search.cell(None), search.space),
        boundary=tuple(at_boundary(search.space, point)),
    )


def _run_again(
    search: Search, tried: list[FrozenTrial], best: list[TrialRecord], options: RunOptions
) -> list[Candidate]:
    """Runs configurations and the study's own on fresh seeds."""
    seeds = search.rerank_seeds
    again = [search.planned(f"again {trial.number}", trial.point, seeds) for trial in best]
    again.append(search.planned("the study's own", None, seeds))
    run_planned(search, [*runs_of(search, tried), *itertools.chain(*again)], options)
    return [
        _candidate(search, trial, runs) for trial, runs in zip([*best, None], again, strict=True)
    ]


def _recorded(trial: FrozenTrial) -> TrialRecord:
    scores = noted(trial)
    return TrialRecord(
        number=trial.number,
        state=trial.state.name,
        point=trial.params,
        value=mean_score(scores),
        scores=tuple(score.score for score in scores),
        statuses=tuple(score.status for score in scores),
        env_steps=sum(score.env_steps for score in scores),
        seconds=sum(score.seconds for score in scores),
    )


def _candidate(search: Search, trial: TrialRecord | None, runs: list[PlannedRun]) -> Candidate:
    """Returns what a configuration, None for the study's own, did on fresh seeds."""
    again = scores_of(search, runs)
    known = tuple(score.score for score in again if score.score is not None)
    if len(known) < len(again):
        raise UserError(
            f"'{search.name}': the infrastructure failed some of its re-ranking runs; see "
            f"their logs in {search.folder / 'runs'} and tune again with --retry-failed."
        )
    return Candidate(
        trial=trial.number if trial else None,
        searched=trial.value if trial else None,
        scores=known,
        env_steps=sum(score.env_steps for score in again),
        seconds=sum(score.seconds for score in again),
    )


def _importance(study: OptunaStudy, complete: int) -> dict[str, float]:
    """Returns how much each parameter matters for being among the best trials, by PED-ANOVA.

    The shares say what tells the best tenth of the trials from the others; they do not say how
    much of the scores' variance a parameter explains.
    """
    if complete < _LEAST_FOR_IMPORTANCE:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    except (RuntimeError, ValueError):  # all scores equal: nothing to explain
        return {}
    return {name: float(share) for name, share in found.items()}
