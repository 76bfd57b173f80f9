"""Figures of a measurement: time and ratios against d, quality against speed, shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pacebench.harness.overhead.findings import (
    CellFinding,
    MeanInterval,
    OverheadSummary,
    TrainingSummary,
)
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.overhead.training import overhead_study
from pacebench.harness.report.canvas import GRID, MUTED, Canvas, Figure
from pacebench.harness.report.figures.rows import label_rows
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


def all_figures(summary: OverheadSummary) -> dict[str, Figure]:
    """Returns every figure that the findings allow, by name."""
    look = styles_of(summary)
    cells = [cell for cell in summary.cells if cell.kind == "synthetic"]
    size = min({cell.size for cell in cells}, key=lambda k: abs(math.log(k / 64)))
    line = sorted((cell for cell in cells if cell.size == size), key=lambda cell: cell.d)
    found = [time_figure(summary, line, look), ratio_figure(summary, line, look)]
    judged = [c for c in summary.cells if all(name in c.timed for name in summary.quality)]
    if judged and summary.quality:
        found.append(quality_figure(judged, list(summary.quality), look))
    if summary.training is not None:
        found.append(share_figure(summary.training, look))
    return {figure.name: figure for figure in found}


def time_figure(summary: OverheadSummary, line: Sequence[CellFinding], look: Styles) -> Figure:
    """Draws the time per update against d, both axes logarithmic."""
    # The self-paced curricula and one control.
    names = [n for n in summary.settings.curricula if n in summary.quality or n == "default"]
    limit = summary.settings.limit
    stopped: Counter[int] = Counter()
    title = f"Time per update against d, K = {line[0].size}"
    with Canvas("time-d", title, styles=look, height=3.9) as canvas:
        axes = canvas.axes
        for name in names:
            style = look[name]
            times = {cell.d: cell.timed[name].time for cell in line if name in cell.timed}
            _points(canvas, name, times, duration)
            x, y = np.array(list(times)), np.array([time.estimate for time in times.values()])
            if name in summary.scaling and len(times) > 1:
                x = np.geomspace(x[0], x[-1], 80)
                y = predict(summary.scaling[name], x, np.full(80, float(line[0].size)))
            law = axes.plot(
                x, y, color=style.colour, linestyle=style.line, linewidth=1.0, alpha=0.75
            )
            canvas.mark(law, style)
            over = [cell.d for cell in line if cell.methods[name].status == "over"]
            if over:
                # Several may stop at the same place: side by side, not one hiding another.
                place = over[0] * 1.22 ** stopped[over[0]]
                stopped[over[0]] += 1
                mark = axes.plot(
                    place, limit, marker="^", markersize=6, color=style.colour,
                    markerfacecolor="#ffffff", markeredgewidth=1.3, linestyle="", clip_on=False,
                    zorder=4,
                )  # fmt: skip
                canvas.mark(mark, style, f"{name}, d = {over[0]}: more than {limit:g} s")
        if stopped:
            axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.annotate(
                f"limit {limit:g} s", (1, limit), xycoords=("axes fraction", "data"),
                xytext=(0, 5), textcoords="offset points", ha="right", fontsize=8, color=MUTED,
            )  # fmt: skip
        _log_axes(axes, "time per update", duration)
        canvas.legend(names)
        fits = "; ".join(
            f"`{name}` d^{fit.d.estimate:.2f}" + (f" K^{fit.size.estimate:.2f}" if fit.size else "")
            for name, fit in summary.scaling.items()
            if name in names
        )
        law_words = f"are the fit t₀ + c·dᵅ·Kᵝ over the whole grid: {fits}" if fits else "join them"
        return canvas.finish(
            f"{clock_name(summary)} of a whole update on the same instances, geometric mean over "
            f"instances and {summary.settings.blocks} interleaved blocks; bars are 95 % intervals "
            f"for other instances of the workload. Thin lines {law_words}. A triangle at the limit "
            "stands at the first cell that does not finish within it."
        )


def ratio_figure(summary: OverheadSummary, line: Sequence[CellFinding], look: Styles) -> Figure:
    """Draws the time ratio to the closed form against d."""
    names = [name for name in summary.quality if name != REFERENCE]
    title = f"Time relative to {REFERENCE} against d, K = {line[0].size}"
    with Canvas("ratio-d", title, styles=look, height=3.7) as canvas:
        axes = canvas.axes
        axes.axhline(1, color=MUTED, linewidth=0.9)
        for name in names:
            done = {cell.d: cell.timed[name].ratio for cell in line if name in cell.timed}
            ratios = {d: ratio for d, ratio in done.items() if ratio is not None}
            _points(canvas, name, ratios, factor)
            path = axes.plot(
                list(ratios), [ratio.estimate for ratio in ratios.values()],
                color=look[name].colour, linestyle=look[name].line,
            )  # fmt: skip
            canvas.mark(path, look[name], name)
        _log_axes(axes, f"time / time of {REFERENCE}", lambda v: count(v) if v >= 1 else f"{v:g}")
        canvas.legend(names)
        return canvas.finish(
            "Ratio of the times per update on the same instances in the same process, geometric "
            f"mean over instances and {summary.settings.blocks} blocks; bars are 95 % intervals "
            "for other instances of the workload. A line ends where the curriculum no longer "
            "finishes within the limit."
        )


def _points(canvas: Canvas, name: str, found: Mapping[int, MeanInterval], show: Show) -> None:
    """Draws estimates with their intervals, by place; the page shows their numbers."""
    style = canvas.styles[name]
    for x, mean in found.items():
        bar = canvas.axes.plot([x, x], [mean.low, mean.high], color=style.colour, linewidth=1.1)
        canvas.mark(bar, style, f"{name}, {x}: {with_interval(mean, show)}")
    points = canvas.axes.plot(
        list(found), [mean.estimate for mean in found.values()], color=style.colour,
        marker=style.marker, markersize=4.5, linestyle="", zorder=3,
    )  # fmt: skip
    canvas.mark(points, style, name)


def quality_figure(cells: Sequence[CellFinding], names: Sequence[str], look: Styles) -> Figure:
    """Draws each method's optimality gap and infeasible answers against its time per update."""
    with Canvas("quality", "Quality against speed", styles=look, height=4.6, rows=2) as canvas:
        upper, lower = canvas.all_axes
        for name in names:
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
            axes.set_xscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
            axes.set_ylabel(label)
            axes.grid(color=GRID)
        upper.axhline(0, color=MUTED, linewidth=0.9)
        lower.set_ylim(0, 1)
        _ticks(lower.xaxis, duration)
        lower.set_xlabel("time per update")
        canvas.legend(names)
        return canvas.finish(
            f"Over the {len(cells)} cells in which every method finishes. Above: median optimality "
            "gap in the problem that the method sets out to solve; 0 % is the best feasible answer "
            "of any method, 100 % is not moving at all, below 0 % is what breaking a constraint "
            "buys. Below: share of answers that break the KL budget or fall short of V₋ by more "
            "than 0.1 % of ε or of the values' spread."
        )


