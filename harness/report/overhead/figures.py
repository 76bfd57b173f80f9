"""Figures of a measurement: time and ratios against d, and quality against speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pacebench.harness.overhead.findings import CellFinding, MeanInterval, OverheadSummary
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.overhead.training import overhead_study
from pacebench.harness.report.canvas import GRID, MUTED, Canvas, Figure
from pacebench.harness.report.overhead.tables import (
    clock_name,
    duration,
    factor,
    percent,
    with_interval,
)
from pacebench.harness.report.palette import Style, styles
from pacebench.harness.report.tables import Show, count

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
    stopped: Counter[int] = Counter()
    title = f"Time per update against d, K = {line[0].size}"
    with Canvas("time-d", title, styles=look, height=3.9) as canvas:
        for name in names:
            style = look[name]
            times = {cell.d: cell.timed[name].time for cell in line if name in cell.timed}
            law = None
            if name in summary.scaling and len(times) > 1:
                d = np.geomspace(min(times), max(times), 80)
                law = d, predict(summary.scaling[name], d, np.full(80, float(line[0].size)))
            _draw(canvas, style, times, duration, law)
            over = [cell.d for cell in line if cell.methods[name].status == "over"]
            if over:
                # Several may stop at the same place: side by side, not one hiding another.
                place = over[0] * 1.22 ** stopped[over[0]]
                stopped[over[0]] += 1
                mark = canvas.axes.plot(
                    place, limit, marker="^", markersize=6, color=style.colour,
                    markerfacecolor="#ffffff", markeredgewidth=1.3, linestyle="", clip_on=False,
                    zorder=4,
                )  # fmt: skip
                canvas.mark(mark, style, f"{name}, d = {over[0]}: more than {limit:g} s")
        if stopped:
            canvas.axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
            canvas.axes.annotate(
                f"limit {limit:g} s", (1, limit), xycoords=("axes fraction", "data"),
                xytext=(0, 5), textcoords="offset points", ha="right", fontsize=8, color=MUTED,
            )  # fmt: skip
        _finish_axes(canvas, "time per update", duration)
        canvas.legend(names)
        return canvas.finish(
            f"{clock_name(summary)} of a whole update on the same instances, geometric mean over "
            f"instances and {summary.settings.blocks} interleaved blocks; bars are 95 % intervals "
            "for other instances of the workload. Lines are the fit t₀ + c·dᵅ·Kᵝ over the whole "
            "grid where there is one. A triangle at the limit stands at the first cell that does "
            "not finish within it."
        )


def ratio_figure(summary: OverheadSummary, look: Styles) -> Figure:
    """Draws the time ratio to the closed form against d."""
    line = grid_line(summary)
    names = [name for name in summary.quality if name != REFERENCE]
    title = f"Time relative to {REFERENCE} against d, K = {line[0].size}"
    with Canvas("ratio-d", title, styles=look, height=3.7) as canvas:
        canvas.axes.axhline(1, color=MUTED, linewidth=0.9)
        for name in names:
            done = {cell.d: cell.timed[name].ratio for cell in line if name in cell.timed}
            ratios = {d: ratio for d, ratio in done.items() if ratio is not None}
            _draw(canvas, look[name], ratios, factor)
        label = f"time / time of {REFERENCE}"
        _finish_axes(canvas, label, lambda v: count(v) if v >= 1 else f"{v:g}")
        canvas.legend(names)
        return canvas.finish(
            "Ratio of the times per update on the same instances in the same process, geometric "
            f"mean over instances and {summary.settings.blocks} blocks; bars are 95 % intervals "
            "for other instances of the workload. A line ends where the curriculum no longer "
            "finishes within the limit."
        )


def _draw(
    canvas: Canvas,
    style: Style,
    found: Mapping[int, MeanInterval],
    show: Show,
    law: tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray] | None = None,
) -> None:
    """Draws estimates with their intervals by d, and a line through them or by a law."""
    axes = canvas.axes
    for d, mean in found.items():
        bar = axes.plot([d, d], [mean.low, mean.high], color=style.colour, linewidth=1.1)
        canvas.mark(bar, style, f"{style.label}, d = {d}: {with_interval(mean, show)}")
    x, y = list(found), [mean.estimate for mean in found.values()]
    points = axes.plot(
        x, y, color=style.colour, marker=style.marker, markersize=4.5, linestyle="", zorder=3
    )
    line = axes.plot(*(law or (x, y)), color=style.colour, linestyle=style.line, linewidth=1.1)
    canvas.mark([*points, *line], style, style.label)


def quality_figure(summary: OverheadSummary, look: Styles) -> Figure | None:
    """Draws each method's optimality gap and infeasible answers against its time per update."""
    cells = [c for c in summary.cells if all(name in c.timed for name in summary.quality)]
    if not cells or not summary.quality:
        return None
    with Canvas("quality", "Quality against speed", styles=look, height=4.6, rows=2) as canvas:
        upper, lower = canvas.all_axes
        for name in summary.quality:
            mine = [cell.timed[name] for cell in cells]
            pooled = [method.quality for method in mine if method.quality is not None]
            x = math.exp(np.mean([math.log(method.time.estimate) for method in mine]))
            gap = float(np.nanmedian([quality.gap_median for quality in pooled]))
            bad = sum(q.infeasible for q in pooled) / sum(q.updates for q in pooled)
            style = look[name]
            for axes, y, what in ((upper, gap, "gap"), (lower, bad, "infeasible")):
                dot = axes.plot(
                    x, y, marker=style.marker, markersize=7, color=style.colour, linestyle="",
                    clip_on=False, zorder=3,
                )  # fmt: skip
                canvas.mark(dot, style, f"{name}: {duration(x)}, {what} {percent(y)}")
        for axes, label in ((upper, "optimality gap"), (lower, "infeasible answers")):
            axes.set(xscale="log", ylabel=label)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
            axes.grid(color=GRID)
        upper.axhline(0, color=MUTED, linewidth=0.9)
        lower.set(ylim=(0, 1), xlabel="time per update")
        _ticks(lower.xaxis, duration)
        canvas.legend(summary.quality)
        return canvas.finish(
            f"Over the {len(cells)} cells in which every method finishes. Above: median optimality "
            "gap in the problem that the method sets out to solve; 0 % is the best feasible answer "
            "of any method, 100 % is not moving at all, below 0 % is what breaking a constraint "
            "buys. Below: share of answers that break the KL budget or fall short of V₋ by more "
            "than 0.1 % of ε or of the values' spread."
        )


def _finish_axes(canvas: Canvas, y: str, show: Show) -> None:
    axes = canvas.axes
    axes.set(xscale="log", yscale="log", xlabel="context dimensions d", ylabel=y)
    axes.grid(color=GRID)
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    _ticks(axes.xaxis, count)
    _ticks(axes.yaxis, show)


def _ticks(axis: Axis, show: Show) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axis.set_minor_locator(NullLocator())
