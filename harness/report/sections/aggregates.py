"""rliable's aggregates over setups, performance profiles, probability of improvement."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import (
    ReportData,
    interval_cells,
    interval_words,
    percentile_words,
    scope_words,
    slug,
)
from pacebench.harness.report.document import Block, Figures, Section, TableBlock, Text
from pacebench.harness.report.figures.lines import Bundle, draw_bundles
from pacebench.harness.report.figures.rows import Reference, Row, draw_rows, height_of
from pacebench.harness.report.tables import Column, Table, fixed, span
from pacebench.harness.statistics import coverage, estimates, profiles
from pacebench.harness.statistics.estimates import Estimate
from pacebench.harness.statistics.specification import NORMALISED, SUITE

FUNCTIONALS = {
    "mean": "mean",
    "median": "median over setups",
    "iqm": "IQM",
    "optimality_gap": "optimality gap",
}


def aggregates(view: ReportData) -> Section:
    """Returns mean, median, IQM and optimality gap of normalised scores, and the profiles."""
    found = _estimates(view)
    setups = len(view.study.setups)
    lead = (
        "Aggregates of normalised scores (0 = baseline policy, 1 = reference policy, fixed per "
        "setup), as rliable defines them"
        + (f", over {setups} setups with equal weights." if setups > 1 else ".")
        + (" With one or two setups the median over setups is the mean." if setups <= 2 else "")
        + " The optimality gap is the mean shortfall from 1: lower is better."
    )
    blocks: list[Block] = [Text(lead), TableBlock(_table(view, found))]
    figures = [f for name in FUNCTIONALS if (f := _figure(view, found, name)) is not None]
    blocks.append(Figures(figures))
    profile = _profile(view)
    if profile is not None:
        blocks.append(Figures([profile]))
    return Section("aggregates", "Aggregates and performance profiles", blocks)


def _estimates(view: ReportData) -> dict[tuple[str, str], Estimate]:
    """Returns estimates by label and functional; with one setup they are made here."""
    found: dict[tuple[str, str], Estimate] = {}
    for label in view.labels:
        if len(view.study.setups) > 1:
            for name in FUNCTIONALS:
                item = view.estimate(label, SUITE, NORMALISED, name)
                if item is not None:
                    found[label, name] = item
            continue
        scores = view.analysis.scores.get((label, view.study.setups[0], NORMALISED))
        if scores is None:
            continue
        batch = estimates.estimate(
            scores,
            SUITE,
            NORMALISED,
            None,
            view.rng(0, view.styles[label].index),
            view.analysis.level,
            view.analysis.spec.resamples,
        )
        found |= {(label, i.functional): i for i in batch if i.functional != "median"}
    return found


def _table(view: ReportData, found: dict[tuple[str, str], Estimate]) -> Table:
    rows: list[dict[str, Any]] = []
    for (label, name), item in found.items():
        rows.append(
            {
                "method": label,
                "aggregate": FUNCTIONALS[name],
                "value": item.value,
                **interval_cells(item.interval, "interval"),
                "kind": item.interval.kind if item.interval else None,
                **interval_cells(item.rliable, "rliable", "rliable_"),
                "runs": item.runs,
                "bounds": _extremes(view, item),
            }
        )
    order = list(FUNCTIONALS.values())
    rows.sort(key=lambda row: order.index(row["aggregate"]))
    refused = dict.fromkeys(s for item in found.values() for s in item.refusals)
    return Table(
        "aggregates",
        "",
        f"{interval_words(item.interval for item in found.values())}"
        f"{percentile_words(item.rliable for item in found.values())} "
        + " ".join(refused)
        + view.unknown,
        (
            Column("aggregate", "aggregate"),
            Column("method", "curriculum", kind="method"),
            Column("value", "estimate", fixed(3), number=True),
            Column("interval", "interval", span(fixed(3)), number=True, where="shown"),
            Column("low", "", where="csv"),
            Column("high", "", where="csv"),
            Column("kind", "", where="csv"),
            Column("rliable", "percentile (other papers)", span(fixed(3)), True, where="shown"),
            Column("rliable_low", "", where="csv"),
            Column("rliable_high", "", where="csv"),
            Column("runs", "n per setup", number=True),
            *(
                [Column("bounds", "if unknown runs were worst/best", span(fixed(3)))]
                if any(row["bounds"] for row in rows)
                else []
            ),
        ),
        rows,
    )


def _extremes(view: ReportData, item: Estimate) -> tuple[float, float] | None:
    """Returns the aggregate with every unknown run at its worst and at its best."""
    if len(view.study.setups) == 1:
        # Made here, from the known runs; the analysis has made mean and IQM of the setup itself.
        setup = view.study.setups[0]
        found = view.estimate(item.method, setup, NORMALISED, item.functional)
        if found is None:
            return None
        item = found
    if item.worst is None or item.best is None:
        return None
    return item.worst, item.best


def _figure(
    view: ReportData, found: dict[tuple[str, str], Estimate], functional: str
) -> Figure | None:
    rows = []
    for label in view.labels:
        item = found.get((label, functional))
        if item is not None:
            style = view.styles[label]
            rows.append(Row(style, style.short, item.interval, estimate=item.value))
    if not rows:
        return None
    words = FUNCTIONALS[functional]
    title = f"{words[:1].upper()}{words[1:]} of normalised scores"
    name = f"aggregate-{slug(functional)}"
    with view.canvas(name, title, height=height_of(len(rows), 0.34)) as canvas:
        draw_rows(canvas, rows, f"{words}, normalised score")
        return canvas.finish(interval_words(row.interval for row in rows) + view.unknown)


def _profile(view: ReportData) -> Figure | None:
    scope = SUITE if len(view.study.setups) > 1 else view.study.setups[0]
    scores = {
        label: view.analysis.scores[label, scope, NORMALISED]
        for label in view.labels
        if (label, scope, NORMALISED) in view.analysis.scores
    }
    if not scores:
        return None
    values = np.concatenate([item.matrix.ravel() for item in scores.values()])
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    margin = 0.02 * (high - low)
    grid = np.linspace(low - margin, high + margin, 241)
    bundles, captions = [], []
    for label, item in scores.items():
        shape = coverage.classify(item.matrix)
        level = view.analysis.level
        known = coverage.at_level(level, "kolmogorov", "profile", item.runs, len(item.tasks), shape)
        band = profiles.performance_profile(item, grid, level, known)
        bundles.append(Bundle.of_band(view.styles[label], band))
        captions.append(band.caption)
    with view.canvas("performance-profile", "Performance profiles", height=3.3) as canvas:
        draw_bundles(canvas, bundles, steps=True)
        canvas.axes.set_xlabel("normalised score τ")
        canvas.axes.set_ylabel("share of runs with score > τ")
        canvas.axes.set_ylim(0, 1.02)
        canvas.axes.set_xlim(grid[0], grid[-1])
        canvas.legend(scores)
        return canvas.finish(
            f"Share of runs above each normalised score, {scope_words(scope)}. Shade: "
            + "; ".join(dict.fromkeys(captions))
            + "."
            + view.unknown
        )


def improvement(view: ReportData) -> Section:
    """Returns the probability that a run of one curriculum beats a run of another."""
    rows, figures = [], []
    column = {scope: NORMALISED if scope == SUITE else "score" for scope in view.scopes}
    for i, scope in enumerate(view.scopes):
        drawn = []
        for item in view.contrasts(column[scope], scope):
            style = view.styles[item.comparison.method]
            against = view.styles[item.comparison.control].short
            interval = item.improvement
            several = view.study.statistics.comparisons != "vs-control"
            beats = f" > {against}" if several else ""
            drawn.append(Row(style, f"{style.short}{beats}", interval))
            rows.append(
                {
                    "method": item.comparison.method,
                    "control": item.comparison.control,
                    "setup": scope_words(scope),
                    "probability": interval.estimate if interval else None,
                    **interval_cells(interval, "interval"),
                    **interval_cells(item.percentile_improvement, "percentile", "percentile_"),
                    "note": interval.note if interval else " ".join(item.refusals),
                }
            )
        figures += _improvement_figure(view, f"improvement-{i}", scope, drawn)
    columns = [
        Column("method", "curriculum", kind="method"),
        Column("control", "compared with", kind="method"),
        Column("setup", "setup"),
        Column("probability", "P(better run)", fixed(3), number=True),
        Column("interval", "interval", span(fixed(3)), number=True, where="shown"),
        Column("low", "", where="csv"),
        Column("high", "", where="csv"),
    ]
    if any(row["percentile"] for row in rows):
        columns += [
            Column("percentile", "percentile (other papers)", span(fixed(3)), True, where="shown"),
            Column("percentile_low", "", where="csv"),
            Column("percentile_high", "", where="csv"),
        ]
    if any(row["note"] for row in rows):
        columns.append(Column("note", "note"))
    items = [item for scope in view.scopes for item in view.contrasts(column[scope], scope)]
    found = [item.improvement for item in items]
    papers = [item.percentile_improvement for item in items]
    table = Table(
        "improvement",
        "",
        f"Exploratory, not adjusted for the number of comparisons. {interval_words(found)}"
        f"{percentile_words(papers)}{view.unknown}",
        columns,
        rows,
    )
    lead = (
        "How often a randomly drawn run of one curriculum ends with a higher target score than a "
        "randomly drawn run of the other, ties counting half. It says how often, not by how much."
    )
    blocks: list[Block] = [Text(lead), TableBlock(table)]
    if figures:
        blocks.append(Figures(figures))
    return Section("improvement", "Probability of improvement", blocks)


def _improvement_figure(view: ReportData, name: str, scope: str, rows: list[Row]) -> list[Figure]:
    if not any(row.interval is not None for row in rows):
        return []
    title = f"Probability of improvement, {scope_words(scope)}"
    with view.canvas(name, title, height=height_of(len(rows), 0.38)) as canvas:
        reference = [Reference(0.5, "coin flip")]
        against = (
            f"P(a run beats a run of {view.styles[view.study.control].short})"
            if view.study.statistics.comparisons == "vs-control"
            else "P(run beats run)"
        )
        draw_rows(canvas, rows, against, references=reference, include=[0.0, 1.0])
        canvas.axes.set_xlim(-0.02, 1.02)
        return [canvas.finish(interval_words(row.interval for row in rows) + view.unknown)]
