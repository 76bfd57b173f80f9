"""Learning curves, area under them, and steps to the threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.harness.analysis.scores import STEPS, UNRESOLVED
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import FloatArray, Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Dot
from pacebench.harness.report.sections.scores import seed_plot
from pacebench.harness.report.tables import CELL, Column, Table, count, fixed, interval_cells
from pacebench.harness.statistics import coverage
from pacebench.harness.statistics.curves import learning_curve

# Runs drawn singly per panel: more cannot be told apart.
MOST_RUNS = 40


def learning(data: ReportData) -> doc.Section:
    """Returns the target return over environment steps, a panel per curriculum and setup."""
    figures = [f for setup in data.study.setups if (f := _curves(data, setup)) is not None]
    return doc.Section("curves", "Learning curves", [doc.Figures(figures)])


def curve_of(data: ReportData, setup: str, label: str) -> tuple[list[int], FloatArray, FloatArray]:
    """Returns seeds, steps and the target return of every known run of a cell, (runs, steps)."""
    mine = of_cell(data.curves, setup, label)
    mine = mine[mine["how"] != UNRESOLVED]
    wide = mine.pivot_table(index="seed", columns="step", values="return")
    seeds = [int(seed) for seed in wide.index]
    return seeds, wide.columns.to_numpy(dtype=np.float64), wide.to_numpy(dtype=np.float64)


def _curves(data: ReportData, setup: str) -> Figure | None:
    panels, captions, drawn = [], [], []
    most = 0
    for label, style in data.styles.items():
        seeds, x, values = curve_of(data, setup, label)
        if not len(values):
            continue
        centre, band = values.mean(axis=0), None
        # There is no band of a single run, or of runs that agree everywhere.
        if len(values) > 1 and (values.std(axis=0) > 0).any():
            level, shape = data.analysis.level, coverage.classify(values[:, [-1]])
            known = coverage.lookup("max-t", "curve", len(values), 1, shape, level)
            rng = data.rng(2, data.study.setups.index(setup), style.index, 0)
            found = learning_curve(x, values, seeds, rng, level, known)
            centre, band = found.centre, (x, found.low, found.high)
            captions.append(found.caption)
        runs = [
            Line(x, row, "run", unit=data.units.get((label, setup, seed)))
            for seed, row in zip(seeds[:MOST_RUNS], values, strict=False)
        ]
        lines, note = [*runs, Line(x, centre)], f"n = {len(values)}"
        panels.append(Panel(style.short, [style], lines, band, note=note))
        drawn += values.ravel().tolist()
        most = max(most, len(values))
    if not panels:
        return None
    single = "every run" if most <= MOST_RUNS else f"the first {MOST_RUNS} seeds"
    asked = data.study.evaluation
    part = (
        f" Over the first {asked.curve_contexts} of {asked.contexts} target contexts; scores are "
        "over all."
        if asked.curve_contexts
        else ""
    )
    plot = PanelPlot(
        f"curve-return-{setup}",
        setup,
        f"Mean over runs (thick), {single} (thin), a simultaneous band (shade), and the means of "
        "the others in grey."
        + (
            ""
            if data.foreign
            else " A run that failed goes on at the floor; no curve is cut short."
        )
        + part,
        Axis.over([], "environment steps", limits=(0.0, float(data.study.budget)), count=2),
        Axis.over(drawn, data.score_word.removeprefix("mean "), count=3),
        panels,
        compared=True,
        notes=f"{'; '.join(dict.fromkeys(captions)) or 'Too few runs for a band'}.{data.unknown}",
    )
    return data.figure(plot)


def efficiency(data: ReportData) -> doc.Section:
    """Returns the area under the learning curve and the steps to V₋, censored ones included."""
    figures = [
        figure
        for setup in data.study.setups
        for draw in (_area, _steps)
        if (figure := draw(data, setup)) is not None
    ]
    table = doc.Fold("Sample efficiency as a table", [_table(data)])
    return doc.Section("efficiency", "Sample efficiency", [doc.Figures(figures), table])


def _area(data: ReportData, setup: str) -> Figure | None:
    return seed_plot(
        data,
        setup,
        "auc",
        name=f"auc-{setup}",
        title=f"Area under the curve, {setup}",
        caption="Mean normalised target score from the first evaluation to the last.",
        label="area under the normalised target score, per step",
    )


def _steps(data: ReportData, setup: str) -> Figure | None:
    budget = float(data.study.budget)

    def dots(label: str) -> list[Dot]:
        found = []
        for run in data.known(setup, label).to_dict("records"):
            reached = float(run["steps_to_threshold"])
            unit = data.units.get((label, setup, int(run["seed"])))
            there = np.isfinite(reached)
            found.append(Dot(reached if there else budget, unit, "solved" if there else "open"))
        return found

    return seed_plot(
        data,
        setup,
        STEPS,
        name=f"threshold-{setup}",
        title=f"Steps to V₋ = {data.scales[setup].threshold:g}, {setup}",
        caption="Steps until the mean discounted target return first reaches V₋. Hollow: never; "
        "such runs count with the whole budget in the restricted mean.",
        label="environment steps",
        head="reached",
        note=lambda runs: f"{sum(d.kind == 'solved' for d in runs)}/{len(runs)}",
        dots=dots,
    )


def _table(data: ReportData) -> Table:
    rows: list[dict[str, Any]] = []
    found, papers = [], []
    for setup, label in data.cells():
        area, reached = (data.estimate(label, setup, column) for column in ("auc", STEPS))
        mine = data.known(setup, label)
        found += [item.interval for item in (area, reached) if item is not None]
        papers.append(area.rliable if area else None)
        rows.append(
            {
                "setup": setup,
                "method": label,
                "auc": area.value if area else None,
                **interval_cells("auc_interval", area.interval if area else None),
                **interval_cells("auc_rliable", area.rliable if area else None),
                "runs": len(mine),
                "reached": int(mine["steps_to_threshold"].notna().sum()),
                "steps": reached.value if reached else None,
                **interval_cells("steps_interval", reached.interval if reached else None),
            }
        )
    columns = [
        *CELL,
        Column("auc", "AUC, normalised", fixed(3), number=True),
        *Column.interval("auc_interval", "interval", fixed(3)),
        *Column.interval("auc_rliable", "percentile (other papers)", fixed(3)),
        Column("runs", "n", number=True),
        Column("reached", "reached V₋", number=True),
        Column("steps", "restricted mean steps to V₋", count, number=True),
        *Column.interval("steps_interval", "interval", count),
    ]
    return Table(
        "sample-efficiency",
        "",
        "Exploratory unless declared as primary.",
        columns,
        rows,
        optional=["auc_rliable"],
        notes=f"{words.intervals(found)}{words.percentiles(papers)}{data.unknown}",
    )
