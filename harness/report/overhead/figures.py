"""Figures of a measurement: time against d, and quality beside speed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Row, RowPlot
from pacebench.harness.report.overhead.tables import duration, percent
from pacebench.harness.report.palette import Style

Styles = Mapping[str, Style]


def clock_name(summary: OverheadSummary) -> str:
    """Returns what the clock that verdicts go by measures."""
    return "Wall-clock time" if summary.clock == "wall" else "Processor time"


def time_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time per update against d, at one K, of self-paced curricula and one control."""
    grid = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min((cell.size for cell in grid), key=lambda k: abs(math.log(k / 64)))
    line = sorted((cell for cell in grid if cell.size == size), key=lambda cell: cell.d)
    panels, reached = [], []
    for name in summary.settings.curricula:
        if name not in summary.quality and name != "default":
            continue
        times = {cell.d: cell.methods[name].time for cell in line if name in cell.methods}
        ends = [(time.low, time.high, np.nan) for time in times.values()]
        reached += [end for low, high, _ in ends for end in (low, high)]
        d = np.array(list(times), dtype=np.float64)
        mean = Line(d, np.array([time.estimate for time in times.values()]))
        bars = Line(np.repeat(d, 3), np.array(ends).ravel(), "path")
        lines = [mean, replace(mean, kind="dots"), bars]
        if name in summary.scaling and len(d) > 1:
            x = np.geomspace(d.min(), d.max(), 40)
            fitted = predict(summary.scaling[name], x, np.full(len(x), float(size)))
            lines.append(Line(x, fitted, "second"))
        stops = [f"{c.untimed[name]} at d = {c.d}" for c in line if name in c.untimed]
        panels.append(Panel(look[name].short, [look[name]], lines, note="".join(stops[:1])))
    limit = summary.settings.limit
    across = Axis.over([cell.d for cell in line], "context dimensions d", log=True, most=1e9)
    up = Axis.over([*reached, limit], "time per update", log=True, most=1e9)
    return PanelPlot(
        "time-d",
        f"Time per update against d, K = {size}",
        f"{clock_name(summary)} of a whole update on the same instances with its 95 % interval; "
        "the others in grey, so that a distance between lines is a ratio. Dashed: the fit "
        "t₀ + c·dᵅ·Kᵝ over the whole grid, if there is one.",
        across,
        replace(up, names=tuple(duration(tick).replace(" ", "") for tick in up.ticks)),
        panels,
        rules=((limit, f"limit {duration(limit)}"),),
        compared=True,
        notes="Geometric mean over instances and blocks; intervals for other instances.",
    )


def quality_figures(summary: OverheadSummary, look: Styles) -> list[Figure]:
    """Draws each method's optimality gap beside its time and its infeasible answers."""
    cells = [c for c in summary.cells if all(name in c.methods for name in summary.quality)]
    if not cells or not summary.quality:
        return []
    rows = []
    for name in summary.quality:
        mine = [cell.methods[name] for cell in cells]
        pooled = [method.quality for method in mine if method.quality is not None]
        seconds = math.exp(np.mean([math.log(method.time.estimate) for method in mine]))
        gap = float(np.nanmedian([quality.gap_median for quality in pooled]))
        broken = float(np.mean([quality.infeasible_share for quality in pooled]))
        note = f"{duration(seconds)}, {percent(broken)}"
        row = Row([look[name]], look[name].short, estimate=gap, note=note, tip=percent(gap))
        rows.append((seconds, row))
    drawn = [row for _, row in sorted(rows, key=lambda item: item[0])]
    axis = Axis.over([0.0, 1.0, *(v for row in drawn for v in row.drawn)], "optimality gap")
    axis = replace(axis, names=tuple(percent(tick) for tick in axis.ticks))
    caption = (
        f"Over the {len(cells)} cells in which every method finishes, the fastest first. 0 % is "
        "the best feasible answer of any method to its own problem, 100 % is not moving, below 0 % "
        "is what breaking a constraint buys. At the end: time per update, and the share of answers "
        "that break the KL budget or fall short of V₋ by more than 0.1 % of ε or of the values' "
        "spread."
    )
    head, title = "time, infeasible", "Median optimality gap"
    return [RowPlot("quality-gap", title, caption, axis, drawn, references=[0.0], head=head)]
