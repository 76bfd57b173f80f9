"""rliable's aggregates over setups, performance profiles, probability of improvement."""

from __future__ import annotations

import numpy as np

from pacebench.harness.analysis import estimates
from pacebench.harness.analysis.estimates import Estimate
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.lines import Bundle, draw_bundles
from pacebench.harness.report.figures.rows import Row, row_figure
from pacebench.harness.report.tables import Column, Table, fixed, interval_cells, span
from pacebench.harness.statistics import coverage, profiles

FUNCTIONALS = {
    "mean": "mean",
    "median": "median over setups",
    "iqm": "IQM",
    "optimality_gap": "optimality gap",
}


def aggregates(data: ReportData) -> doc.Section:
    """Returns mean, median, IQM and optimality gap of normalised scores, and the profiles."""
    found = _estimates(data)
    setups = len(data.study.setups)
    lead = (
        "Aggregates of normalised scores (0 = baseline policy, 1 = reference policy, fixed per "
        "setup), as rliable defines them"
        + (f", over {setups} setups with equal weights." if setups > 1 else ".")
        + (" With one or two setups the median over setups is the mean." if setups <= 2 else "")
        + " The optimality gap is the mean shortfall from 1: lower is better."
    )
    figures = [figure for name in FUNCTIONALS if (figure := _figure(data, found, name))]
    blocks: list[doc.Block] = [
        doc.Text(lead),
        doc.TableBlock(_table(data, found)),
        doc.Figures(figures),
    ]
    profile = _profile(data)
    if profile is not None:
        blocks.append(doc.Figures([profile]))
    return doc.Section("aggregates", "Aggregates and performance profiles", blocks)


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


def _table(data: ReportData, found: list[Estimate]) -> Table:
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
    caption = (
        f"{words.intervals(item.interval for item in found)}"
        f"{words.percentiles(item.rliable for item in found)} {' '.join(refused)}{data.unknown}"
    )
    return Table("aggregates", "", caption, columns, rows, optional=["bounds"])


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


def _figure(data: ReportData, found: list[Estimate], functional: str) -> Figure | None:
    mine = [(data.styles[item.label], item) for item in found if item.functional == functional]
    aggregate = FUNCTIONALS[functional]
    return row_figure(
        data,
        f"aggregate-{functional}",
        f"{words.capital(aggregate)} of normalised scores",
        [Row(style, style.short, item.interval, estimate=item.value) for style, item in mine],
        f"{aggregate}, normalised score",
        per_row=0.34,
    )


def _profile(data: ReportData) -> Figure | None:
    scope = SUITE if len(data.study.setups) > 1 else data.study.setups[0]
    found = {label: data.analysis.scores.get((label, scope, "normalised")) for label in data.styles}
    scores = {label: item for label, item in found.items() if item is not None}
    if not scores:
        return None
    values = np.concatenate([item.matrix.ravel() for item in scores.values()])
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    margin = 0.02 * (high - low)
    grid = np.linspace(low - margin, high + margin, 241)
    level = data.analysis.level
    bundles, captions = [], []
    for label, item in scores.items():
        shape = coverage.classify(item.matrix)
        known = coverage.lookup("kolmogorov", "profile", item.runs, len(item.tasks), shape, level)
        band = profiles.performance_profile(item, grid, level, known)
        bundles.append(Bundle(data.styles[label], band.grid, band.centre, band.low, band.high))
        captions.append(band.caption)
    with data.canvas("performance-profile", "Performance profiles", height=3.3) as canvas:
        draw_bundles(canvas, bundles, steps=True)
        canvas.axes.set_xlabel("normalised score τ")
        canvas.axes.set_ylabel("share of runs with score > τ")
        canvas.axes.set_ylim(0, 1.02)
        canvas.axes.set_xlim(grid[0], grid[-1])
        canvas.legend(scores)
        return canvas.finish(
            f"Share of runs above each normalised score, {words.scope(scope)}. Shade: "
            f"{'; '.join(dict.fromkeys(captions))}.{data.unknown}"
        )


def improvement(data: ReportData) -> doc.Section:
    """Returns the probability that a run of one curriculum beats a run of another."""
    one_control = data.study.statistics.comparisons == "vs-control"
    xlabel = (
        f"P(a run beats a run of {data.styles[data.study.control].short})"
        if one_control
        else "P(run beats run)"
    )
    found, rows, figures = [], [], []
    for i, scope in enumerate(data.scopes):
        estimand = "normalised" if scope == SUITE else "return"
        here = data.comparisons(estimand=estimand, scope=scope)
        found += here
        drawn = []
        for item in here:
            method, control = item.question.a, item.question.b
            style, interval = data.styles[method], item.improvement
            beats = "" if one_control else f" > {data.styles[control].short}"
            drawn.append(Row(style, f"{style.short}{beats}", interval))
            rows.append(
                {
                    "method": method,
                    "control": control,
                    "setup": words.scope(scope),
                    "probability": interval.estimate if interval else None,
                    **interval_cells("interval", interval),
                    **interval_cells("percentile", item.percentile_improvement),
                    "note": interval.note if interval else "no interval can be given",
                }
            )
        figures.append(
            row_figure(
                data,
                f"improvement-{i}",
                f"Probability of improvement, {words.scope(scope)}",
                drawn,
                xlabel,
                per_row=0.38,
                references=[(0.5, "coin flip")],
                include=[0.0, 1.0],
                limits=(-0.02, 1.02),
            )
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
        "Exploratory, not adjusted for the number of comparisons. "
        f"{words.intervals(item.improvement for item in found)}"
        f"{words.percentiles(item.percentile_improvement for item in found)}{data.unknown}"
    )
    table = Table("improvement", "", caption, columns, rows, optional=["percentile", "note"])
    lead = (
        "How often a randomly drawn run of one curriculum ends with a higher target score than a "
        "randomly drawn run of the other, ties counting half. It says how often, not by how much."
    )
    blocks: list[doc.Block] = [doc.Text(lead), doc.TableBlock(table)]
    shown = [figure for figure in figures if figure is not None]
    if shown:
        blocks.append(doc.Figures(shown))
    return doc.Section("improvement", "Probability of improvement", blocks)
