"""Figures over a common axis: learning curves, profiles, survival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from pacebench.harness.report.canvas import Canvas
from pacebench.harness.report.palette import Style
from pacebench.harness.statistics.profiles import Band
from pacebench.harness.statistics.survival import SurvivalCurve

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Thread:
    """One run's own curve, and what hovering over it says."""

    x: FloatArray
    y: FloatArray
    tip: str


@dataclass(frozen=True)
class Bundle:
    """One method's curves.

    Attributes:
        style: Whose they are.
        x: Where the summary is.
        centre: The summary: a mean or a median.
        low: Lower edge of the band; NaN where there is none.
        high: Upper edge of the band; NaN where there is none.
        threads: Every run's own curve.
        runs: How many runs are summarised, of which threads may be some.
    """

    style: Style
    x: FloatArray
    centre: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    threads: Sequence[Thread] = field(default_factory=tuple)
    runs: int = 0

    @classmethod
    def of_band(cls, style: Style, band: Band, threads: Sequence[Thread] = ()) -> Bundle:
        """Returns a bundle around a band of the statistics."""
        return cls(style, band.grid, band.centre, band.low, band.high, threads)


def draw_bundles(
    canvas: Canvas, bundles: Sequence[Bundle], axes: Axes | None = None, *, steps: bool = False
) -> None:
    """Draws every method's summary, band and runs.

    Args:
        canvas: What is drawn on.
        bundles: One per method.
        axes: The panel; the first if not given.
        steps: Whether the curves are constant between their points.
    """
    panel = canvas.axes if axes is None else axes
    how: dict[str, Any] = {"drawstyle": "steps-post"} if steps else {}
    panel.grid(axis="y")
    # Many bands over each other would leave one grey.
    shade = 0.14 * min(1.0, 5 / max(len(bundles), 1))
    for bundle in bundles:
        style = bundle.style
        # A hundred runs as dark as twenty would hide the mean among them.
        faint = 0.22 * min(1.0, 20 / max(len(bundle.threads), 1))
        for thread in bundle.threads:
            (line,) = panel.plot(
                thread.x, thread.y, color=style.colour, alpha=faint, linewidth=0.8, zorder=2, **how
            )
            canvas.mark(line, style, thread.tip)
        if bundle.low is not None and bundle.high is not None and bundle.x.size > 1:
            fill = panel.fill_between(
                bundle.x, bundle.low, bundle.high, color=style.colour, alpha=shade, linewidth=0,
                zorder=3, step="post" if steps else None,
            )  # fmt: skip
            canvas.mark(fill, style)
        few = bundle.x.size <= 30 and not steps
        (line,) = panel.plot(
            bundle.x, bundle.centre, color=style.colour, linestyle=style.line, zorder=4,
            marker=style.marker if few else None, markersize=4, markeredgecolor="#ffffff",
            markeredgewidth=0.5, **how,
        )  # fmt: skip
        canvas.mark(line, style, style.label)


def survival_bundle(style: Style, curve: SurvivalCurve) -> Bundle:
    """Returns the share of runs that have reached the threshold, from the share that has not."""
    # The last level holds up to the end of training.
    x = np.append(curve.steps, curve.horizon)
    share, low, high = (
        1 - np.append(part, part[-1]) for part in (curve.share, curve.high, curve.low)
    )
    return Bundle(style, x, share, low, high)


def step_axis(axes: Axes, budget: int) -> None:
    """Labels a horizontal axis of environment steps."""
    axes.set_xlabel("environment steps")
    axes.set_xlim(0, budget)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def short_count(value: float) -> str:
    """Returns a number of steps in the fewest characters: 250k, 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}"


def carried_forward(
    runs: Sequence[tuple[FloatArray, FloatArray]], grid: FloatArray
) -> NDArray[np.float64]:
    """Returns each run's last value at or before every grid point, NaN before its first.

    Args:
        runs: Positions (ascending) and values of each run.
        grid: Where they are wanted.
    """
    table = np.full((len(runs), grid.size), np.nan)
    for row, (x, y) in zip(table, runs, strict=True):
        at = np.searchsorted(x, grid, side="right") - 1
        row[at >= 0] = y[at[at >= 0]]
    return table


def percentiles(
    table: FloatArray, levels: tuple[float, float, float] = (5, 50, 95)
) -> Mapping[str, FloatArray]:
    """Returns percentiles over runs at each grid point, NaN where no run has a value yet."""
    some = ~np.isnan(table).all(axis=0)
    found = {name: np.full(table.shape[1], np.nan) for name in ("low", "centre", "high")}
    if some.any():
        values = np.nanpercentile(table[:, some], levels, axis=0)
        for name, value in zip(found, values, strict=True):
            found[name][some] = value
    return found
