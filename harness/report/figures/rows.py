"""Figures with one row per method or comparison: raw seeds, intervals, contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import blended_transform_factory

from pacebench.harness.report.canvas import MUTED, ZONE, Canvas
from pacebench.harness.report.palette import Style
from pacebench.harness.statistics.interval import Interval


@dataclass(frozen=True)
class Seed:
    """One run's value, and what hovering over it says."""

    value: float
    tip: str
    failed: bool = False


@dataclass(frozen=True)
class Row:
    """One row of a figure.

    Attributes:
        style: Whose row it is.
        text: What stands beside the axis.
        interval: The estimate with its interval; None where none may be given.
        seeds: Raw values, one per training run.
        note: What stands at the right end, e.g. a verdict.
        estimate: The point estimate where there is no interval.
    """

    style: Style
    text: str
    interval: Interval | None
    seeds: Sequence[Seed] = field(default_factory=tuple)
    note: str = ""
    estimate: float | None = None


@dataclass(frozen=True)
class Reference:
    """A vertical line with a word on it."""

    value: float
    text: str


def draw_rows(
    canvas: Canvas,
    rows: Sequence[Row],
    xlabel: str,
    *,
    references: Sequence[Reference] = (),
    zone: tuple[float, float] | None = None,
    include: Sequence[float] = (),
) -> None:
    """Draws the rows from top to bottom on the canvas' first panel.

    Args:
        canvas: What is drawn on.
        rows: The rows.
        xlabel: Label of the axis, with its unit.
        references: Vertical lines.
        zone: A shaded range, e.g. of differences too small to matter.
        include: Values that the axis reaches in any case.
    """
    axes = canvas.axes
    if zone is not None:
        axes.axvspan(*zone, color=ZONE, zorder=0, linewidth=0)
    axes.grid(axis="x")
    for i, row in enumerate(rows):
        raised = 0.16 if row.seeds else 0.0
        _draw_seeds(canvas, row, i + 0.2)
        _draw_interval(canvas, row, i - raised)
        if row.note:
            beside = blended_transform_factory(axes.transAxes, axes.transData)
            note = axes.text(1.02, i, row.note, transform=beside, va="center", fontsize=8.5)
            canvas.mark(note, row.style)
    axes.set_yticks(range(len(rows)), [row.text for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        canvas.mark(label, row.style)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(xlabel)
    if include:
        axes.update_datalim([(value, 0.0) for value in include], updatey=False)
        axes.autoscale_view(scaley=False)
    _draw_references(axes, references)


def height_of(rows: int, per_row: float = 0.42) -> float:
    """Returns the height in inches that so many rows need."""
    return 0.85 + per_row * rows


def _draw_interval(canvas: Canvas, row: Row, y: float) -> None:
    axes, style = canvas.axes, row.style
    if row.interval is None:
        if row.estimate is not None:
            (point,) = axes.plot(
                row.estimate, y, marker=style.marker, color=style.colour, markerfacecolor="#ffffff",
                markersize=6, zorder=4, linestyle="none",
            )  # fmt: skip
            canvas.mark(point, style, f"{style.label}: {row.estimate:.4g}, no interval")
        return
    said = row.interval
    tip = f"{row.text}: {said.estimate:.4g} [{said.low:.4g}, {said.high:.4g}] ({said.kind})"
    (bar,) = axes.plot(
        [said.low, said.high], [y, y], color=style.colour, linewidth=2.6, zorder=3,
        solid_capstyle="butt",
    )  # fmt: skip
    (point,) = axes.plot(
        said.estimate, y, marker=style.marker, color=style.colour, markeredgecolor="#ffffff",
        markeredgewidth=0.8, markersize=6.5, zorder=4, linestyle="none",
    )  # fmt: skip
    canvas.mark([bar, point], style, tip)


def _draw_seeds(canvas: Canvas, row: Row, y: float) -> None:
    offsets = _spread([seed.value for seed in row.seeds])
    for seed, offset in zip(row.seeds, offsets, strict=True):
        (point,) = canvas.axes.plot(
            seed.value, y + offset, marker="x" if seed.failed else "o", markersize=4,
            color=row.style.colour, alpha=0.55, markeredgewidth=1.2 if seed.failed else 0,
            linestyle="none", zorder=2,
        )  # fmt: skip
        canvas.mark(point, row.style, seed.tip)


def _spread(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns offsets that keep near-equal points apart: the same for the same values, always."""
    offsets = np.zeros(len(values))
    if len(values) < 2:
        return offsets
    order = np.argsort(values, kind="stable")
    ladder = np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.15, -0.15])
    offsets[order] = ladder[np.arange(len(values)) % len(ladder)]
    return offsets


def _draw_references(axes: Axes, references: Sequence[Reference]) -> None:
    low, high = axes.get_xlim()
    for reference in references:
        if not low <= reference.value <= high:
            continue
        axes.axvline(reference.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
        above = blended_transform_factory(axes.transData, axes.transAxes)
        axes.text(
            reference.value, 1.01, reference.text, transform=above, ha="center", va="bottom",
            fontsize=7.5, color=MUTED,
        )  # fmt: skip
    axes.set_xlim(low, high)
