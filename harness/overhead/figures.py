"""Figures of a measurement: time against d and K, ratios, quality against speed, shares, scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pacebench.harness.overhead.scaling import predict
from pacebench.harness.overhead.words import clock_name, duration, factor, percent
from pacebench.harness.report.canvas import GRID, MUTED, Canvas, Figure
from pacebench.harness.report.palette import Style, styles
from pacebench.harness.report.tables import MINUS
from pacebench.harness.study.models import Study

Finding = dict[str, Any]
Styles = Mapping[str, Style]


def styles_of(summary: Finding) -> dict[str, Style]:
    """Returns the look of every curriculum, the same as in any report."""
    study = Study.model_validate(
        {
            "name": "overhead",
            "question": "What does the curriculum cost?",
            "curricula": summary["settings"]["curricula"],
            "setups": ["point-mass-2"],
            "seeds": {"count": 10},
            "budget": 1,
        }
    )
    return styles(study)


def shown_names(summary: Finding) -> list[str]:
    """Returns the curricula that figures show: the self-paced ones and one control."""
    return [
        n for n in summary["settings"]["curricula"] if n in summary["quality"] or n == "default"
    ]


def all_figures(summary: Finding) -> list[Figure]:
    """Returns every figure that the findings allow."""
    look = styles_of(summary)
    names = shown_names(summary)
    found = [
        time_figure(summary, look, names, "d"),
        time_figure(summary, look, names, "size"),
        ratio_figure(summary, look, names),
        quality_figure(summary, look),
    ]
    if summary["training"]:
        found += [
            share_figure(summary["training"], look),
            score_figure(summary["training"], look, "grid"),
            score_figure(summary["training"], look, "clock"),
        ]
    return [figure for figure in found if figure is not None]


def _grid_line(summary: Finding, along: str) -> tuple[list[Finding], int]:
    """Returns the synthetic cells of one line of the grid, and the coordinate that is fixed."""
    other, wanted = ("size", 64) if along == "d" else ("d", 100)
    cells = [cell for cell in summary["cells"] if cell["kind"] == "synthetic"]
    fixed = min({cell[other] for cell in cells}, key=lambda v: abs(math.log(v / wanted)))
    line = [cell for cell in cells if cell[other] == fixed]
    return sorted(line, key=lambda cell: int(cell[along])), fixed


def time_figure(summary: Finding, look: Styles, names: Sequence[str], along: str) -> Figure:
    """Draws the time per update against d or K, both axes logarithmic."""
    line, fixed = _grid_line(summary, along)
    other = "K" if along == "d" else "d"
    axis = "context dimensions d" if along == "d" else "contexts per update K"
    limit = float(summary["settings"]["limit"])
    title = f"Time per update against {'d' if along == 'd' else 'K'}, {other} = {fixed}"
    stopped: Counter[int] = Counter()
    with Canvas(f"time-{'d' if along == 'd' else 'k'}", title, styles=look, height=3.9) as canvas:
        axes = canvas.axes
        for name in names:
            done = [cell for cell in line if cell["methods"][name]["status"] == "ok"]
            _measured(canvas, axes, done, name, look[name], along)
            _fitted(canvas, axes, summary, name, look[name], along, done, fixed)
            over = [cell for cell in line if cell["methods"][name]["status"] == "over"]
            if over:
                first = over[0]
                # Several may stop at the same place: side by side, not one hiding another.
                place = first[along] * 1.22 ** stopped[first[along]]
                stopped[first[along]] += 1
                mark = axes.plot(
                    place, limit, marker=6, markersize=8, color=look[name].colour,
                    markerfacecolor="#ffffff", markeredgewidth=1.3, linestyle="", clip_on=False,
                    zorder=4,
                )  # fmt: skip
                tip = f"{name}, {axis} {first[along]}: more than {limit:g} s"
                canvas.mark(mark, look[name], tip)
        if stopped:
            axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.annotate(
                f"limit {limit:g} s", (1, limit), xycoords=("axes fraction", "data"),
                xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8, color=MUTED,
            )  # fmt: skip
        _log_axes(axes, axis, "time per update", duration)
        if along == "size":
            axes.set_xticks([cell["size"] for cell in line])
        canvas.legend(names)
        blocks = summary["settings"]["blocks"]
        fits = "; ".join(
            f"`{name}` d^{fit['d']['estimate']:.2f}"
            + (f" K^{fit['size']['estimate']:.2f}" if fit["size"] else "")
            for name, fit in summary["scaling"].items()
            if name in names
        )
        return canvas.finish(
            f"{clock_name(summary)} of one update on the same instances, geometric mean over "
            f"{blocks} interleaved blocks; bars are 95 % t intervals. Thin lines are the "
            f"fit t₀ + c·dᵅ·Kᵝ over the whole grid: {fits}. A triangle at the limit stands at the "
            "first cell that does not finish within it."
        )


def _measured(
    canvas: Canvas, axes: Axes, cells: Sequence[Finding], name: str, style: Style, along: str
) -> None:
    for cell in cells:
        found = cell["methods"][name]["time"]
        ends = [[found["estimate"] - found["low"]], [found["high"] - found["estimate"]]]
        _, _, bars = axes.errorbar(
            cell[along], found["estimate"], yerr=ends, color=style.colour, elinewidth=1.1
        )
        canvas.mark(bars, style)
    points = axes.plot(
        [cell[along] for cell in cells],
        [cell["methods"][name]["time"]["estimate"] for cell in cells],
        color=style.colour, marker=style.marker, markersize=4.5, linestyle="", zorder=3,
    )  # fmt: skip
    canvas.mark(points, style, name)


def _fitted(
    canvas: Canvas, axes: Axes, summary: Finding, name: str, style: Style, along: str,
    cells: Sequence[Finding], fixed: int,
) -> None:  # fmt: skip
    if name not in summary["scaling"] or len(cells) < 2:
        x = np.array([cell[along] for cell in cells], dtype=np.float64)
        y = np.array([cell["methods"][name]["time"]["estimate"] for cell in cells])
    else:
        x = np.geomspace(cells[0][along], cells[-1][along], 80)
        pair = (x, np.full_like(x, fixed)) if along == "d" else (np.full_like(x, fixed), x)
        y = predict(np.array(summary["scaling"][name]["curve"]), *pair)
    canvas.mark(
        axes.plot(x, y, color=style.colour, linestyle=style.line, linewidth=1.0, alpha=0.75), style
    )


def ratio_figure(summary: Finding, look: Styles, names: Sequence[str]) -> Figure:
    """Draws the time ratio to the closed form against d."""
    line, fixed = _grid_line(summary, "d")
    chosen = [name for name in names if name not in ("default", "spgl")]
    with Canvas(
        "ratio-d", f"Time relative to spgl against d, K = {fixed}", styles=look, height=3.7
    ) as canvas:
        axes = canvas.axes
        axes.axhline(1, color=MUTED, linewidth=0.9)
        for name in chosen:
            style = look[name]
            done = [cell for cell in line if cell["methods"][name]["status"] == "ok"]
            found = [cell["methods"][name]["ratio"] for cell in done]
            x = [cell["d"] for cell in done]
            y = [r["estimate"] for r in found]
            for at, r in zip(x, found, strict=True):
                bar = axes.plot([at, at], [r["low"], r["high"]], color=style.colour, linewidth=1.1)
                tip = f"{name}, d = {at}: {factor(r['estimate'])} "
                canvas.mark(bar, style, f"{tip}({factor(r['low'])} to {factor(r['high'])})")
            drawn = axes.plot(
                x, y, color=style.colour, linestyle=style.line, marker=style.marker, markersize=4.5
            )
            canvas.mark(drawn, style, name)
        _log_axes(axes, "context dimensions d", "time / time of spgl", lambda v: f"{v:g}")
        canvas.legend(chosen)
        return canvas.finish(
            f"Ratio of the times per update on the same instances in the same process, geometric "
            f"mean over {summary['settings']['blocks']} blocks; bars are 95 % paired t intervals. "
            "A line ends where the curriculum no longer finishes within the limit."
        )


def quality_figure(summary: Finding, look: Styles) -> Figure | None:
    """Draws each method's optimality gap and infeasible answers against its time per update."""
    cells = [
        cell
        for cell in summary["cells"]
        if all("quality" in cell["methods"][name] for name in summary["quality"])
    ]
    if not cells:
        return None
    names = list(summary["quality"])
    with Canvas("quality", "Quality against speed", styles=look, height=4.6, rows=2) as canvas:
        upper, lower = canvas.all_axes
        for name in names:
            taken = [cell["methods"][name]["time"]["estimate"] for cell in cells]
            pooled = [cell["methods"][name]["quality"] for cell in cells]
            if not taken:
                continue
            x = float(np.exp(np.mean(np.log(taken))))
            gaps = [q["gap_median"] for q in pooled if q["gap_median"] is not None]
            bad = sum(q["infeasible"] for q in pooled) / sum(q["updates"] for q in pooled)
            gap = float(np.median(gaps)) if gaps else math.nan
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
        lower.xaxis.set_major_formatter(FuncFormatter(lambda v, _: duration(v)))
        lower.xaxis.set_minor_locator(NullLocator())
        lower.set_xlabel("time per update")
        canvas.legend(names)
        return canvas.finish(
            f"Over the {len(cells)} cells in which every method finishes. Above: median optimality "
            "gap in the problem that the method sets out to solve; 0 % is the best feasible answer "
            "of any method, 100 % is not moving at all, below 0 % is what breaking a constraint "
            "buys. Below: share of answers that break the KL budget or fall short of V₋ by more "
            "than 0.1 % of ε or of the values' spread."
        )


