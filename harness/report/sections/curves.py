"""Learning curves, area under them, and steps to the threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import MEASURED, UNRESOLVED
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import (
    ReportData,
    interval_cells,
    interval_words,
    percentile_words,
    slug,
)
from pacebench.harness.report.document import Block, Figures, Section, TableBlock, Text
from pacebench.harness.report.figures.lines import (
    Bundle,
    Thread,
    draw_bundles,
    short_count,
    step_axis,
    survival_bundle,
)
from pacebench.harness.report.figures.rows import Row, Seed, draw_rows, height_of
from pacebench.harness.report.tables import Column, Table, count, fixed, span
from pacebench.harness.statistics import coverage
from pacebench.harness.statistics.curves import learning_curve
from pacebench.harness.statistics.interval import level_words
from pacebench.harness.statistics.missing import STEPS
from pacebench.harness.statistics.profiles import Band
from pacebench.harness.statistics.survival import kaplan_meier


def learning(view: ReportData) -> Section:
    """Returns the target score over environment steps, every seed and a simultaneous band."""
    steps = view.study.evaluation_steps()
    lead = (
        f"The deterministic policy on the held-out target contexts, evaluated at {len(steps)} "
        f"point{'s' if len(steps) > 1 else ''} fixed in advance. Steps count everything a "
        "curriculum consumes. A run that failed goes on at the floor; no curve is cut short."
    )
    figures = [
        figure
        for s, setup in enumerate(view.study.setups)
        for column, words in (("return", "target return"), ("success", "success rate"))
        if (figure := _curves(view, s, setup, column, words)) is not None
    ]
    return Section("curves", "Learning curves", [Text(lead), Figures(figures)])


def _curves(view: ReportData, s: int, setup: str, column: str, words: str) -> Figure | None:
    here = view.curves[(view.curves["setup"] == setup) & (view.curves["how"] != UNRESOLVED)]
    bundles, captions = [], []
    for label in view.labels:
        wide = here[here["label"] == label].pivot_table(index="seed", columns="step", values=column)
        if wide.empty:
            continue
        style = view.styles[label]
        x = wide.columns.to_numpy(dtype=np.float64)
        threads = [
            Thread(x, row, f"{label}, seed {seed}: {words} {row[-1]:.4g} at the end")
            for seed, row in zip(wide.index, wide.to_numpy(dtype=np.float64), strict=True)
        ]
        band = _band(view, (2, s, style.index, int(column == "success")), wide)
        if band is None:
            bundles.append(Bundle(style, x, wide.to_numpy().mean(axis=0), threads=threads))
        else:
            bundles.append(Bundle.of_band(style, band, threads))
            captions.append(band.caption)
    if not bundles:
        return None
    name = f"curve-{column}-{slug(setup)}"
    title = f"{words[:1].upper()}{words[1:]}, {setup}"
    with view.canvas(name, title) as canvas:
        draw_bundles(canvas, bundles)
        step_axis(canvas.axes, view.study.budget)
        canvas.axes.set_ylabel(words)
        if column == "success":
            canvas.axes.set_ylim(-0.03, 1.03)
        canvas.legend(bundle.style.label for bundle in bundles)
        said = "; ".join(dict.fromkeys(captions)) or "too few runs for a band"
        return canvas.finish(f"Mean over runs; faint: every run. Shade: {said}.{view.unknown}")


def _band(view: ReportData, key: tuple[int, ...], wide: pd.DataFrame) -> Band | None:
    """Returns the band of one method, None with a single run or no spread anywhere."""
    values = wide.to_numpy(dtype=np.float64)
    seeds = [int(seed) for seed in wide.index]
    if len(seeds) < 2 or not (values.std(axis=0) > 0).any():
        return None
    shape = coverage.classify(values[:, [-1]])
    level = view.analysis.level
    known = coverage.at_level(level, "max-t", "curve", len(seeds), 1, shape)
    grid = wide.columns.to_numpy(dtype=np.float64)
    return learning_curve(grid, values, seeds, view.rng(*key), level, known)


def efficiency(view: ReportData) -> Section:
    """Returns the area under the learning curve and the steps to V₋, censored ones included."""
    steps = view.study.evaluation_steps()
    lead = (
        f"Area under the normalised target score per environment step, from the first evaluation "
        f"at {short_count(steps[0])} steps to the last, and environment steps until "
        "the mean discounted target return first reaches the setup's threshold V₋ at an "
        f"evaluation (every {short_count(steps[0])} steps or so). A run that never reaches it is "
        "censored at the end of training and counts as such: the restricted mean averages over "
        "all runs, not over those that made it."
    )
    blocks: list[Block] = [Text(lead), TableBlock(_table(view))]
    figures: list[Figure] = []
    for setup in view.study.setups:
        figures += [f for f in (_area(view, setup), _survival(view, setup)) if f is not None]
    blocks.append(Figures(figures))
    return Section("efficiency", "Sample efficiency", blocks)


def _table(view: ReportData) -> Table:
    rows: list[dict[str, Any]] = []
    found, papers = [], []
    for setup in view.study.setups:
        here = view.scored[(view.scored["setup"] == setup) & (view.scored["how"] != UNRESOLVED)]
        for label in view.labels:
            area = view.estimate(label, setup, "auc")
            reached = view.estimate(label, setup, STEPS)
            mine = here[here["label"] == label]
            found += [item.interval for item in (area, reached) if item is not None]
            papers.append(area.rliable if area is not None else None)
            rows.append(
                {
                    "setup": setup,
                    "method": label,
                    "auc": area.value if area else None,
                    **interval_cells(area.interval if area else None, "auc_interval", "auc_"),
                    **interval_cells(area.rliable if area else None, "auc_rliable", "auc_rliable_"),
                    "runs": len(mine),
                    "reached": int(mine["steps_to_threshold"].notna().sum()),
                    "steps": reached.value if reached else None,
                    **interval_cells(
                        reached.interval if reached else None, "steps_interval", "steps_"
                    ),
                }
            )
    return Table(
        "sample-efficiency",
        "",
        f"Exploratory unless declared as primary. {interval_words(found)}"
        f"{percentile_words(papers)}{view.unknown}",
        (
            Column("setup", "setup"),
            Column("method", "curriculum", kind="method"),
            Column("auc", "AUC, normalised", fixed(3), number=True),
            Column("auc_interval", "interval", span(fixed(3)), number=True, where="shown"),
            Column("auc_low", "", where="csv"),
            Column("auc_high", "", where="csv"),
            *(
                (
                    Column(
                        "auc_rliable",
                        "percentile (other papers)",
                        span(fixed(3)),
                        True,
                        where="shown",
                    ),
                    Column("auc_rliable_low", "", where="csv"),
                    Column("auc_rliable_high", "", where="csv"),
                )
                if any(row["auc_rliable"] for row in rows)
                else ()
            ),
            Column("runs", "n", number=True),
            Column("reached", "reached V₋", number=True),
            Column("steps", "restricted mean steps to V₋", count, number=True),
            Column("steps_interval", "interval", span(count), number=True, where="shown"),
            Column("steps_low", "", where="csv"),
            Column("steps_high", "", where="csv"),
        ),
        rows,
    )


def _area(view: ReportData, setup: str) -> Figure | None:
    here = view.scored[(view.scored["setup"] == setup) & (view.scored["how"] != UNRESOLVED)]
    rows = []
    for label in view.labels:
        item = view.estimate(label, setup, "auc")
        if item is None:
            continue
        mine = here[here["label"] == label].sort_values("seed")
        seeds = [
            Seed(float(value), f"{label}, seed {seed}: AUC {value:.3f}", how != MEASURED)
            for value, seed, how in zip(mine["auc"], mine["seed"], mine["how"], strict=True)
        ]
        style = view.styles[label]
        rows.append(Row(style, style.short, item.interval, seeds, estimate=item.value))
    if not rows:
        return None
    height = height_of(len(rows), 0.52)
    with view.canvas(f"auc-{slug(setup)}", f"Area under the curve, {setup}", height=height) as c:
        draw_rows(c, rows, "AUC of the normalised target score, per step")
        bars = interval_words(row.interval for row in rows)
        return c.finish(f"Dots: runs. Bars: {bars}{view.unknown}")


def _survival(view: ReportData, setup: str) -> Figure | None:
    here = view.scored[(view.scored["setup"] == setup) & (view.scored["how"] != UNRESOLVED)]
    horizon = float(view.study.budget)
    bundles, censored, sizes = [], 0, set()
    for label in view.labels:
        steps = here.loc[here["label"] == label, "steps_to_threshold"].to_numpy(dtype=np.float64)
        if steps.size == 0:
            continue
        curve = kaplan_meier(steps, horizon, view.analysis.level)
        censored += curve.censored
        sizes.add(curve.runs)
        bundles.append(survival_bundle(view.styles[label], curve))
    if not bundles:
        return None
    threshold = view.scales[setup].threshold
    with view.canvas(f"threshold-{slug(setup)}", f"Runs that reached V₋, {setup}") as canvas:
        draw_bundles(canvas, bundles, steps=True)
        canvas.axes.set_ylim(-0.02, 1.02)
        canvas.axes.set_ylabel(f"share of runs at V₋ = {threshold:g}")
        step_axis(canvas.axes, view.study.budget)
        canvas.legend(bundle.style.label for bundle in bundles)
        return canvas.finish(
            f"One minus Kaplan–Meier's estimate, pointwise {level_words(view.analysis.level)} % "
            f"limits (log–log, exact where all runs are on one side; coverage not simulated); "
            f"n = {'–'.join(map(str, sorted({min(sizes), max(sizes)})))} runs per curriculum, "
            f"{censored} of all censored at {short_count(horizon)} steps.{view.unknown}"
        )
