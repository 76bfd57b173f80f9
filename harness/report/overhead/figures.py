"""Figures of a measurement: time against d and K, ratios, quality against speed, shares, scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

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
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.overhead.training import overhead_study
from pacebench.harness.report.canvas import GRID, MUTED, Canvas, Figure
from pacebench.harness.report.overhead.formats import duration, factor, percent, with_interval
from pacebench.harness.report.overhead.tables import clock_name
from pacebench.harness.report.palette import Style, styles
from pacebench.harness.report.tables import MINUS, Show, count

Styles = Mapping[str, Style]
Coordinate = Literal["d", "size"]


def styles_of(summary: OverheadSummary) -> dict[str, Style]:
    """Returns the look of every curriculum, the same as in any report."""
    return styles(overhead_study(summary.settings.curricula))


def all_figures(summary: OverheadSummary) -> dict[str, Figure]:
    """Returns every figure that the findings allow, by name."""
    look = styles_of(summary)
    # The self-paced curricula and one control.
    names = [n for n in summary.settings.curricula if n in summary.quality or n == "default"]
    found = [
        time_figure(summary, look, names, "d"),
        time_figure(summary, look, names, "size"),
        ratio_figure(summary, look, names),
    ]
    judged = [c for c in summary.cells if all(name in c.timed for name in summary.quality)]
    if judged and summary.quality:
        found.append(quality_figure(judged, list(summary.quality), look))
    if summary.training is not None:
        found.append(share_figure(summary.training, look))
        found.append(score_figure(summary.training, look, by_time=False))
        found.append(score_figure(summary.training, look, by_time=True))
    return {figure.name: figure for figure in found}


def _grid_line(summary: OverheadSummary, along: Coordinate) -> tuple[list[CellFinding], int]:
    """Returns the synthetic cells of one line of the grid, and the coordinate that is fixed."""
    other: Coordinate = "size" if along == "d" else "d"
    wanted = 64 if along == "d" else 100
    cells = [cell for cell in summary.cells if cell.kind == "synthetic"]
    fixed = min({_at(cell, other) for cell in cells}, key=lambda v: abs(math.log(v / wanted)))
    line = [cell for cell in cells if _at(cell, other) == fixed]
    return sorted(line, key=lambda cell: _at(cell, along)), fixed


def _at(cell: CellFinding, along: Coordinate) -> int:
    return cell.d if along == "d" else cell.size


def time_figure(
    summary: OverheadSummary, look: Styles, names: Sequence[str], along: Coordinate
) -> Figure:
    """Draws the time per update against d or K, both axes logarithmic."""
    line, fixed = _grid_line(summary, along)
    symbol, other = ("d", "K") if along == "d" else ("K", "d")
    axis = "context dimensions d" if along == "d" else "contexts per update K"
    limit = summary.settings.limit
    title = f"Time per update against {symbol}, {other} = {fixed}"
    stopped: Counter[int] = Counter()
    with Canvas(f"time-{symbol.lower()}", title, styles=look, height=3.9) as canvas:
        axes = canvas.axes
        for name in names:
            style = look[name]
            done = [cell for cell in line if name in cell.timed]
            times = {_at(cell, along): cell.timed[name].time for cell in done}
            _points(canvas, name, times, duration)
            fit = axes.plot(
                *_law(summary, name, done, along), color=style.colour, linestyle=style.line,
                linewidth=1.0, alpha=0.75,
            )  # fmt: skip
            canvas.mark(fit, style)
            over = [_at(cell, along) for cell in line if cell.methods[name].status == "over"]
            if over:
                # Several may stop at the same place: side by side, not one hiding another.
                place = over[0] * 1.22 ** stopped[over[0]]
                stopped[over[0]] += 1
                mark = axes.plot(
                    place, limit, marker="^", markersize=6, color=style.colour,
                    markerfacecolor="#ffffff", markeredgewidth=1.3, linestyle="", clip_on=False,
                    zorder=4,
                )  # fmt: skip
                canvas.mark(mark, style, f"{name}, {axis} {over[0]}: more than {limit:g} s")
        if stopped:
            axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.annotate(
                f"limit {limit:g} s", (1, limit), xycoords=("axes fraction", "data"),
                xytext=(0, 5), textcoords="offset points", ha="right", fontsize=8, color=MUTED,
            )  # fmt: skip
        _log_axes(axes, axis, "time per update", duration)
        if along == "size":
            axes.set_xticks([cell.size for cell in line])
        canvas.legend(names)
        fits = "; ".join(
            f"`{name}` d^{fit.d.estimate:.2f}" + (f" K^{fit.size.estimate:.2f}" if fit.size else "")
            for name, fit in summary.scaling.items()
            if name in names
        )
        law = f"are the fit t₀ + c·dᵅ·Kᵝ over the whole grid: {fits}" if fits else "join the points"
        return canvas.finish(
            f"{clock_name(summary)} of one update on the same instances, geometric mean over "
            f"{summary.settings.blocks} interleaved blocks; bars are 95 % t intervals. Thin lines "
            f"{law}. A triangle at the limit stands at the first cell that does not finish within "
            "it."
        )


def _points(canvas: Canvas, name: str, found: Mapping[int, MeanInterval], show: Show) -> None:
    """Draws estimates with their intervals, by place; the page shows their numbers."""
    style = canvas.styles[name]
    for x, mean in found.items():
        bar = canvas.axes.plot([x, x], [mean.low, mean.high], color=style.colour, linewidth=1.1)
        canvas.mark(bar, style, f"{name}, {x}: {with_interval(mean, show)}")
    estimates = [mean.estimate for mean in found.values()]
    points = canvas.axes.plot(
        list(found), estimates, color=style.colour, marker=style.marker, markersize=4.5,
        linestyle="", zorder=3,
    )  # fmt: skip
    canvas.mark(points, style, name)


def _law(
    summary: OverheadSummary, name: str, cells: Sequence[CellFinding], along: Coordinate
) -> tuple[Floats, Floats]:
    """Returns the fitted law along some cells, or their own times where none was fitted."""
    if name not in summary.scaling or len(cells) < 2:
        times = [cell.timed[name].time.estimate for cell in cells]
        return np.array([float(_at(cell, along)) for cell in cells]), np.array(times)
    first, last = cells[0], cells[-1]
    d, size = np.geomspace((first.d, first.size), (last.d, last.size), 80).T
    return (d if along == "d" else size), predict(summary.scaling[name], d, size)


def ratio_figure(summary: OverheadSummary, look: Styles, names: Sequence[str]) -> Figure:
    """Draws the time ratio to the closed form against d."""
    line, fixed = _grid_line(summary, "d")
    chosen = [name for name in names if name not in ("default", REFERENCE)]
    title = f"Time relative to {REFERENCE} against d, K = {fixed}"
    with Canvas("ratio-d", title, styles=look, height=3.7) as canvas:
        axes = canvas.axes
        axes.axhline(1, color=MUTED, linewidth=0.9)
        for name in chosen:
            done = {cell.d: cell.timed[name].ratio for cell in line if name in cell.timed}
            ratios = {d: ratio for d, ratio in done.items() if ratio is not None}
            _points(canvas, name, ratios, factor)
            path = axes.plot(
                list(ratios), [ratio.estimate for ratio in ratios.values()],
                color=look[name].colour, linestyle=look[name].line,
            )  # fmt: skip
            canvas.mark(path, look[name], name)
        _log_axes(axes, "context dimensions d", f"time / time of {REFERENCE}", _multiple)
        canvas.legend(chosen)
        return canvas.finish(
            f"Ratio of the times per update on the same instances in the same process, geometric "
            f"mean over {summary.settings.blocks} blocks; bars are 95 % paired t intervals. "
            "A line ends where the curriculum no longer finishes within the limit."
        )


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
        shares = FuncFormatter(lambda v, _: f"{100 * v:.0f} %".replace("-", MINUS))
        for axes, label in ((upper, "optimality gap"), (lower, "infeasible answers")):
            axes.set_xscale("log")
            axes.yaxis.set_major_formatter(shares)
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
            shown = percent(share.estimate)
            bar = axes.plot([share.low, share.high], [i, i], color=style.colour, linewidth=2)
            dot = axes.plot(share.estimate, i, marker=style.marker, color=style.colour)
            canvas.mark(bar, style)
            canvas.mark(dot, style, f"{name}: {shown}")
            axes.annotate(
                shown, (share.high, i), xytext=(7, 0), textcoords="offset points", va="center",
                fontsize=8,
            )  # fmt: skip
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
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


def score_figure(training: TrainingSummary, look: Styles, *, by_time: bool) -> Figure:
    """Draws the target return against environment steps or against training seconds."""
    unit = "second" if by_time else "step"
    title = f"Score per {unit}, {training.setup}"
    with Canvas(f"score-per-{unit}", title, styles=look, height=3.4) as canvas:
        axes = canvas.axes
        for name, found in training.methods.items():
            style, x = look[name], found.clock if by_time else found.grid
            low, centre, high = zip(
                *((p.low, p.estimate, p.high) for p in found.curve), strict=True
            )
            band = axes.fill_between(x, low, high, color=style.colour, alpha=0.12, linewidth=0)
            line = axes.plot(
                x, centre, color=style.colour, linestyle=style.line, marker=style.marker,
                markersize=3.5,
            )  # fmt: skip
            canvas.mark(band, style)
            canvas.mark(line, style, name)
        where = "environment steps"
        if by_time:
            axes.axvline(training.common_seconds, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
            where = (
                "mean training seconds, evaluation not counted; the dashed line is the mean "
                "time of the quickest curriculum"
            )
        axes.set_xlabel("training seconds" if by_time else "environment steps")
        _ticks(axes.xaxis, "{:g}".format if by_time else count)
        axes.set_ylabel("target return")
        axes.set_xlim(left=0)
        axes.grid(color=GRID)
        canvas.legend(list(training.methods))
        return canvas.finish(
            f"Mean return on the held-out target contexts against {where}. "
            f"{training.seeds} seeds; bands are pointwise 95 % t intervals."
        )


def _log_axes(axes: Axes, x: str, y: str, show: Show) -> None:
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axes.grid(color=GRID)
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    _ticks(axes.xaxis, count)
    _ticks(axes.yaxis, show)


def _multiple(value: float) -> str:
    return count(value) if value >= 1 else f"{value:g}"


def _ticks(axis: Axis, show: Show) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    axis.set_minor_locator(NullLocator())