def share_figure(training: Finding, look: Styles) -> Figure:
    """Draws the curriculum's share of training time."""
    methods = training["methods"]
    height = 1.35 + 0.32 * len(methods)
    with Canvas("share", "Share of training time", styles=look, height=height) as canvas:
        axes = canvas.axes
        for i, (name, found) in enumerate(methods.items()):
            share, style = found["share"], look[name]
            tip = f"{name}: {percent(share['estimate'])}"
            canvas.mark(
                axes.plot([share["low"], share["high"]], [i, i], color=style.colour, linewidth=2),
                style,
            )
            canvas.mark(
                axes.plot(share["estimate"], i, marker=style.marker, color=style.colour), style, tip
            )
            axes.annotate(
                percent(share["estimate"]), (share["high"], i), xytext=(7, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
        axes.set_yticks(range(len(methods)), list(methods))
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.set_xlim(low, max(high, 1.0))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: percent(v)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("curriculum / (rollout + policy + curriculum)")
        axes.grid(axis="x", color=GRID)
        return canvas.finish(
            f"Instrumented training on {training['setup']}, {training['env_steps']} environment "
            f"steps, {training['seeds']} seeds, one run at a time on one thread; geometric mean "
            "with 95 % t interval over seeds. The share depends on what the rest costs: a slower "
            "environment makes every curriculum cheaper."
        )


def score_figure(training: Finding, look: Styles, axis: str) -> Figure:
    """Draws the target return against environment steps or against training seconds."""
    by_time = axis == "clock"
    title = f"Score per {'second' if by_time else 'step'}, {training['setup']}"
    name = f"score-per-{'second' if by_time else 'step'}"
    with Canvas(name, title, styles=look, height=3.4) as canvas:
        axes = canvas.axes
        for method, found in training["methods"].items():
            style = look[method]
            x = found[axis]
            centre = [point["estimate"] for point in found["curve"]]
            low = [point["low"] for point in found["curve"]]
            high = [point["high"] for point in found["curve"]]
            band = axes.fill_between(x, low, high, color=style.colour, alpha=0.12, linewidth=0)
            canvas.mark(band, style)
            canvas.mark(
                axes.plot(x, centre, color=style.colour, linestyle=style.line, marker=style.marker,
                          markersize=3.5), style, method,
            )  # fmt: skip
        if by_time:
            common = training["common_seconds"]
            axes.axvline(common, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
        axes.set_xlabel("training seconds" if by_time else "environment steps")
        axes.set_ylabel("target return")
        axes.set_xlim(left=0)
        axes.grid(color=GRID)
        canvas.legend(list(training["methods"]))
        where = (
            "mean training seconds, evaluation not counted; the dashed line is the mean "
            "time of the quickest curriculum"
            if by_time
            else "environment steps"
        )
        return canvas.finish(
            f"Mean return on the held-out target contexts against {where}. "
            f"{training['seeds']} seeds; bands are pointwise 95 % t intervals."
        )


def _log_axes(axes: Axes, x: str, y: str, show: Any) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color=GRID)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}".replace(",", "\u202f")))
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: show(v)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_locator(NullLocator())


__all__ = ["all_figures", "shown_names", "styles_of"]