def share_figure(training: TrainingSummary, look: Styles) -> Figure:
    """Draws the curriculum's share of training time."""
    names = list(training.methods)
    height = 1.35 + 0.32 * len(names)
    with Canvas("share", "Share of training time", styles=look, height=height) as canvas:
        axes = canvas.axes
        for i, (name, found) in enumerate(training.methods.items()):
            share, style = found.share, look[name]
            bar = axes.plot([share.low, share.high], [i, i], color=style.colour, linewidth=2)
            dot = axes.plot(share.estimate, i, marker=style.marker, color=style.colour)
            canvas.mark([*bar, *dot], style, f"{name}: {with_interval(share, percent)}")
            axes.annotate(
                percent(share.estimate), (share.high, i), xytext=(7, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
        label_rows(canvas, names, [look[name] for name in names])
        axes.set_xscale("log")
        axes.set_xlim(right=max(axes.get_xlim()[1], 1.0))
        _ticks(axes.xaxis, percent)
        axes.set_xlabel("curriculum / (rollout + policy + curriculum)")
        axes.grid(axis="x", color=GRID)
        return canvas.finish(
            f"Instrumented training on {training.setup}, {training.env_steps} environment "
            f"steps, {training.seeds} seeds, one run at a time on one thread; geometric mean "
            "with 95 % t interval over seeds. The share depends on what the rest costs: a slower "
            "environment makes every curriculum cheaper."
        )


def _log_axes(axes: Axes, y: str, show: Show) -> None:
    axes.set(xscale="log", yscale="log", xlabel="context dimensions d", ylabel=y)
    axes.grid(color=GRID)
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    _ticks(axes.xaxis, count)
    _ticks(axes.yaxis, show)


def _ticks(axis: Axis, show: Show) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axis.set_minor_locator(NullLocator())
