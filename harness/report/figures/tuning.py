"""How a search went: what was tried, what it scored, and where the choice lies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.spatial import Delaunay, QhullError

from pacebench.harness.report.canvas import INK, MUTED, Canvas, Figure
from pacebench.harness.report.palette import Style
from pacebench.harness.tuning.record import SearchRecord, TrialRecord

FloatArray = NDArray[np.float64]

COLOURS = "viridis"
# Trials that a smooth surface needs before it is more than the points themselves.
_SURFACE = 8
# How far the surface may miss a point: a trial is the mean of a few noisy runs.
_SMOOTHING = 0.05
_GRID = 160

WORDS = {
    "epsilon": "ε (nats)",
    "threshold": "V₋ (0 baseline, 1 reference)",
    "std_floor_ratio": "floor on the std (multiples of the target's)",
    "updates": "updates to the target",
}


def word(parameter: str) -> str:
    """Returns how an axis calls a parameter."""
    return WORDS.get(parameter, parameter)


def numeric(search: SearchRecord) -> list[str]:
    """Returns the searched parameters that have a range, in the order of the space."""
    return [name for name, part in search.space.items() if isinstance(part, Mapping)]


def surface_figure(
    name: str,
    searches: Sequence[SearchRecord],
    style: Style,
    styles: Mapping[str, Style],
    limits: tuple[float, float],
    *,
    exploratory: bool,
) -> Figure | None:
    """Draws the scores of all trials over the first one or two searched parameters.

    Args:
        name: Stem of the files.
        searches: The searches of one method on one setup.
        style: The method's look.
        styles: The report's looks.
        limits: Ends of the colour scale, the same for every method of a setup.
        exploratory: Whether the report is watermarked.
    """
    axes_of = numeric(searches[0])[:2]
    tried = [trial for search in searches for trial in search.trials if trial.value is not None]
    if not axes_of or not tried:
        return None
    first = searches[0]
    title = f"Response of {style.short}, {first.setup}"
    with Canvas(name, title, styles=styles, height=3.3, exploratory=exploratory) as canvas:
        axes = canvas.axes
        if len(axes_of) == 2:
            _surface(canvas, axes, tried, first.space, axes_of, limits)
        else:
            _profile(canvas, axes, tried, axes_of[0], limits)
        _landmarks(canvas, axes, searches, style, axes_of)
        for parameter, axis in zip(axes_of, ("x", "y"), strict=False):
            part = first.space[parameter]
            if part.get("log"):
                getattr(axes, f"set_{axis}scale")("log")
                _plain_ticks(axes.xaxis if axis == "x" else axes.yaxis)
            getattr(axes, f"set_{axis}label")(word(parameter))
            getattr(axes, f"set_{axis}lim")(*_margin(part))
        others = [n for n in first.space if n not in axes_of]
        return canvas.finish(_caption(first, len(tried), axes_of, others))


def _plain_ticks(axis: Axis) -> None:
    """Labels a logarithmic axis with numbers instead of powers."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _caption(first: SearchRecord, trials: int, axes_of: list[str], others: list[str]) -> str:
    shade = (
        " The shading smooths them (thin-plate spline) and is no more than a guide."
        if len(axes_of) == 2
        else ""
    )
    own = "Cross" if len(axes_of) == 2 else "Dashed line"
    rest = f" Also searched, and not shown: {', '.join(map(word, others))}." if others else ""
    return (
        f"All {trials} scored trials of {first.method} on {first.setup}; a point is the mean of "
        f"{len(first.trials[0].scores)} tuning runs, which is noisy.{shade} Ring: chosen after "
        f"re-ranking. {own}: the study's own configuration, where it lies in the range.{rest} "
        "Tuning scores choose; they are never results."
    )


def _surface(
    canvas: Canvas,
    axes: Axes,
    tried: Sequence[TrialRecord],
    space: Mapping[str, Any],
    axes_of: Sequence[str],
    limits: tuple[float, float],
) -> None:
    points = np.array([[float(trial.point[n]) for n in axes_of] for trial in tried])
    values = np.array([trial.value for trial in tried], dtype=np.float64)
    scale = Normalize(*limits)
    if len(tried) >= _SURFACE:
        _shade(axes, points, values, space, axes_of, scale)
    for trial, (x, y), value in zip(tried, points, values, strict=True):
        dot = axes.scatter(
            [x], [y], c=[value], cmap=COLOURS, norm=scale, s=34, edgecolors="#ffffff",
            linewidths=0.8, zorder=3,
        )  # fmt: skip
        canvas.mark(dot, None, _tip(trial))
    bar = canvas.figure.colorbar(
        axes.collections[-1], ax=axes, label="score (normalised)", pad=0.02
    )
    bar.outline.set_visible(False)
    # As shapes: the page shows no embedded pictures.
    if bar.solids is not None:
        bar.solids.set_rasterized(False)
        bar.solids.set_edgecolor("face")


def _shade(
    axes: Axes,
    points: FloatArray,
    values: FloatArray,
    space: Mapping[str, Any],
    axes_of: Sequence[str],
    scale: Normalize,
) -> None:
    """Draws the smoothed surface between the trials, and nothing beyond them."""
    parts = [space[name] for name in axes_of]
    unit = np.column_stack([_unit(points[:, i], part) for i, part in enumerate(parts)])
    lines = [np.linspace(0, 1, _GRID)] * 2
    grid = np.stack(np.meshgrid(*lines), axis=-1)
    try:
        hull = Delaunay(unit)
        smooth = RBFInterpolator(unit, values, smoothing=_SMOOTHING)
        found = smooth(grid.reshape(-1, 2)).reshape(_GRID, _GRID)
    except (QhullError, np.linalg.LinAlgError):  # all trials on a line
        return
    found[hull.find_simplex(grid) < 0] = np.nan
    x, y = (_back(line, part) for line, part in zip(lines, parts, strict=True))
    levels = np.linspace(scale.vmin or 0.0, scale.vmax or 1.0, 13)
    axes.contourf(x, y, found, levels=levels, cmap=COLOURS, norm=scale, alpha=0.45, extend="both")


