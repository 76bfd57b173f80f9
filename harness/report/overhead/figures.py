"""Figures of a measurement: time and ratios against d, and quality beside speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from pacebench.harness.overhead.findings import CellFinding, MeanInterval, OverheadSummary
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.overhead.training import overhead_study
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Row, RowPlot
from pacebench.harness.report.overhead.tables import clock_name, duration, percent
from pacebench.harness.report.palette import Style, styles
from pacebench.harness.report.tables import Show

Styles = Mapping[str, Style]


def styles_of(summary: OverheadSummary) -> dict[str, Style]:
    """Returns the look of every curriculum, the same as in any report."""
    return styles(overhead_study(summary.settings.curricula))


def grid_line(summary: OverheadSummary) -> list[CellFinding]:
    """Returns the synthetic cells of one K, by d."""
    cells = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min({cell.size for cell in cells}, key=lambda k: abs(math.log(k / 64)))
    return sorted((cell for cell in cells if cell.size == size), key=lambda cell: cell.d)


def time_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time per update against d, both axes logarithmic."""
    line, limit = grid_line(summary), summary.settings.limit
    # The self-paced curricula and one control.
    names = [n for n in summary.settings.curricula if n in summary.quality or n == "default"]
    times = {
        name: {cell.d: cell.timed[name].time for cell in line if name in cell.timed}
        for name in names
    }
    stopped = any(cell.methods[name].status == "over" for cell in line for name in names)

    def law(name: str) -> Line | None:
        if name not in summary.scaling or len(times[name]) < 2:
            return None
        d = np.geomspace(min(times[name]), max(times[name]), 40)
        size = np.full(len(d), float(line[0].size))
        return Line(d, predict(summary.scaling[name], d, size), "second")

    return _against_d(
        "time-d",
        f"Time per update against d, K = {line[0].size}",
        f"{clock_name(summary)} of a whole update on the same instances with its 95 % interval; "
        "the others in grey. Dashed: the fit t₀ + c·dᵅ·Kᵝ over the whole grid, if there is one.",
        summary,
        look,
        times,
        ("time per update", duration),
        ((limit, f"limit {duration(limit)}"),) if stopped else (),
        law,
    )


def ratio_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time ratio to the closed form against d."""
    line = grid_line(summary)
    ratios = {
        name: {
            cell.d: ratio
            for cell in line
            if name in cell.timed and (ratio := cell.timed[name].ratio) is not None
        }
        for name in summary.quality
        if name != REFERENCE
    }
    return _against_d(
        "ratio-d",
        f"Time relative to {REFERENCE} against d, K = {line[0].size}",
        "Ratio of the times per update on the same instances in the same process with its 95 % "
        "interval; the others in grey. A line ends where the curriculum no longer finishes within "
        "the limit.",
        summary,
        look,
        ratios,
        (f"time / time of {REFERENCE}", lambda ratio: f"{ratio:g}"),
        ((1.0, REFERENCE),),
    )


def _against_d(
    name: str,
    title: str,
    caption: str,
    summary: OverheadSummary,
    look: Styles,
    found: Mapping[str, Mapping[int, MeanInterval]],
    measure: tuple[str, Show],
    rules: tuple[tuple[float, str], ...],
    law: Callable[[str], Line | None] = lambda _: None,
) -> Figure:
    """Draws estimates with their intervals by d, a panel per curriculum."""
    line, limit, (label, show) = grid_line(summary), summary.settings.limit, measure
    means = [mean for mine in found.values() for mean in mine.values()]
    reached = [end for mean in means for end in (mean.low, mean.high)]
    x = Axis.over([cell.d for cell in line], "context dimensions d", log=True, most=1e9)
    y = Axis.over([*reached, *(value for value, _ in rules)], label, log=True, most=1e9)
    y = replace(y, names=tuple(show(tick).replace(" ", "") for tick in y.ticks))
    panels = []
    for method, mine in found.items():
        d = np.array(list(mine), dtype=np.float64)
        mean = Line(d, np.array([m.estimate for m in mine.values()]))
        ends = np.array([(m.low, m.high, np.nan) for m in mine.values()]).ravel()
        lines = [mean, replace(mean, kind="dots"), Line(np.repeat(d, 3), ends, "path")]
        over = [cell.d for cell in line if cell.methods[method].status == "over"]
        fit = law(method)
        panels.append(
            Panel(
                look[method].short,
                [look[method]],
                lines if fit is None else [*lines, fit],
                note=f"> {duration(limit)} at d = {over[0]}" if over else "",
            )
        )
    notes = (
        f"Geometric mean over instances and {summary.settings.blocks} interleaved blocks; the "
        "intervals are for other instances of the workload."
    )
    return PanelPlot(name, title, caption, x, y, panels, rules, compared=True, notes=notes)


def quality_figures(summary: OverheadSummary, look: Styles) -> list[Figure]:
    """Draws each method's optimality gap and infeasible answers, the fastest method first."""
    cells = [c for c in summary.cells if all(name in c.timed for name in summary.quality)]
    if not cells or not summary.quality:
        return []
    found = []
    for name in summary.quality:
        mine = [cell.timed[name] for cell in cells]
        pooled = [method.quality for method in mine if method.quality is not None]
        seconds = math.exp(np.mean([math.log(method.time.estimate) for method in mine]))
        gap = float(np.nanmedian([quality.gap_median for quality in pooled]))
        broken = sum(q.infeasible for q in pooled) / sum(q.updates for q in pooled)
        found.append((seconds, look[name], {"gap": gap, "infeasible": broken}))
    found.sort(key=lambda item: item[0])
    where = f"Over the {len(cells)} cells in which every method finishes, the fastest first."
    gaps = (
        f"{where} 0 % is the best feasible answer of any method to its own problem, 100 % is not "
        "moving, below 0 % is what breaking a constraint buys."
    )
    answers = (
        f"{where} Share of answers that break the KL budget or fall short of V₋ by more than 0.1 % "
        "of ε or of the values' spread."
    )
    figures: list[Figure] = []
    for key, title, caption in (
        ("gap", "Median optimality gap", gaps),
        ("infeasible", "Infeasible answers", answers),
    ):
        rows = [
            Row(
                [style],
                style.short,
                estimate=values[key],
                note=duration(seconds),
                tip=f"{style.label}: {duration(seconds)}, {percent(values[key])}",
            )
            for seconds, style, values in found
        ]
        axis = Axis.over([0.0, 1.0, *(v for row in rows for v in row.drawn)], title.lower())
        axis = replace(axis, names=tuple(percent(tick) for tick in axis.ticks))
        plot = RowPlot(f"quality-{key}", title, caption, axis, rows, references=[0.0], head="time")
        figures.append(plot)
    return figures
