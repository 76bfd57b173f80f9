"""What a frozen plan protects, what it does not, and what changed without harm.

The verdicts hold at every look, so the number of runs and when they were made is no reason for
doubt. What must come before the data is what is asked: comparisons, estimands, δ, weights, α and
the cells. A t-test allows neither for looks nor for runs added after one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.comparisons import RULE, ComparisonResult
from pacebench.harness.analysis.freeze import PlanHistory, Version
from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.scores import MISSING, planned
from pacebench.harness.store.manifest import Change
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import digest


@dataclass(frozen=True)
class Standing:
    """How far the plan protects the claims; one sentence each.

    Attributes:
        doubts: Ways in which the data could have shaped the questions: nothing is a claim.
        model_doubts: What a t-test does not allow for: verdicts that rest on one are no claims.
        notes: Changes that the rule allows.
    """

    doubts: tuple[str, ...] = ()
    model_doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def standing(
    frozen: PlanHistory | None,
    study: Study,
    runs: pd.DataFrame,
    history: History,
    changes: Sequence[Change] = (),
) -> Standing:
    """Returns what the frozen plan and the diary say of the claims.

    Args:
        frozen: The frozen plan, if there is one.
        study: The study as it is now.
        runs: `ResultFrames.runs`.
        history: What the diary says.
        changes: `Manifest.history`: every version of the study file that was run.
    """
    looked = _looks(study, history, runs)
    if frozen is None:
        return Standing(("The plan was not frozen before the runs started.",), looked)
    outcomes = _outcomes(planned(runs), history)
    total = len(planned(runs))
    late = _older(frozen, frozen.asking, outcomes, history, total)
    before = not frozen.asking.elsewhere and _asked_before(study, changes, outcomes)
    doubts, model = ([], late) if before else (late, [])
    if frozen.versions[-1] is not frozen.asking:
        model = model or _older(frozen, frozen.versions[-1], outcomes, history, total)
    free, bound = freeze.undeclared(frozen, study, planned(runs))
    if bound:
        rest = len(bound) - 1
        more = f" ({rest} further changes are listed with the plan)" if rest else ""
        doubts.append(f"The study differs from its frozen plan: {bound[0].sentence()}{more}")
    notes = [f"{change.sentence()} The rule allows it: looks are free." for change in free]
    if free:
        model.append("Seeds were added to the frozen number, which a t-test does not allow for.")
    return Standing(tuple(doubts), (*model, *looked), tuple(notes))


def code_changes(
    frozen: PlanHistory, history: History, comparisons: Sequence[ComparisonResult]
) -> list[str]:
    """Returns what to say where the code of the analysis is not that of the frozen plan.

    Each report notes its verdicts in the diary with the hash of the code that made them, so the
    last one under the frozen code is what stands against today's.

    Args:
        frozen: The frozen plan.
        history: What the diary says.
        comparisons: Today's weighted comparisons.
    """
    version = frozen.versions[-1]
    if frozen.early or version.analysis == freeze.analysis_code():
        return []
    same = "; the rule has not" if version.frozen.plan["rule"] == RULE else ""
    said = f"The code of the analysis has changed since the plan was frozen{same}."
    before = history.verdicts.get(version.analysis)
    if before is None:
        where = f" Revision {version.revision} would make one." if version.revision else ""
        return [f"{said} No report was made under the frozen code to hold against this.{where}"]
    found = [said]
    for item in comparisons:
        record = item.to_dict()
        old = next((v for v in before if all(v[k] == record[k] for k in _QUESTION)), None)
        then = f"{old['verdict']} after {old['n']} seeds" if old else "not asked"
        found.append(
            f"{record['a']} − {record['b']} on {record['task']}, {record['estimand']}: {then} "
            f"under the frozen code, {record['verdict']} after {record['n']} now."
        )
    return found


# What identifies a question in the diary, and what is noted of its answer.
_QUESTION = ("task", "a", "b", "estimand")


def noted(comparisons: Sequence[ComparisonResult]) -> list[dict[str, object]]:
    """Returns the verdicts as a report notes them in the diary."""
    records = [item.to_dict() for item in comparisons if item.question.weighted]
    return [{key: record[key] for key in (*_QUESTION, "n", "verdict")} for record in records]


def _outcomes(asked: pd.DataFrame, history: History) -> list[tuple[str, datetime]]:
    """Returns every time at which the outcome of a planned run came to be known.

    A run taken over from another study brings the time at which it finished there; one that was
    made, deleted and made again has left its first end in the diary.
    """
    if "finished" not in asked:
        return []
    ended = dict(zip(asked["run_id"].astype(str), asked["finished"], strict=True))
    times = [(run, time) for run, time in ended.items() if isinstance(time, str)]
    times += [(run, time) for run, time in history.ended.items() if run in ended]
    return [(run, datetime.fromisoformat(time)) for run, time in times]


def _older(
    frozen: PlanHistory,
    version: Version,
    outcomes: list[tuple[str, datetime]],
    history: History,
    total: int,
) -> list[str]:
    """Returns what to say of runs whose outcome existed before a version of the plan."""
    late = frozen.late(version)
    if late:
        return [f"{late[:1].upper()}{late[1:]}."]
    known = {run for run, time in outcomes if time < datetime.fromisoformat(version.time)}
    if not known:
        return []
    sources = Counter(history.sources[run] for run in known if run in history.sources)
    taken = "; ".join(f"{n} taken over from {name}" for name, n in sorted(sources.items()))
    return [
        f"{len(known)} of the {total} planned runs had finished before the plan was "
        f"{'frozen' if version is frozen.versions[0] else 'last amended'}"
        f"{f' ({taken})' if taken else ''}: their outcome could be known when it was made."
    ]


def _asked_before(
    study: Study, changes: Sequence[Change], outcomes: list[tuple[str, datetime]]
) -> bool:
    """Returns whether the study was run as it is now before any outcome was known, and ever since.

    Then a plan that was frozen late wrote down questions that stood before the data.
    """
    if {change.plan_digest for change in changes} != {digest(study.model_dump(mode="json"))}:
        return False
    began = datetime.fromisoformat(changes[0].time)
    return all(time >= began for _, time in outcomes)


def _looks(study: Study, history: History, runs: pd.DataFrame) -> tuple[str, ...]:
    """Returns how the number of runs may have followed from what was seen."""
    if study.seeds.adaptive:
        return ("Seeds were added until the questions were decided; a t-test does not allow that.",)
    there = planned(runs)
    there = there[there["status"] != MISSING]
    most = there.groupby(["label", "setup"], observed=True).size().max() if len(there) else 0
    early = [n for n in history.looks if n < most]
    if not early:
        return ()
    return (f"The data were looked at before, at n = {', '.join(map(str, early))}.",)