def _profile(
    canvas: Canvas,
    axes: Axes,
    tried: Sequence[TrialRecord],
    parameter: str,
    limits: tuple[float, float],
) -> None:
    axes.grid(axis="y")
    for trial in tried:
        (dot,) = axes.plot(
            float(trial.point[parameter]), float(trial.value or 0.0), "o", color=MUTED,
            markersize=5.5, markeredgecolor="#ffffff", markeredgewidth=0.8,
        )  # fmt: skip
        canvas.mark(dot, None, _tip(trial))
    axes.set_ylabel("score (normalised)")
    room = 0.06 * (limits[1] - limits[0])
    axes.set_ylim(limits[0] - room, limits[1] + room)


def _landmarks(
    canvas: Canvas,
    axes: Axes,
    searches: Sequence[SearchRecord],
    style: Style,
    axes_of: Sequence[str],
) -> None:
    """Rings the chosen trials and crosses the study's own configuration."""
    for search in searches:
        chosen = next(trial for trial in search.trials if trial.number == search.chosen)
        spot = [float(chosen.point[n]) for n in axes_of]
        if len(spot) == 1:
            spot.append(float(chosen.value or 0.0))
        (ring,) = axes.plot(
            *spot, "o", markersize=12, fillstyle="none", color=style.colour, markeredgewidth=2,
            zorder=5,
        )  # fmt: skip
        canvas.mark(ring, style, f"chosen, search {search.replicate + 1}: {_tip(chosen)}")
    own = searches[0].own
    if len(axes_of) == 2 and all(n in own for n in axes_of):
        (cross,) = axes.plot(
            *(own[n] for n in axes_of), "X", color=INK, markersize=8.5, markeredgecolor="#ffffff",
            markeredgewidth=0.9, zorder=4,
        )  # fmt: skip
        canvas.mark(cross, None, "the study's own configuration")
    elif len(axes_of) == 1 and axes_of[0] in own:
        line = axes.axvline(own[axes_of[0]], color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
        canvas.mark(line, None, "the study's own configuration")


def history_figure(
    name: str,
    searches: Sequence[SearchRecord],
    styles: Mapping[str, Style],
    look: Mapping[str, Style],
    *,
    exploratory: bool,
) -> Figure:
    """Draws every trial in its order, and the best so far, for the searches on one setup."""
    setup = searches[0].setup
    with Canvas(
        name, f"Searches on {setup}", styles=styles, height=3.4, exploratory=exploratory
    ) as canvas:
        axes = canvas.axes
        axes.grid(axis="y")
        for search in searches:
            style = look[search.method]
            known = [(t, t.value) for t in search.trials if t.value is not None]
            best = list(accumulate((value for _, value in known), max))
            for trial, value in known:
                (dot,) = axes.plot(
                    trial.number + 1, value, marker=style.marker, color=style.colour, alpha=0.5,
                    markersize=4, linestyle="none",
                )  # fmt: skip
                canvas.mark(dot, style, f"{search.method}, {_tip(trial)}")
            (line,) = axes.plot(
                [trial.number + 1 for trial, _ in known], best, color=style.colour,
                linestyle=style.line, drawstyle="steps-post",
            )  # fmt: skip
            canvas.mark(line, style, f"best so far: {search.method}")
        axes.set_xlabel("trial")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("score (normalised)")
        methods = list(dict.fromkeys(search.method for search in searches))
        chosen = [look[method] for method in methods]
        handles = [
            Line2D([], [], color=s.colour, linestyle=s.line, marker=s.marker, markersize=4.5)
            for s in chosen
        ]
        canvas.figure.legend(
            handles, methods, loc="outside lower center", ncols=min(3, len(methods))
        )
        return canvas.finish(
            f"Every trial (points) and the best so far (lines) on {setup}. The best of many noisy "
            "scores is lucky as well as good; the optimism gap in the table says by how much."
        )


def score_limits(searches: Sequence[SearchRecord]) -> tuple[float, float]:
    """Returns the range of all trials' scores, widened where it is a point."""
    values = [t.value for s in searches for t in s.trials if t.value is not None] or [0.0]
    low, high = min(values), max(values)
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _tip(trial: TrialRecord) -> str:
    point = ", ".join(
        f"{k} = {v:.3g}" if isinstance(v, float) else f"{k} = {v}" for k, v in trial.point.items()
    )
    value = "no score" if trial.value is None else f"{trial.value:.3f}"
    return f"trial {trial.number + 1}: {point}: {value} ({trial.state.lower()})"


def _unit(values: FloatArray, part: Mapping[str, Any]) -> FloatArray:
    low, high = float(part["low"]), float(part["high"])
    if part.get("log"):
        return np.asarray(np.log(values / low) / math.log(high / low))
    return (values - low) / (high - low)


def _back(unit: FloatArray, part: Mapping[str, Any]) -> FloatArray:
    low, high = float(part["low"]), float(part["high"])
    if part.get("log"):
        return np.asarray(low * (high / low) ** unit)
    return low + unit * (high - low)


def _margin(part: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the ends of an axis, a little beyond the range."""
    low, high = _back(np.array([-0.04, 1.04]), part)
    return float(low), float(high)
