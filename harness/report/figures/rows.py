"""Figures with one row per method or comparison: raw seeds, intervals, contrasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import blended_transform_factory

from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report import words
from pacebench.harness.report.canvas import MUTED, ZONE, Canvas, Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.palette import Style
from pacebench.harness.statistics.interval import Interval


@dataclass(frozen=True)
class Seed:
    """One run's value, and what hovering over it says."""

    value: float
    tip: str
    failed: bool


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
    seeds: Sequence[Seed] = ()
    note: str = ""
    estimate: float | None = None


def seed_rows(
    data: ReportData, setup: str, column: str, raw: str, tip: Callable[[Mapping[Any, Any]], str]
) -> list[Row]:
    """Returns a row per curriculum that has an estimate, with every run as a point.

    Args:
        data: What the report is made from.
        setup: The setup.
        column: What is estimated.
        raw: The column of the runs' own values.
        tip: What hovering over a run says.
    """
    rows = []
    for label in data.study.labels:
        item = data.estimate(label, setup, column)
        if item is not None:
            runs = data.known(setup, label).to_dict("records")
            seeds = [Seed(float(run[raw]), tip(run), run["how"] != MEASURED) for run in runs]
            style = data.styles[label]
            rows.append(Row(style, style.short, item.interval, seeds, estimate=item.value))
    return rows


def row_figure(
    data: ReportData,
    name: str,
    title: str,
    rows: Sequence[Row],
    xlabel: str,
    *,
    per_row: float,
    before: str = "",
    after: str | None = None,
    references: Sequence[tuple[float, str]] = (),
    zone: tuple[float, float] | None = None,
    include: Sequence[float] = (),
    limits: tuple[float, float] | None = None,
) -> Figure | None:
    """Draws rows from top to bottom; returns None where there is no number to draw.

    Args:
        data: What the report is made from.
        name: Stem of the files.
        title: Short heading.
        rows: The rows.
        xlabel: Label of the axis, with its unit.
        per_row: Height of a row in inches.
        before: What the caption says before it describes the intervals.
        after: What it says after that; if not given, which runs are left out.
        references: Vertical lines, each with the word on it.
        zone: A shaded range, e.g. of differences too small to matter.
        include: Values that the axis reaches in any case.
        limits: Ends of the axis; those of the data if not given.
    """
    if all(row.interval is None and row.estimate is None for row in rows):
        return None
    with data.canvas(name, title, height=0.85 + per_row * len(rows)) as canvas:
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
        label_rows(canvas, [row.text for row in rows], [row.style for row in rows])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(xlabel)
        if include:
            axes.update_datalim([(value, 0.0) for value in include], updatey=False)
            axes.autoscale_view(scaley=False)
        _draw_references(axes, references)
        if limits is not None:
            axes.set_xlim(*limits)
        said = words.intervals(row.interval for row in rows)
        return canvas.finish(f"{before}{said}{data.unknown if after is None else after}")


def label_rows(canvas: Canvas, texts: Sequence[str], styles: Sequence[Style]) -> None:
    """Names the rows beside the axis, the first at the top, each marked as its curriculum."""
    canvas.axes.set_yticks(range(len(texts)), texts)
    for label, style in zip(canvas.axes.get_yticklabels(), styles, strict=True):
        canvas.mark(label, style)
    canvas.axes.tick_params(axis="y", length=0)
    canvas.axes.set_ylim(len(texts) - 0.5, -0.5)


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
    # Neighbours in value get different heights, so that near-equal points can be told apart.
    ladder = (0.0, 0.1, -0.1, 0.05, -0.05, 0.15, -0.15)
    ranks = np.argsort(np.argsort([seed.value for seed in row.seeds], kind="stable"))
    for seed, rank in zip(row.seeds, ranks, strict=True):
        (point,) = canvas.axes.plot(
            seed.value, y + ladder[rank % len(ladder)], marker="x" if seed.failed else "o",
            color=row.style.colour, alpha=0.55, markeredgewidth=1.2 if seed.failed else 0,
            markersize=4, linestyle="none", zorder=2,
        )  # fmt: skip
        canvas.mark(point, row.style, seed.tip)


def _draw_references(axes: Axes, references: Sequence[tuple[float, str]]) -> None:
    low, high = axes.get_xlim()
    for value, word in references:
        if low <= value <= high:
            axes.axvline(value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            above = blended_transform_factory(axes.transData, axes.transAxes)
            axes.text(
                value, 1.01, word, transform=above, ha="center", va="bottom", fontsize=7.5,
                color=MUTED,
            )  # fmt: skip
    axes.set_xlim(low, high)
