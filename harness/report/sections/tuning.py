"""What tuning tried, found and cost, and how its searches went."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import stats

from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import FloatArray, Line, Panel, PanelPlot
from pacebench.harness.report.palette import Style
from pacebench.harness.report.tables import CELL, MINUS, Column, Table, count, counts, fixed, number
from pacebench.harness.study.models import LEAST_REPLICATES
from pacebench.harness.tuning.record import SearchRecord, TuningRecord

SHORT = {"epsilon": "ε", "threshold": "V₋", "std_floor_ratio": "std floor"}


def tuning(data: ReportData) -> doc.Section | None:
    """Returns cost, choices and response of the searches; None where nothing was tuned."""
    record = data.tuning
    # The look of each tuned method, whatever its searches are called in the study.
    look: dict[str, Style] = {}
    for entry in data.study.curricula:
        if entry.tuned is not None:
            look.setdefault(entry.tuned.method, data.styles[entry.shown])
    searches = [search for search in record.searches if search.method in look] if record else []
    if record is None or not searches:
        return None
    blocks: list[doc.Block] = [
        doc.Text(_lead(data, record)),
        doc.Text(_optimism(searches)),
        doc.Fold("What was chosen", [_choices(searches)]),
        doc.Fold("What the searches cost", [_costs(searches)]),
    ]
    flagged = [
        f"{s.method} on {s.setup}: {_point({name: s.point[name] for name in s.boundary})}"
        for s in searches
        if s.boundary
    ]
    if flagged:
        warning = (
            "Some choices lie within 5 % of an end of their range: the range, not the method, "
            "may have decided."
        )
        blocks.append(doc.Warned(warning, flagged))
    for setup in dict.fromkeys(search.setup for search in searches):
        here = [search for search in searches if search.setup == setup]
        response = _response_figure(data, setup, here, look)
        blocks.append(doc.Figures([_history_figure(data, setup, here, look)]))
        if response is not None:
            blocks.append(doc.Fold(f"What was tried on {setup}", [doc.Figures([response])]))
    return doc.Section("tuning", "Tuning", blocks)


def _lead(data: ReportData, record: TuningRecord) -> str:
    first = record.searches[0]
    times = f"{record.replicates} independent searches" if record.replicates > 1 else "one search"
    unit = (
        "The search is the unit of every comparison of a tuned method: its score is the mean of "
        "its evaluation runs."
        if data.by_search
        else f"With fewer than {LEAST_REPLICATES} searches per method, every claim about a tuned "
        "method is conditional on these configurations."
    )
    own = sum(search.chosen is None for search in record.searches)
    of = len(record.searches)
    kept = f", in {own} of {of} searches the study's own configuration" if own else ""
    return (
        f"Each method had {times} per setup by Optuna's {record.sampler} (pruner: "
        f"{record.pruner}) with the same budget of {count(first.budget)} environment steps, "
        f"{record.seeds_per_trial} tuning runs per trial, judged by {record.estimand} on held-out "
        "contexts of their own. The best were run again on fresh tuning seeds, and the best of "
        f"those was chosen{kept}. Evaluation seeds were never seen. {unit}"
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
    rows = []
    for method, setup in dict.fromkeys((s.method, s.setup) for s in searches):
        mine = [s for s in searches if (s.method, s.setup) == (method, setup)]
        states = sum((Counter(s.states()) for s in mine), Counter[str]())
        rows.append(
            {
                "setup": setup,
                "method": method,
                "searches": len(mine),
                "trials": sum(len(s.trials) for s in mine),
                "complete": states["COMPLETE"],
                "pruned": states["PRUNED"],
                "failed": states["FAIL"],
                "floored": states["runs at the floor"],
                "search_steps": sum(s.env_steps for s in mine),
                "total_steps": sum(s.total_steps for s in mine),
                "cpu_hours": sum(s.total_seconds for s in mine) / 3600,
            }
        )
    return Table(
        "tuning-cost",
        "Cost",
        "Budgets are equal in environment steps of the search; re-ranking comes on top, the same "
        "for all. CPU-hours are the training time of both on one core each.",
        (
            *CELL,
            *counts("searches", "trials", "complete", "pruned", "failed"),
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
            "chosen": _point(s.point),
            "searched": s.candidates[0].searched,
            "best_again": s.candidates[0].mean,
            "optimism": s.optimism,
            "tuned": s.chosen_candidate.mean,
            "own": s.own_candidate.mean,
            "gain": s.gain,
            "gain_error": _paired_error(s),
            "importance": _importance(s.importance),
            "boundary": ", ".join(SHORT.get(name, name) for name in s.boundary),
        }
        for s in searches
    ]
    fresh = len(searches[0].own_candidate.scores)
    show = fixed(3)
    return Table(
        "tuning-choice",
        "Choices",
        f"Normalised scores of the best trial in its search and on {fresh} fresh tuning seeds (the "
        "optimism gap), and there of the re-ranked choice and of the study's own configuration. "
        "Importance is for reaching the best trials, by PED-ANOVA.",
        (
            *CELL,
            *counts("search"),
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
        notes="The gain has the standard error of paired differences, and is itself the best of a "
        "few.",
    )


def _paired_error(search: SearchRecord) -> float | None:
    pairs = zip(search.chosen_candidate.scores, search.own_candidate.scores, strict=True)
    differences = [a - b for a, b in pairs]
    return float(stats.sem(differences)) if len(differences) > 1 else None


def _importance(shares: Mapping[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{SHORT.get(name, name)} {share:.0%}" for name, share in ordered)


def _point(point: Mapping[str, object]) -> str:
    shown = ", ".join(f"{SHORT.get(name, name)} = {_value(v)}" for name, v in point.items())
    return shown or "the study's own"


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _history_figure(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> Figure:
    """Draws every trial in its order, and the best so far, a panel per method."""
    panels = []
    for method, mine in _by_method(searches).items():
        lines = []
        for search in mine:
            known = [(t.number + 1, t.value) for t in search.trials if t.value is not None]
            x, y = _columns(known)
            best = np.array(list(accumulate(y.tolist(), max)))
            lines += [Line(x, y, "dots"), Line(x, best, steps=True)]
        style = look[method]
        panels.append(Panel(style.short, [style], lines))
    most = max(len(search.trials) for search in searches)
    plot = PanelPlot(
        f"tuning-{setup}",
        f"Searches on {setup}",
        "Every trial (dots) and the best so far (lines). The best of many noisy scores is lucky as "
        "well as good; the optimism gap in the table says by how much.",
        Axis.over([1, most], "trial", count=3),
        _scores(searches),
        panels,
    )
    return data.figure(plot)


def _response_figure(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> Figure | None:
    """Draws the scores of all trials over each searched range, a panel per method and range."""
    y = _scores(searches)
    panels = []
    for method, mine in _by_method(searches).items():
        ranges = {n: part for n, part in mine[0].space.items() if isinstance(part, Mapping)}
        for name, part in ranges.items():
            panels.append(_response(mine, name, part, look[method], y))
    if not panels:
        return None
    plot = PanelPlot(
        f"response-{setup}",
        f"What was tried on {setup}",
        "The score of every trial over one searched value, whatever the others were; rings mark "
        "what was chosen, the dashed line the study's own value. Tuning scores choose; they are "
        "never results.",
        Axis.over([0, 1], "the value named above the panel"),
        y,
        panels,
    )
    return data.figure(plot)


def _response(
    searches: Sequence[SearchRecord], name: str, part: Mapping[str, Any], style: Style, y: Axis
) -> Panel:
    tried = [trial for search in searches for trial in search.trials if trial.value is not None]
    chosen = [
        (float(trial.point[name]), trial.value)
        for search in searches
        for trial in search.trials
        if trial.number == search.chosen and trial.value is not None
    ]
    ends = (float(part["low"]), float(part["high"]))
    log = bool(part.get("log"))
    x = Axis.over(ends, name, log=log, count=3, most=1e9)
    lines = [
        Line(*_columns((float(t.point[name]), t.value) for t in tried), "dots"),
        Line(*_columns(chosen), "rings"),
    ]
    own = searches[0].own.get(name)
    if isinstance(own, int | float) and ends[0] <= own <= ends[1]:
        lines.append(Line(np.array([own, own]), np.array([y.low, y.high]), "rule"))
    return Panel(style.short, [style], lines, note=SHORT.get(name, name), axes=(x, y))


def _scores(searches: Iterable[SearchRecord]) -> Axis:
    values = [t.value for s in searches for t in s.trials if t.value is not None]
    return Axis.over(values, "score (normalised)", count=3)


def _by_method(searches: Sequence[SearchRecord]) -> dict[str, list[SearchRecord]]:
    found: dict[str, list[SearchRecord]] = {}
    for search in searches:
        found.setdefault(search.method, []).append(search)
    return found


def _columns(pairs: Iterable[tuple[float, Any]]) -> tuple[FloatArray, FloatArray]:
    table = np.array([(float(a), float(b)) for a, b in pairs], dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
