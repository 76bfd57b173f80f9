"""Scores: every run as a dot, the papers' tables, and rliable's aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pacebench.harness.analysis import estimates
from pacebench.harness.analysis.estimates import Estimate
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Dot, Row, RowPlot
from pacebench.harness.report.sections.solved import solved
from pacebench.harness.report.tables import (
    Column,
    Table,
    fitted,
    fixed,
    interval_cells,
    number,
    p_value,
    percent,
    span,
)
from pacebench.harness.statistics import coverage, profiles

FUNCTIONALS = {
    "mean": "mean",
    "median": "median over setups",
    "iqm": "IQM",
    "optimality_gap": "optimality gap",
}
# What the papers print beside the number of runs.
_PAPER = ("mean", "standard_error", "p_against_best", "success")


def results(data: ReportData) -> doc.Section:
    """Returns the runs of every setup, with tables and what other papers print folded."""
    figures = [f for setup in data.study.setups if (f := _returns(data, setup)) is not None]
    papers: list[doc.Block] = [
        doc.Text(
            "Aggregates of normalised scores (0 = baseline policy, 1 = reference policy, fixed per "
            "setup), as rliable defines them; the optimality gap is the mean shortfall from 1. "
            "With one or two setups the median over setups is the mean."
        ),
        doc.TableBlock(_aggregates(data)),
    ]
    profile = _profile(data)
    papers += [doc.Figures([profile])] if profile is not None else []
    blocks: list[doc.Block] = [
        doc.Figures(figures),
        doc.Fold(
            "Tables in the papers' layout, with intervals",
            [doc.TableBlock(_table(data, setup)) for setup in data.study.setups],
        ),
        *(
            [doc.Fold("Solved runs, and what they return", solved(data))]
            if data.analysis.solved
            else ()
        ),
        doc.Fold("Aggregates and performance profiles, as rliable defines them", papers),
        doc.Fold("Probability of improvement", [doc.TableBlock(_improvement(data))]),
    ]
    return doc.Section("results", "Scores", blocks)


def seed_plot(
    data: ReportData,
    setup: str,
    estimand: str,
    *,
    name: str,
    title: str,
    caption: str,
    label: str,
    head: str = "",
    note: Callable[[list[Dot]], str] | None = None,
    dots: Callable[[str], list[Dot]] | None = None,
    references: tuple[float, ...] = (),
) -> Figure | None:
    """Draws every run of a setup as a dot, and the mean with its interval above.

    Args:
        data: What the report is made from.
        setup: The setup.
        estimand: What is estimated.
        name: Stem of the files.
        title: Short heading.
        caption: Two sentences at most.
        label: What the axis measures.
        head: What the notes at the ends of rows are.
        note: From a row's runs to its note.
        dots: From a method to its runs; by the estimand's own column if not given.
        references: Values with a line.
    """
    rows, found = [], []
    for method in data.study.labels:
        item = data.estimate(method, setup, estimand)
        if item is None:
            continue
        found.append(item.interval)
        runs = data.dots(setup, method, estimand) if dots is None else dots(method)
        ends = None if item.interval is None else (item.interval.low, item.interval.high)
        shown = "" if ends is None else f" [{ends[0]:.4g}, {ends[1]:.4g}]"
        style = data.styles[method]
        rows.append(
            Row(
                [style],
                style.short,
                ends,
                item.value,
                runs,
                note=note(runs) if note else "",
                tip=f"{method}: mean {item.value:.4g}{shown}, n = {item.runs}",
            )
        )
    if not rows:
        return None
    axis = Axis.over([*(v for row in rows for v in row.drawn), *references], label)
    notes = words.intervals(found) + data.unknown
    return data.figure(
        RowPlot(name, title, caption, axis, rows, references=references, head=head, notes=notes)
    )


def _returns(data: ReportData, setup: str) -> Figure | None:
    anchors = data.scales[setup].anchors
    ends = (anchors.baseline, anchors.reference) if anchors else ()
    return seed_plot(
        data,
        setup,
        "return",
        name=f"return-{setup}",
        title=setup,
        caption=f"A dot is one run: full where it solved the task ({data.solved_words}), hollow "
        "where it did not, × where it failed. Above the dots, the mean and its interval"
        + ("; dashed, the baseline and the reference policy." if ends else "."),
        label="mean target return at the end of training",
        head="solved",
        note=lambda runs: f"{sum(d.kind == 'solved' for d in runs)}/{len(runs)}",
        references=tuple(end.mean_return for end in ends),
    )


def _table(data: ReportData, setup: str) -> Table:
    rows = [_row(data, setup, label) for label in data.study.labels]
    show = fitted([row[key] for row in rows for key in ("mean", "low", "high")], 4)
    columns = [
        Column("method", "curriculum", kind="method"),
        Column("runs", "n", number=True),
        Column("mean", "mean return", show, number=True),
        Column("standard_error", "SE", show, number=True),
        Column("p_against_best", "p vs best", p_value, number=True),
        Column("success", "success", percent(1), number=True),
        *Column.interval("interval", "interval of the mean", show),
        *Column.interval("bounded", "bounded-score interval", show),
        *Column.interval("rliable", "percentile (other papers)", show),
        *Column.interval("success_interval", "success interval", percent(0)),
        *Column.interval("success_rliable", "success, percentile", percent(0)),
        Column("normalised", "normalised", fixed(3), number=True),
        Column("iqm", "IQM, normalised", fixed(3), number=True),
        Column("cvar", "worst 20 %, normalised", fixed(3), number=True),
        Column("bounds", "if unknown runs were worst/best", span(number(4))),
    ]
    return Table(
        words.slug(f"results-{setup}"),
        setup,
        f"{data.setups[setup].doc.rstrip('.')}; success: {data.setups[setup].success}. The p-value "
        "is Welch's, unadjusted, against whichever mean came out best: a convention of the papers.",
        columns,
        rows,
        notes=_notes(data, setup),
        optional=[column.key for column in columns if column.where != "csv"],
    )


def _notes(data: ReportData, setup: str) -> str:
    estimates_ = [
        [item for label in data.study.labels if (item := data.estimate(label, setup, column))]
        for column in ("return", "success")
    ]
    scores, both = estimates_[0], [*estimates_[0], *estimates_[1]]
    bounded = [item.bounded for item in scores if item.bounded is not None]
    return (
        f"{words.intervals(item.interval for item in both)}"
        + (f"\nFrom the range of scores alone: {words.intervals(bounded)}" if bounded else "")
        + (
            words.percentiles(item.rliable for item in both)
            or "\nThe percentile bootstrap of other papers is refused at so few runs."
        )
        + " "
        + " ".join(dict.fromkeys(sentence for item in scores for sentence in item.refusals))
    )


def _row(data: ReportData, setup: str, label: str) -> dict[str, Any]:
    paper = next((p for p in data.analysis.paper if (p.setup, p.label) == (setup, label)), None)
    score, success = (data.estimate(label, setup, column) for column in ("return", "success"))
    further = {
        "normalised": data.estimate(label, setup, "normalised"),
        "iqm": data.estimate(label, setup, "normalised", "iqm"),
        "cvar": data.estimate(label, setup, "cvar"),
    }
    bounded = score is not None and score.worst is not None and score.best is not None
    return {
        "method": label,
        "runs": paper.runs if paper else 0,
        **{name: getattr(paper, name, None) for name in _PAPER},
        **{name: item.value if item else None for name, item in further.items()},
        "bounds": (score.worst, score.best) if score and bounded else None,
        **interval_cells("interval", score.interval if score else None),
        **interval_cells("bounded", score.bounded if score else None),
        **interval_cells("rliable", score.rliable if score else None),
        **interval_cells("success_interval", success.interval if success else None),
        **interval_cells("success_rliable", success.rliable if success else None),
    }


def _estimates(data: ReportData) -> list[Estimate]:
    """Returns the estimates of one curriculum after another; with one setup they are made here."""
    setups, labels = data.study.setups, data.study.labels
    if len(setups) > 1:
        made = [data.estimate(m, SUITE, "normalised", name) for m in labels for name in FUNCTIONALS]
        return [item for item in made if item is not None]
    found: list[Estimate] = []
    for label in labels:
        scores = data.analysis.scores.get((label, setups[0], "normalised"))
        if scores is not None:
            rng = data.rng(0, data.styles[label].index)
            level = data.analysis.level
            found += estimates.estimate(scores, SUITE, "normalised", None, rng, level)
    # The median over a single setup is its mean.
    return [item for item in found if item.functional != "median"]


def _aggregates(data: ReportData) -> Table:
    found = _estimates(data)
    order = list(FUNCTIONALS)
    rows = [
        {
            "method": item.label,
            "aggregate": FUNCTIONALS[item.functional],
            "value": item.value,
            **interval_cells("interval", item.interval),
            "kind": item.interval.kind if item.interval else None,
            **interval_cells("rliable", item.rliable),
            "runs": item.runs,
            "bounds": _extremes(data, item),
        }
        for item in sorted(found, key=lambda item: order.index(item.functional))
    ]
    columns = [
        Column("aggregate", "aggregate"),
        Column("method", "curriculum", kind="method"),
        Column("value", "estimate", fixed(3), number=True),
        *Column.interval("interval", "interval", fixed(3)),
        Column("kind", "", where="csv"),
        *Column.interval("rliable", "percentile (other papers)", fixed(3)),
        Column("runs", "n per setup", number=True),
        Column("bounds", "if unknown runs were worst/best", span(fixed(3))),
    ]
    refused = dict.fromkeys(sentence for item in found for sentence in item.refusals)
    notes = (
        f"{words.intervals(item.interval for item in found)}"
        f"{words.percentiles(item.rliable for item in found)} {' '.join(refused)}{data.unknown}"
    )
    return Table("aggregates", "", "", columns, rows, optional=["bounds"], notes=notes)


def _extremes(data: ReportData, item: Estimate) -> tuple[float, float] | None:
    """Returns the aggregate with every unknown run at its worst and at its best."""
    found: Estimate | None = item
    if len(data.study.setups) == 1:
        # Made here, from the known runs; the analysis has made mean and IQM of the setup itself.
        (setup,) = data.study.setups
        found = data.estimate(item.label, setup, "normalised", item.functional)
    if found is None or found.worst is None or found.best is None:
        return None
    return found.worst, found.best


def _profile(data: ReportData) -> Figure | None:
    scope = SUITE if len(data.study.setups) > 1 else data.study.setups[0]
    found = {label: data.analysis.scores.get((label, scope, "normalised")) for label in data.styles}
    scores = {label: item for label, item in found.items() if item is not None}
    if not scores:
        return None
    values = np.concatenate([item.matrix.ravel() for item in scores.values()])
    x = Axis.over([0.0, 1.0, *values.tolist()], "normalised score τ")
    # As fine as a panel is wide.
    grid = np.linspace(x.low, x.high, 101)
    level = data.analysis.level
    panels, captions, behind = [], [], []
    for label, item in scores.items():
        shape = coverage.classify(item.matrix)
        known = coverage.lookup("kolmogorov", "profile", item.runs, len(item.tasks), shape, level)
        band = profiles.performance_profile(item, grid, level, known)
        style, line = data.styles[label], Line(band.grid, band.centre, steps=True)
        shade = (band.grid, band.low, band.high)
        panels.append(Panel(style.short, [style], [line], shade, key="all"))
        behind.append((style, line))
        captions.append(band.caption)
    plot = PanelPlot(
        "performance-profile",
        "Performance profiles",
        f"Share of runs above each normalised score, {words.scope(scope)}.",
        x,
        Axis.over([0.0, 1.0], "share of runs with score > τ", limits=(0.0, 1.02), count=2),
        panels,
        backdrops={"all": behind},
        notes=f"Shade: {'; '.join(dict.fromkeys(captions))}.{data.unknown}",
    )
    return data.figure(plot)


def _improvement(data: ReportData) -> Table:
    found, rows = [], []
    for scope in data.scopes:
        estimand = "normalised" if scope == SUITE else "return"
        for item in data.comparisons(estimand=estimand, scope=scope):
            found.append(item)
            interval = item.improvement
            rows.append(
                {
                    "method": item.question.a,
                    "control": item.question.b,
                    "setup": words.scope(scope),
                    "probability": interval.estimate if interval else None,
                    **interval_cells("interval", interval),
                    **interval_cells("percentile", item.percentile_improvement),
                    "note": interval.note if interval else "no interval can be given",
                }
            )
    columns = [
        Column("method", "curriculum", kind="method"),
        Column("control", "compared with", kind="method"),
        Column("setup", "setup"),
        Column("probability", "P(better run)", fixed(3), number=True),
        *Column.interval("interval", "interval", fixed(3)),
        *Column.interval("percentile", "percentile (other papers)", fixed(3)),
        Column("note", "note"),
    ]
    caption = (
        "How often a run of one curriculum ends with a higher target score than a run of the "
        "other, ties counting half. Exploratory, not adjusted for the number of comparisons."
    )
    notes = (
        f"{words.intervals(item.improvement for item in found)}"
        f"{words.percentiles(item.percentile_improvement for item in found)}{data.unknown}"
    )
    optional = ["percentile", "note"]
    return Table("improvement", "", caption, columns, rows, optional=optional, notes=notes)
