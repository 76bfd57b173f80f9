"""Figures over a common axis: learning curves, profiles, survival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from pacebench.harness.report import words
from pacebench.harness.report.canvas import Canvas
from pacebench.harness.report.palette import Style

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bundle:
    """One method's curves.

    Attributes:
        style: Whose they are.
        x: Where all curves have their values.
        centre: The summary: a mean or a median.
        low: Lower edge of the band; NaN where there is none.
        high: Upper edge of the band; NaN where there is none.
        threads: Runs' own curves by what hovering over them says.
        runs: How many runs are summarised, of which threads may be some.
    """

    style: Style
    x: FloatArray
    centre: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    threads: Mapping[str, FloatArray] = field(default_factory=dict)
    runs: int = 0


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
        for tip, y in bundle.threads.items():
            (line,) = panel.plot(
                bundle.x, y, color=style.colour, alpha=faint, linewidth=0.8, zorder=2, **how
            )
            canvas.mark(line, style, tip)
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


def finish_steps(canvas: Canvas, bundles: Sequence[Bundle], budget: int) -> None:
    """Labels the lowest panel's axis of environment steps, and adds the legend."""
    axes = canvas.all_axes[-1]
    axes.set_xlabel("environment steps")
    axes.set_xlim(0, budget)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.short_count(value)))
    canvas.legend(bundle.style.label for bundle in bundles)
