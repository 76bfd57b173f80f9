"""Why a frozen plan does not protect the claims: it changed, or came after the data."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pandas as pd

from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.freeze import PlanHistory
from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.scores import planned
from pacebench.harness.study.models import Study


def deviations(
    frozen: PlanHistory | None, study: Study, runs: pd.DataFrame, history: History
) -> list[str]:
    """Returns one sentence for every way in which the data could have shaped the plan.

    Args:
        frozen: The frozen plan, if there is one.
        study: The study as it is now.
        runs: `ResultFrames.runs`.
        history: What the diary says.
    """
    if frozen is None:
        return []
    said = [f"{frozen.broken[:1].upper()}{frozen.broken[1:]}."] if frozen.broken else []
    known = _known_before(frozen, runs, history)
    if len(known) > frozen.versions[-1].known:
        said.append(_too_late(frozen, known, len(planned(runs)), history))
    changed = freeze.undeclared(frozen, study, planned(runs))
    if changed:
        rest = len(changed) - 1
        more = f" ({rest} further changes are listed with the plan)" if rest else ""
        said.append(f"The study differs from its frozen plan: {changed[0].sentence()}{more}")
    return said


def _known_before(frozen: PlanHistory, runs: pd.DataFrame, history: History) -> set[str]:
    """Returns the planned runs whose outcome existed before the plan in force.

    A run taken over from another study brings the time at which it finished there; one that was
    made, deleted and made again has left its first end in the diary.
    """
    froze = datetime.fromisoformat(frozen.versions[-1].time)
    asked = planned(runs)
    if "finished" not in asked:
        return set()
    ended = dict(zip(asked["run_id"].astype(str), asked["finished"], strict=True))
    times = [(run, time) for run, time in ended.items() if isinstance(time, str)]
    times += [(run, time) for run, time in history.ended.items() if run in ended]
    return {run for run, time in times if datetime.fromisoformat(time) < froze}


def _too_late(frozen: PlanHistory, known: set[str], total: int, history: History) -> str:
    sources = Counter(history.sources[run] for run in known if run in history.sources)
    taken = "; ".join(f"{n} taken over from {name}" for name, n in sorted(sources.items()))
    return (
        f"{len(known)} of the {total} planned runs had finished before the plan was "
        f"{'frozen' if len(frozen.versions) == 1 else 'last amended'}"
        f"{f' ({taken})' if taken else ''}: their outcome could be known when it was made."
    )
