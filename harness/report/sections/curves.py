"""Learning curves, area under them, and steps to the threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacebench.harness.analysis.scores import STEPS, UNRESOLVED
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figures.lines import Bundle, draw_bundles, finish_steps
from pacebench.harness.report.figures.rows import row_figure, seed_rows
from pacebench.harness.report.tables import CELL, Column, Table, count, fixed, interval_cells
from pacebench.harness.statistics import coverage
from pacebench.harness.statistics.curves import learning_curve
from pacebench.harness.statistics.interval import level_words
from pacebench.harness.statistics.survival import kaplan_meier


def learning(data: ReportData) -> doc.Section:
    """Returns the target score over environment steps, every seed and a simultaneous band."""
    points = words.plural(len(data.study.evaluation_steps()), "point")
    lead = (
        f"The deterministic policy on the held-out target contexts, evaluated at {points} fixed in "
        "advance. Steps count everything a curriculum consumes. A run that failed goes on at the "
        "floor; no curve is cut short."
    )
    figures = [
        figure
        for setup in data.study.setups
        for column, measure in (("return", "target return"), ("success", "success rate"))
        if (figure := _curves(data, setup, column, measure)) is not None
    ]
    return doc.Section("curves", "Learning curves", [doc.Text(lead), doc.Figures(figures)])


def _curves(data: ReportData, setup: str, column: str, measure: str) -> Figure | None:
    bundles, captions = [], []
    for label, style in data.styles.items():
        mine = of_cell(data.curves, setup, label)
        mine = mine[mine["how"] != UNRESOLVED]
        wide = mine.pivot_table(index="seed", columns="step", values=column)
        if wide.empty:
            continue
        x, values = wide.columns.to_numpy(dtype=np.float64), wide.to_numpy(dtype=np.float64)
        threads = {
            f"{label}, seed {seed}: {measure} {row[-1]:.4g} at the end": row
            for seed, row in zip(wide.index, values, strict=True)
        }
        # There is no band of a single run, or of runs that agree everywhere.
        if len(values) < 2 or not (values.std(axis=0) > 0).any():
            bundles.append(Bundle(style, x, values.mean(axis=0), threads=threads))
            continue
        level, shape = data.analysis.level, coverage.classify(values[:, [-1]])
        known = coverage.lookup("max-t", "curve", len(values), 1, shape, level)
        rng = data.rng(2, data.study.setups.index(setup), style.index, int(column == "success"))
        band = learning_curve(x, values, [int(seed) for seed in wide.index], rng, level, known)
        bundles.append(Bundle(style, x, band.centre, band.low, band.high, threads))
        captions.append(band.caption)
    if not bundles:
        return None
    with data.canvas(f"curve-{column}-{setup}", f"{words.capital(measure)}, {setup}") as canvas:
        draw_bundles(canvas, bundles)
        canvas.axes.set_ylabel(measure)
        if column == "success":
            canvas.axes.set_ylim(-0.03, 1.03)
        finish_steps(canvas, bundles, data.study.budget)
        said = "; ".join(dict.fromkeys(captions)) or "too few runs for a band"
        return canvas.finish(f"Mean over runs; faint: every run. Shade: {said}.{data.unknown}")


def efficiency(data: ReportData) -> doc.Section:
    """Returns the area under the learning curve and the steps to V₋, censored ones included."""
    first = words.short_count(data.study.evaluation_steps()[0])
    lead = (
        f"Area under the normalised target score per environment step, from the first evaluation "
        f"at {first} steps to the last, and environment steps until the mean discounted target "
        f"return first reaches the setup's threshold V₋ at an evaluation (every {first} steps or "
        "so). A run that never reaches it is censored at the end of training and counts as such: "
        "the restricted mean averages over all runs, not over those that made it."
    )
    figures = [
        figure
        for setup in data.study.setups
        for draw in (_area, _survival)
        if (figure := draw(data, setup)) is not None
    ]
    table = doc.TableBlock(_table(data))
    return doc.Section(
        "efficiency", "Sample efficiency", [doc.Text(lead), table, doc.Figures(figures)]
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
    caption = (
        f"Exploratory unless declared as primary. {words.intervals(found)}"
        f"{words.percentiles(papers)}{data.unknown}"
    )
    return Table("sample-efficiency", "", caption, columns, rows, optional=["auc_rliable"])


def _area(data: ReportData, setup: str) -> Figure | None:
    return row_figure(
        data,
        f"auc-{setup}",
        f"Area under the curve, {setup}",
        seed_rows(
            data,
            setup,
            "auc",
            lambda r: f"{r['label']}, seed {r['seed']}: AUC {r['auc']:.3f}",
        ),
        "AUC of the normalised target score, per step",
        per_row=0.52,
        before="Dots: runs. Bars: ",
    )


def _survival(data: ReportData, setup: str) -> Figure | None:
    horizon = float(data.study.budget)
    bundles, curves = [], []
    for label, style in data.styles.items():
        steps = data.known(setup, label)["steps_to_threshold"].to_numpy(dtype=np.float64)
        if steps.size == 0:
            continue
        curve = kaplan_meier(steps, horizon, data.analysis.level)
        curves.append(curve)
        # The share that has reached V₋, one minus the share that has not; the last level holds up
        # to the end of training.
        share, low, high = (
            1 - np.append(part, part[-1]) for part in (curve.share, curve.high, curve.low)
        )
        bundles.append(Bundle(style, np.append(curve.steps, horizon), share, low, high))
    if not bundles:
        return None
    with data.canvas(f"threshold-{setup}", f"Runs that reached V₋, {setup}") as canvas:
        draw_bundles(canvas, bundles, steps=True)
        canvas.axes.set_ylim(-0.02, 1.02)
        canvas.axes.set_ylabel(f"share of runs at V₋ = {data.scales[setup].threshold:g}")
        finish_steps(canvas, bundles, data.study.budget)
        return canvas.finish(
            f"One minus Kaplan–Meier's estimate, pointwise {level_words(data.analysis.level)} % "
            f"limits (log–log, exact where all runs are on one side; coverage not simulated); "
            f"n = {words.extent(curve.runs for curve in curves)} runs per curriculum, "
            f"{sum(curve.censored for curve in curves)} of all censored at "
            f"{words.short_count(horizon)} steps.{data.unknown}"
        )
