"""How a search went: what was tried, what it scored, and where the choice lies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.spatial import Delaunay, QhullError

from pacebench.harness.report.canvas import INK, MUTED, Canvas, Figure, handle
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.palette import Style
from pacebench.harness.tuning.record import SearchRecord, TrialRecord

FloatArray = NDArray[np.float64]

COLOURS = "viridis"
# Trials that a smooth surface needs before it is more than the points themselves.
_SURFACE = 8
# How far the surface may miss a point: a trial is the mean of a few noisy runs.
_SMOOTHING = 0.05
_GRID = 160

_WORDS = {
    "epsilon": "ε (nats)",
    "threshold": "V₋ (0 baseline, 1 reference)",
    "std_floor_ratio": "floor on the std (multiples of the target's)",
    "updates": "updates to the target",
}


def response_figures(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> list[Figure]:
    """Draws the scores of all trials over what was searched, one figure per method with a range.

    Args:
        data: What the report is made from.
        setup: The setup.
        searches: The searches on it.
        look: How each tuned method looks.
    """
    # One scale of colours for all methods, widened where it is a point.
    values = [t.value for s in searches for t in s.trials if t.value is not None] or [0.0]
    low, high = min(values), max(values)
    limits = (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)
    found = []
    for i, method in enumerate(dict.fromkeys(search.method for search in searches)):
        mine = [search for search in searches if search.method == method]
        found.append(_response(data, f"response-{setup}-{i}", mine, look[method], limits))
    return [figure for figure in found if figure is not None]


def _response(
    data: ReportData,
    name: str,
    searches: Sequence[SearchRecord],
    style: Style,
    limits: tuple[float, float],
) -> Figure | None:
    """Draws one method's trials over the first one or two searched parameters with a range."""
    first = searches[0]
    ranges = {n: part for n, part in first.space.items() if isinstance(part, Mapping)}
    shown = dict(list(ranges.items())[:2])
    tried = [trial for search in searches for trial in search.trials if trial.value is not None]
    if not shown or not tried:
        return None
    with data.canvas(name, f"Response of {style.short}, {first.setup}", height=3.3) as canvas:
        axes = canvas.axes
        if len(shown) == 2:
            _surface(canvas, tried, shown, Normalize(*limits))
        else:
            _profile(canvas, tried, shown, limits)
        _landmarks(canvas, searches, style, shown)
        for (parameter, part), axis in zip(shown.items(), "xy", strict=False):
            if part.get("log"):
                axes.set(**{f"{axis}scale": "log"})
                # Numbers instead of powers.
                ticks = axes.xaxis if axis == "x" else axes.yaxis
                ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                ticks.set_minor_formatter(NullFormatter())
            # A little beyond the range.
            ends = [float(end) for end in _value(np.array([-0.04, 1.04]), part)]
            axes.set(**{f"{axis}label": _WORDS.get(parameter, parameter), f"{axis}lim": ends})
        return canvas.finish(_caption(first, len(tried), shown))


def _caption(first: SearchRecord, trials: int, shown: Mapping[str, Any]) -> str:
    shade = " The shading smooths them (thin-plate spline) and is no more than a guide."
    flat = len(shown) == 2
    others = [_WORDS.get(name, name) for name in first.space if name not in shown]
    rest = f" Also searched, and not shown: {', '.join(others)}." if others else ""
    return (
        f"All {trials} scored trials of {first.method} on {first.setup}; a point is the mean of "
        f"{len(first.trials[0].scores)} tuning runs, which is noisy.{shade if flat else ''} Ring: "
        f"chosen after re-ranking. {'Cross' if flat else 'Dashed line'}: the study's own "
        f"configuration, where it lies in the range.{rest} "
        "Tuning scores choose; they are never results."
    )


def _spot(trial: TrialRecord, shown: Mapping[str, Any]) -> tuple[float, ...]:
    """Returns where a trial is drawn; over a single parameter, its score is the height."""
    place = tuple(float(trial.point[name]) for name in shown)
    return place if len(place) == 2 else (*place, float(trial.value or 0.0))


