"""Figures of a measurement: time and ratios against d, and quality beside speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pacebench.harness.overhead.findings import CellFinding, MeanInterval, OverheadSummary
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Line, Panel, PanelPlot
from pacebench.harness.report.figures.rows import Row, RowPlot
from pacebench.harness.report.overhead.tables import clock_name, duration, factor, percent
from pacebench.harness.report.palette import Style
from pacebench.harness.report.tables import Show

Styles = Mapping[str, Style]


def grid_line(summary: OverheadSummary) -> list[CellFinding]:
    """Returns the synthetic cells of one K, by d."""
    cells = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min({cell.size for cell in cells}, key=lambda k: abs(math.log(k / 64)))
    return sorted((cell for cell in cells if cell.size == size), key=lambda cell: cell.d)


def time_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time per update against d, of self-paced curricula and one control."""
    line, limit = grid_line(summary), summary.settings.limit
    times = {
        name: {cell.d: cell.methods[name].time for cell in line if name in cell.methods}
        for name in ("default", *summary.quality)
        if name in summary.settings.curricula
    }
    stopped = any(name in cell.untimed for cell in line for name in times)
    rules = ((limit, f"limit {duration(limit)}"),) if stopped else ()
    panels = _panels(line, times, look)
    for i, name in enumerate(times):
        if name in summary.scaling and len(times[name]) > 1:
            d = np.geomspace(min(times[name]), max(times[name]), 40)
            size = np.full(len(d), float(line[0].size))
            law = Line(d, predict(summary.scaling[name], d, size), "second")
            panels[i] = replace(panels[i], lines=[*panels[i].lines, law])
    caption = (
        f"{clock_name(summary)} of a whole update on the same instances with its 95 % interval; "
        "the others in grey. Dashed: the fit t₀ + c·dᵅ·Kᵝ over the whole grid, if there is one."
    )
    title = f"Time per update against d, K = {line[0].size}"
    axes = _axes(line, times, rules, "time per update", duration)
    return PanelPlot("time-d", title, caption, *axes, panels, rules, compared=True, notes=_NOTES)


def ratio_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time ratio to the closed form against d."""
    line, rules = grid_line(summary), ((1.0, REFERENCE),)
    ratios = {
        name: {cell.d: cell.methods[name].ratio for cell in line if name in cell.methods}
        for name in summary.quality
        if name != REFERENCE
    }
    caption = (
        "Ratio of the times per update on the same instances in the same process with its 95 % "
        "interval; the others in grey. A line ends where the curriculum no longer finishes within "
        "the limit."
    )
    title = f"Time relative to {REFERENCE} against d, K = {line[0].size}"
    axes = _axes(line, ratios, rules, f"time / time of {REFERENCE}", factor)
    panels = _panels(line, ratios, look)
    return PanelPlot("ratio-d", title, caption, *axes, panels, rules, compared=True, notes=_NOTES)


_NOTES = (
    "Geometric mean over instances and interleaved blocks; the intervals are for other instances "
    "of the workload."
)
_ByDimension = Mapping[str, Mapping[int, MeanInterval]]


def _axes(
    line: Sequence[CellFinding],
    found: _ByDimension,
    rules: Sequence[tuple[float, str]],
    label: str,
    show: Show,
) -> tuple[Axis, Axis]:
    """Returns two logarithmic axes: d, and what reaches over all intervals and rules."""
    reached = [end for mine in found.values() for m in mine.values() for end in (m.low, m.high)]
    x = Axis.over([cell.d for cell in line], "context dimensions d", log=True, most=1e9)
    y = Axis.over([*reached, *(value for value, _ in rules)], label, log=True, most=1e9)
    return x, replace(y, names=tuple(show(tick).replace(" ", "") for tick in y.ticks))


def _panels(line: Sequence[CellFinding], found: _ByDimension, look: Styles) -> list[Panel]:
    """Draws estimates with their intervals by d, a panel per curriculum."""
    panels = []
    for method, mine in found.items():
        d = np.array(list(mine), dtype=np.float64)
        mean = Line(d, np.array([m.estimate for m in mine.values()]))
        ends = np.array([(m.low, m.high, np.nan) for m in mine.values()]).ravel()
        lines = [mean, replace(mean, kind="dots"), Line(np.repeat(d, 3), ends, "path")]
        stops = [
            f"{cell.untimed[method]} at d = {cell.d}" for cell in line if method in cell.untimed
        ]
        note = stops[0] if stops else ""
        panels.append(Panel(look[method].short, [look[method]], lines, note=note))
    return panels


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
        broken = sum(q.infeasible for q in pooled) / sum(q.updates for q in pooled)
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
