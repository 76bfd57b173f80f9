"""What tuning tried, found and cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from pacebench.harness.analysis.units import LEAST_REPLICATES
from pacebench.harness.report.data import ReportData, slug
from pacebench.harness.report.document import (
    Block,
    Figures,
    Heading,
    Section,
    TableBlock,
    Text,
    Warned,
)
from pacebench.harness.report.figures.tuning import history_figure, score_limits, surface_figure
from pacebench.harness.report.palette import Style
from pacebench.harness.report.tables import MINUS, Column, Table, count, fixed, number
from pacebench.harness.tuning.record import SearchRecord, TuningRecord

_SHORT = {"epsilon": "ε", "threshold": "V₋", "std_floor_ratio": "std floor"}


def tuning(view: ReportData) -> Section | None:
    """Returns cost, choices and response of the searches; None where nothing was tuned."""
    record = view.tuning
    if record is None:
        return None
    look = _styles(view)
    searches = [search for search in record.searches if search.method in look]
    if not searches:
        return None
    blocks: list[Block] = [
        Text(_lead(view, record)),
        TableBlock(_costs(searches)),
        Text(_optimism(searches)),
        TableBlock(_choices(searches)),
    ]
    flagged = [search for search in searches if search.boundary]
    if flagged:
        blocks.append(
            Warned(
                "Some choices lie within 5 % of an end of their range: the range, not the method, "
                "may have decided.",
                [
                    f"{s.method} on {s.setup}: "
                    + ", ".join(f"{_short(n)} = {_value(s.point[n])}" for n in s.boundary)
                    for s in flagged
                ],
            )
        )
    for setup in dict.fromkeys(search.setup for search in searches):
        here = [search for search in searches if search.setup == setup]
        blocks += [Heading(setup), Figures(_figures(view, setup, here, look))]
    return Section("tuning", "Tuning", blocks)


def _styles(view: ReportData) -> dict[str, Style]:
    """Returns the look of each tuned method, whatever its searches are called in the study."""
    found: dict[str, Style] = {}
    for entry in view.study.curricula:
        if entry.tuned is not None:
            found.setdefault(entry.tuned.method, view.styles[entry.shown])
    return found


def _lead(view: ReportData, record: TuningRecord) -> str:
    first = record.searches[0]
    times = f"{record.replicates} independent searches" if record.replicates > 1 else "one search"
    unit = (
        "The search is the unit of every comparison of a tuned method: its score is the mean of "
        "its evaluation runs."
        if view.by_search
        else f"With fewer than {LEAST_REPLICATES} searches per method, every claim about a tuned "
        "method is conditional on these configurations."
    )
    return (
        f"Each method had {times} per setup by Optuna's {record.sampler} (pruner: "
        f"{record.pruner}) with the same budget of {count(first.budget)} environment steps, "
        f"{record.seeds_per_trial} tuning runs per trial, judged by {record.estimand} on held-out "
        "contexts of their own. The best were run again on fresh tuning seeds, and the best of "
        f"those was chosen. Evaluation seeds were never seen. {unit}"
    )


def _optimism(searches: list[SearchRecord]) -> str:
    gap = statistics.fmean(search.optimism for search in searches)
    gain = statistics.fmean(search.gain for search in searches)
    word, sign = "more" if gap >= 0 else "less", "+" if gain >= 0 else MINUS
    return (
        f"On average over {len(searches)} searches the best trial scored {abs(gap):.3f} {word} in "
        "its search than on fresh seeds. That optimism gap is why tuning scores are not results. "
        f"On fresh seeds the choices scored {sign}{abs(gain):.3f} against the study's own "
        "configurations; the verdicts above judge them on evaluation seeds."
    )


def _costs(searches: list[SearchRecord]) -> Table:
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys((s.method, s.setup) for s in searches):
        mine = [s for s in searches if (s.method, s.setup) == key]
        states = [s.states() for s in mine]

        def total(name: str, states: list[dict[str, int]] = states) -> int:
            return sum(state.get(name, 0) for state in states)

        rows.append(
            {
                "setup": key[1],
                "method": key[0],
                "searches": len(mine),
                "trials": sum(len(s.trials) for s in mine),
                "complete": total("COMPLETE"),
                "pruned": total("PRUNED"),
                "failed": total("FAIL"),
                "floored": total("runs at the floor"),
                "search_steps": sum(s.env_steps for s in mine),
                "total_steps": sum(s.total_steps for s in mine),
                "cpu_hours": sum(s.total_seconds for s in mine) / 3600,
            }
        )
    return Table(
        "tuning-cost",
        "Cost",
        "What each method's searches cost. Budgets are equal in environment steps of the search; "
        "re-ranking comes on top, the same for all. CPU-hours are the training time of both on one "
        "core each.",
        (
            Column("setup", "setup"),
            Column("method", "curriculum", kind="method"),
            Column("searches", "searches", number=True),
            Column("trials", "trials", number=True),
            Column("complete", "complete", number=True),
            Column("pruned", "pruned", number=True),
            Column("failed", "failed", number=True),
            Column("floored", "runs at the floor", number=True),
            Column("search_steps", "steps of the search", count, number=True),
            Column("total_steps", "with re-ranking", count, number=True),
            Column("cpu_hours", "CPU-hours", number(2), number=True),
        ),
        rows,
    )


def _choices(searches: list[SearchRecord]) -> Table:
    rows = [
        {
            "setup": s.setup,
            "method": s.method,
            "search": s.replicate + 1,
            "chosen": ", ".join(f"{_short(n)} = {_value(v)}" for n, v in s.point.items()),
            "searched": s.candidates[0].searched,
            "best_again": s.candidates[0].mean,
            "optimism": s.optimism,
            "tuned": s.chosen_candidate.mean,
            "own": s.own_candidate.mean,
            "gain": s.gain,
            "gain_error": _paired_error(s),
            "importance": _importance(s.importance),
            "boundary": ", ".join(map(_short, s.boundary)),
        }
        for s in searches
    ]
    fresh = len(searches[0].own_candidate.scores)
    show = fixed(3)
    return Table(
        "tuning-choice",
        "Choices",
        f"Normalised scores. “Best trial” is the best of the search, then the same configuration "
        f"on {fresh} fresh tuning seeds; their difference is the optimism gap. “Chosen” and "
        "“own” are the re-ranked choice and the study's own configuration on those seeds; the gain "
        "has the standard error of paired differences, and is itself the best of a few. "
        "Importance: PED-ANOVA's share of the scores' variation.",
        (
            Column("setup", "setup"),
            Column("method", "curriculum", kind="method"),
            Column("search", "search", number=True),
            Column("chosen", "chosen values"),
            Column("searched", "best trial, searched", show, number=True),
            Column("best_again", "best trial, fresh", show, number=True),
            Column("optimism", "optimism gap", show, number=True),
            Column("tuned", "chosen", show, number=True),
            Column("own", "own", show, number=True),
            Column("gain", "gain", show, number=True),
            Column("gain_error", "s.e.", show, number=True),
            Column("importance", "importance"),
            Column("boundary", "at a boundary"),
        ),
        rows,
    )


def _figures(
    view: ReportData, setup: str, here: list[SearchRecord], look: Mapping[str, Style]
) -> Any:
    weak, name = view.exploratory, slug(setup)
    found = [history_figure(f"tuning-{name}", here, view.styles, look, exploratory=weak)]
    limits = score_limits(here)
    for i, method in enumerate(dict.fromkeys(s.method for s in here)):
        mine = [s for s in here if s.method == method]
        figure = surface_figure(
            f"response-{name}-{i}", mine, look[method], view.styles, limits, exploratory=weak
        )
        if figure is not None:
            found.append(figure)
    return found


def _paired_error(search: SearchRecord) -> float | None:
    pairs = zip(search.chosen_candidate.scores, search.own_candidate.scores, strict=True)
    differences = [a - b for a, b in pairs]
    if len(differences) < 2:
        return None
    return statistics.stdev(differences) / math.sqrt(len(differences))


def _importance(shares: Mapping[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{_short(name)} {share:.0%}" for name, share in ordered)


def _short(parameter: str) -> str:
    return _SHORT.get(parameter, parameter)


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