def _surface(
    canvas: Canvas, tried: Sequence[TrialRecord], shown: Mapping[str, Any], scale: Normalize
) -> None:
    axes = canvas.axes
    points = np.array([_spot(trial, shown) for trial in tried])
    values = np.array([trial.value for trial in tried], dtype=np.float64)
    if len(tried) >= _SURFACE:
        _shade(axes, points, values, list(shown.values()), scale)
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
    axes: Axes, points: FloatArray, values: FloatArray, parts: Sequence[Any], scale: Normalize
) -> None:
    """Draws the smoothed surface between the trials, and nothing beyond them."""
    unit = np.column_stack([_unit(points[:, i], part) for i, part in enumerate(parts)])
    line = np.linspace(0, 1, _GRID)
    grid = np.stack(np.meshgrid(line, line), axis=-1)
    try:
        hull = Delaunay(unit)
        smooth = RBFInterpolator(unit, values, smoothing=_SMOOTHING)
        found = smooth(grid.reshape(-1, 2)).reshape(_GRID, _GRID)
    except (QhullError, np.linalg.LinAlgError):  # all trials on a line
        return
    found[hull.find_simplex(grid) < 0] = np.nan
    x, y = (_value(line, part) for part in parts)
    levels = np.linspace(scale.vmin or 0.0, scale.vmax or 1.0, 13)
    axes.contourf(x, y, found, levels=levels, cmap=COLOURS, norm=scale, alpha=0.45, extend="both")


def _profile(
    canvas: Canvas,
    tried: Sequence[TrialRecord],
    shown: Mapping[str, Any],
    limits: tuple[float, float],
) -> None:
    axes = canvas.axes
    axes.grid(axis="y")
    for trial in tried:
        (dot,) = axes.plot(
            *_spot(trial, shown), "o", color=MUTED, markersize=5.5, markeredgecolor="#ffffff",
            markeredgewidth=0.8,
        )  # fmt: skip
        canvas.mark(dot, None, _tip(trial))
    axes.set_ylabel("score (normalised)")
    room = 0.06 * (limits[1] - limits[0])
    axes.set_ylim(limits[0] - room, limits[1] + room)


def _landmarks(
    canvas: Canvas, searches: Sequence[SearchRecord], style: Style, shown: Mapping[str, Any]
) -> None:
    """Rings the chosen trials and crosses the study's own configuration."""
    axes = canvas.axes
    for search in searches:
        chosen = next(trial for trial in search.trials if trial.number == search.chosen)
        (ring,) = axes.plot(
            *_spot(chosen, shown), "o", markersize=12, fillstyle="none", color=style.colour,
            markeredgewidth=2, zorder=5,
        )  # fmt: skip
        canvas.mark(ring, style, f"chosen, search {search.replicate + 1}: {_tip(chosen)}")
    own = [searches[0].own[name] for name in shown if name in searches[0].own]
    if len(own) < len(shown):
        return
    if len(own) == 2:
        (mark,) = axes.plot(
            *own, "X", color=INK, markersize=8.5, markeredgecolor="#ffffff", markeredgewidth=0.9,
            zorder=4,
        )  # fmt: skip
    else:
        mark = axes.axvline(own[0], color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    canvas.mark(mark, None, "the study's own configuration")


def history_figure(
    data: ReportData, setup: str, searches: Sequence[SearchRecord], look: Mapping[str, Style]
) -> Figure:
    """Draws every trial in its order, and the best so far, for the searches on one setup."""
    with data.canvas(f"tuning-{setup}", f"Searches on {setup}", height=3.4) as canvas:
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
        canvas.figure.legend(
            [handle(look[method]) for method in methods],
            methods,
            loc="outside lower center",
            ncols=min(3, len(methods)),
        )
        return canvas.finish(
            f"Every trial (points) and the best so far (lines) on {setup}. The best of many noisy "
            "scores is lucky as well as good; the optimism gap in the table says by how much."
        )


def value_words(value: Any) -> str:
    """Returns a searched parameter's value."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _tip(trial: TrialRecord) -> str:
    point = ", ".join(f"{name} = {value_words(value)}" for name, value in trial.point.items())
    value = "no score" if trial.value is None else f"{trial.value:.3f}"
    return f"trial {trial.number + 1}: {point}: {value} ({trial.state.lower()})"


def _unit(values: FloatArray, part: Mapping[str, Any]) -> FloatArray:
    """Maps values of a parameter to the share of its range that they lie at."""
    low, high = float(part["low"]), float(part["high"])
    if part.get("log"):
        return np.asarray(np.log(values / low) / math.log(high / low))
    return (values - low) / (high - low)


def _value(unit: FloatArray, part: Mapping[str, Any]) -> FloatArray:
    """Maps shares of a parameter's range back to its values."""
    low, high = float(part["low"]), float(part["high"])
    if part.get("log"):
        return np.asarray(low * (high / low) ** unit)
    return low + unit * (high - low)
