"""What other papers print: rliable's aggregates and profiles, probability of improvement."""

from __future__ import annotations

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
from pacebench.harness.report.sections.pairs import PAIR, pair_cells
from pacebench.harness.report.tables import Column, Table, fixed, interval_cells, span
from pacebench.harness.statistics import coverage, profiles

FUNCTIONALS = {
    "mean": "mean",
    "median": "median over setups",
    "iqm": "IQM",
    "optimality_gap": "optimality gap",
}


def aggregates(data: ReportData) -> list[doc.Block]:
    """Returns mean, median, IQM and optimality gap of normalised scores, and the profiles."""
    declared = data.foreign is not None
    ends = "0 and 1 as declared" if declared else "0 = baseline policy, 1 = reference policy"
    lead = (
        f"Aggregates of normalised scores ({ends}, fixed per setup), as rliable defines them; the "
        "optimality gap is the mean shortfall from 1. With one or two setups the median "
        "over setups is the mean."
    )
    profile = _profile(data)
    blocks: list[doc.Block] = [doc.Text(lead), _aggregates(data)]
    return [*blocks, doc.Figures([profile])] if profile is not None else blocks


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
        Column("method", "method", kind="method"),
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
    panels, captions = [], []
    for label, item in scores.items():
        shape = coverage.classify(item.matrix)
        known = coverage.lookup("kolmogorov", "profile", item.runs, len(item.tasks), shape, level)
        band = profiles.performance_profile(item, grid, level, known)
        style, line = data.styles[label], Line(band.grid, band.centre, steps=True)
        shade = (band.grid, band.low, band.high)
        panels.append(Panel(style.short, [style], [line], shade))
        captions.append(band.caption)
    plot = PanelPlot(
        "performance-profile",
        "Performance profiles",
        f"Share of runs above each normalised score, {words.scope(scope)}.",
        x,
        Axis.over([0.0, 1.0], "share of runs with score > τ", limits=(0.0, 1.02), count=2),
        panels,
        compared=True,
        notes=f"Shade: {'; '.join(dict.fromkeys(captions))}.{data.unknown}",
    )
    return data.figure(plot)


def improvement(data: ReportData) -> Table:
    """Returns the probability that a run of one method beats a run of another."""
    found = [
        item
        for scope in data.scopes
        for item in data.comparisons(
            estimand="normalised" if scope == SUITE else "return", scope=scope
        )
    ]
    rows = [
        {
            **pair_cells(item),
            "probability": interval.estimate if interval else None,
            **interval_cells("interval", interval),
            **interval_cells("percentile", item.percentile_improvement),
            "note": interval.note if interval else "no interval can be given",
        }
        for item in found
        for interval in [item.improvement]
    ]
    columns = [
        *PAIR,
        Column("probability", "P(better run)", fixed(3), number=True),
        *Column.interval("interval", "interval", fixed(3)),
        *Column.interval("percentile", "percentile (other papers)", fixed(3)),
        Column("note", "note"),
    ]
    caption = (
        "How often a run of one method ends with a higher score than a run of the "
        "other, ties counting half. Exploratory, not adjusted for the number of comparisons."
    )
    notes = (
        f"{words.intervals(item.improvement for item in found)}"
        f"{words.percentiles(item.percentile_improvement for item in found)}{data.unknown}"
    )
    optional = ["percentile", "note"]
    return Table("improvement", "", caption, columns, rows, optional=optional, notes=notes)
