"""The choice: the best trials again on fresh seeds, because the best of many was also lucky."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.study.models import Range
from pacebench.harness.study.space import at_boundary, place_of
from pacebench.harness.tuning.record import Candidate, SearchRecord, TrialRecord
from pacebench.harness.tuning.search import Search
from pacebench.harness.tuning.trials import run_configuration, scores_of

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial


def conclude(search: Search, study: OptunaStudy, options: RunOptions) -> SearchRecord:
    """Runs the best configurations and the study's own on fresh seeds, and chooses.

    Raises:
        UserError: No trial came to an end, or the infrastructure failed the re-ranking.
        StoppedError: The user asked to stop.
    """
    trials = [_recorded(trial) for trial in study.get_trials(deepcopy=False)]
    tuning = search.study.tuning
    assert tuning is not None
    complete = [trial for trial in trials if trial.state == "COMPLETE" and trial.value is not None]
    # The earlier trial wins a tie, so that the choice does not depend on the order of a sort.
    complete.sort(key=lambda trial: (-(trial.value or 0.0), trial.number))
    if not complete:
        raise UserError(f"'{search.name}': no trial came to an end; see the logs of its runs.")
    best = complete[: tuning.rerank]
    seeds = search.rerank_seeds
    cells = [search.planned(f"again {trial.number}", trial.point, seeds) for trial in best]
    cells.append(search.planned("the study's own", None, seeds))
    earlier = [
        search.planned(f"trial {t.number}", t.point, search.seeds[: len(t.scores)]) for t in trials
    ]
    run_configuration(search, [*earlier, *cells], options)
    candidates = []
    for trial, cell in zip([*best, None], cells, strict=True):
        again = scores_of(search, cell)
        known = tuple(score.score for score in again if score.score is not None)
        if len(known) < len(again):
            raise UserError(
                f"'{search.name}': the infrastructure failed some of its re-ranking runs; see "
                f"their logs in {search.folder / 'runs'} and tune again with --retry-failed."
            )
        candidates.append(
            Candidate(
                trial=trial.number if trial else None,
                searched=trial.value if trial else None,
                scores=known,
                env_steps=sum(score.env_steps for score in again),
                seconds=sum(score.seconds for score in again),
            )
        )
    chosen = max(candidates[:-1], key=lambda candidate: candidate.mean)
    assert chosen.trial is not None
    point = next(trial.point for trial in trials if trial.number == chosen.trial)
    return SearchRecord(
        method=search.entry.shown,
        curriculum=search.entry.name,
        setup=search.setup,
        replicate=search.replicate,
        space={name: _plain(part) for name, part in search.space.items()},
        budget=search.budget,
        trials=tuple(trials),
        importance=_importance(study, len(complete)),
        candidates=tuple(candidates),
        chosen=chosen.trial,
        point=point,
        own=place_of(search.cell(None), search.space),
        boundary=tuple(at_boundary(search.space, point)),
    )


def _plain(part: Any) -> Any:
    return part.model_dump(mode="json") if isinstance(part, Range) else list(part)


def _recorded(trial: FrozenTrial) -> TrialRecord:
    scores = trial.user_attrs.get("scores", [])
    return TrialRecord(
        number=trial.number,
        state=trial.state.name,
        point=dict(trial.params),
        value=trial.value,
        scores=tuple(score["score"] for score in scores),
        statuses=tuple(score["status"] for score in scores),
        env_steps=int(trial.user_attrs.get("env_steps", 0)),
        seconds=float(sum(score["seconds"] for score in scores)),
    )


def _importance(study: OptunaStudy, complete: int) -> dict[str, float]:
    """Returns PED-ANOVA's shares; with fewer than ten trials they would be noise."""
    if complete < 10:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    except (RuntimeError, ValueError):  # all scores equal: nothing to explain
        return {}
    return {name: float(share) for name, share in found.items()}
