"""Tables of a measurement, and how times, ratios and shares are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pacebench.harness.overhead import findings
from pacebench.harness.report.tables import (
    MINUS,
    Column,
    Show,
    Table,
    count,
    fixed,
    interval_cells,
    number,
)

# What generalises to what, in every caption that shows both.
INTERVALS = (
    "The first 95 % interval is for other instances of the same workload, timed again (instances "
    "and blocks are samples); the second is for these instances, timed again (only blocks are)."
)
_OLD = (
    "These findings were made before instances and blocks were crossed: intervals are over blocks."
)


def duration(seconds: float) -> str:
    """Returns a time with two or three significant digits and its unit."""
    unit, size = next((u for u in (("s", 1.0), ("ms", 1e-3)) if seconds >= u[1]), ("µs", 1e-6))
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.2g} {unit}"


def factor(value: float) -> str:
    """Returns a ratio: three digits near one, whole numbers where it is large."""
    if value >= 99.5:
        digits = 10 ** (len(str(int(value))) - 3)
        return count(round(value / digits) * digits)
    return f"{value:.3g}" if value >= 9.95 else f"{value:.2f}"


def percent(value: float) -> str:
    """Returns a share with two significant digits."""
    value *= 100
    return (f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %").replace("-", MINUS)


def with_interval(found: findings.MeanInterval, show: Show = factor) -> str:
    """Returns an estimate with its interval in brackets."""
    return f"{show(found.estimate)} ({show(found.low)} to {show(found.high)})"


def ratio_table(summary: findings.OverheadSummary) -> Table:
    """Returns time, ratios to the closed form and quality of every curriculum in every cell."""
    columns = (
        *_CELL_COLUMNS,
        *_columns("time", "whole update", duration),
        Column("wall", "", where="csv"),
        Column("cpu", "", where="csv"),
        *_METHOD_COLUMNS,
        Column("floor", "noise floor", percent, number=True),
        Column("status", "status"),
    )
    rows = []
    for cell in summary.cells:
        for name, found in cell.methods.items():
            row = _row(cell, name) | {"status": found.note or found.status}
            if isinstance(found, findings.TimedMethod):
                row |= {"wall": found.wall.estimate, "cpu": found.cpu.estimate}
            elif found.status == "over":
                row["status"] = found.note or f"> {summary.settings.limit:g} s"
            rows.append(row)
    caption = (
        f"{clock_name(summary)} per update, geometric mean over instances and "
        f"{summary.settings.blocks} blocks, each a fresh process that replays every instance. "
        f"{INTERVALS if summary.crossed else _OLD} Slower or faster only where both ratios have "
        "intervals that exclude 1 and estimates beyond the noise floor of the cell's A/A. What "
        "does not finish within the limit, on average over the probed updates, or was over it at "
        "smaller d with the same K already, says so under status."
    )
    return Table("ratios", "Ratios to the closed form", caption, columns, rows, folded=True)


def headline_table(cells: Sequence[findings.CellFinding], *, crossed: bool) -> Table:
    """Returns time and quality on the headline streams."""
    columns = (
        *(column for column in _CELL_COLUMNS if column.key != "d"),
        Column("mean", "mean time", duration, number=True),
        Column("time", "geometric mean", duration, number=True),
        *_METHOD_COLUMNS,
    )
    rows = [_row(cell, name) for cell in cells for name in cell.timed]
    caption = (
        "Time and quality on the same updates. Times are of whole updates without divergences and "
        "distances for the record, whose cost is in the table of training runs; “own step” is the "
        "method's step alone. “Total” is the ratio of the summed times, what a user pays; “per "
        "update” the geometric mean of the ratios. "
        f"{INTERVALS if crossed else _OLD} Gap: 0 % is the best feasible answer of any method, "
        "100 % is not moving; negative gaps are bought by breaking a constraint."
    )
    optional = ("mean", "step", "total", "total_same", "ratio_same", "step_total", "step_ratio")
    title = "Time and quality of one update"
    return Table("headline", title, caption, columns, rows, optional=optional)


def scaling_table(summary: findings.OverheadSummary) -> Table:
    """Returns the fitted exponents."""
    columns = (
        Column("method", "curriculum", kind="method"),
        *_columns("alpha", "exponent of d", fixed(2)),
        *_columns("beta", "exponent of K", fixed(2)),
        Column("fixed", "fixed cost", duration, number=True),
        Column("cells", "cells", number=True),
        Column("working", "of them dominated by work", number=True),
        Column("misfit", "largest |ln misfit|", fixed(2), number=True),
    )
    rows = [
        {"method": name}
        | fit.model_dump(include={"fixed", "cells", "working", "misfit"})
        | _cells("alpha", fit.d)
        | _cells("beta", fit.size)
        for name, fit in summary.scaling.items()
    ]
    caption = (
        "t = t₀ + c·dᵅ·Kᵝ, least squares on the logarithms, fitted in every block; t intervals "
        "over blocks, so for the same instances timed again. Work dominates a cell that takes at "
        "least three times the cheapest one; where few cells are, the exponents extrapolate."
    )
    return Table("scaling", "Growth with d and K", caption, columns, rows)


def quality_table(summary: findings.OverheadSummary) -> Table:
    """Returns the quality of every method over all instances it was judged on."""
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("problem", "problem"),
        Column("updates", "updates judged", number=True),
        Column("gap_median", "gap (median)", percent, number=True),
        Column("gap_worst", "gap (worst)", percent, number=True),
        Column("budget_median", "KL/ε (median)", number(3), number=True),
        Column("budget_worst", "KL/ε (worst)", number(3), number=True),
        Column("over_budget", "over budget", number=True),
        Column("converging", "convergence steps", number=True),
        Column("short", "short of V₋", number=True),
        Column("value_worst", "worst value − V₋", fixed(3), number=True),
        Column("rejected", "rejected", number=True),
        Column("iterations", "iterations (mean)", fixed(1), number=True),
    )
    rows = [{"method": name, **dict(found)} for name, found in summary.quality.items()]
    caption = (
        "All by exact formulas. The budget is KL(p'‖p) for the forward problem and KL(p‖p') for "
        "the reverse one, the value is importance-weighted, in standard deviations of V; a "
        "violation is more than 0.1 % of ε or of that deviation. Methods that linearise the value "
        "are judged by the exact one. A rejected update leaves the distribution in place."
    )
    return Table("quality", "Quality of the answers", caption, columns, rows)


def training_table(training: findings.TrainingSummary) -> Table:
    """Returns shares of training time and scores per step and per second."""
    shows: dict[str, tuple[str, Show]] = {
        "share": ("share of training", percent),
        "per_update": ("per update", duration),
        "step": ("of that own step", duration),
        "recording": ("of that recording", duration),
        "per_1000_steps": ("per 1000 steps", duration),
        "seconds": ("training time", duration),
        "training_ratio": ("× spgl", factor),
        "final": ("return, all steps", number(3)),
        "at_common": (f"return after {duration(training.common_seconds)}", number(3)),
    }
    columns = (
        Column("method", "curriculum", kind="method"),
        *(c for key, (heading, show) in shows.items() for c in _columns(key, heading, show)),
        Column("rejected", "rejected", number=True),
    )
    rows = []
    for name, found in training.methods.items():
        row: dict[str, Any] = {"method": name, "rejected": found.rejected}
        for key in shows:
            row |= _cells(key, getattr(found, key))
        rows.append(row)
    caption = (
        f"Instrumented runs on {training.setup}, {training.env_steps} environment steps, "
        f"{training.seeds} seeds, one process at a time on one thread, curricula in random "
        "order within each seed; 95 % t intervals over seeds. Evaluation is not counted. The last "
        "score is read at the mean time of the quickest curriculum; a run that was done before "
        "keeps its last score."
    )
    title, optional = "Share of training time, score per second", ("step", "recording")
    return Table("training", title, caption, columns, rows, optional=optional)


def clock_name(summary: findings.OverheadSummary) -> str:
    """Returns what the clock that verdicts go by measures."""
    return "Wall-clock time" if summary.clock == "wall" else "Processor time"


def _columns(key: str, heading: str, show: Show) -> list[Column]:
    """Returns an estimate's column and those of its interval."""
    interval = Column.interval(f"{key}_interval", "95 % interval", show)
    return [Column(key, heading, show, number=True), *interval]


def _cells(key: str, found: findings.MeanInterval | None) -> dict[str, Any]:
    """Returns what `_columns` shows; and for a ratio, its interval for the same instances."""
    if found is None:
        return {}
    cells = {key: found.estimate, **interval_cells(f"{key}_interval", found)}
    if isinstance(found, findings.Ratio):
        cells |= interval_cells(f"{key}_same_interval", found.same_instances)
    return cells


def _row(cell: findings.CellFinding, name: str) -> dict[str, Any]:
    """Returns what is known of one curriculum in one cell."""
    stream, found = cell.name if cell.kind == "recorded" else cell.kind, cell.methods[name]
    row: dict[str, Any] = {"stream": stream, "d": cell.d, "size": cell.size, "method": name}
    row["floor"] = cell.floor - 1
    if isinstance(found, findings.TimedMethod):
        row |= {"mean": found.mean_time, "outcome": found.outcome and found.outcome.value}
        for key in ("time", "step", "total", "ratio", "step_total", "step_ratio"):
            row |= _cells(key, getattr(found, key))
        if (quality := found.quality) is not None:
            row |= {"gap": quality.gap_median, "infeasible": quality.infeasible / quality.updates}
    return row


_CELL_COLUMNS = (
    Column("stream", "stream"),
    Column("d", "d", number=True),
    Column("size", "K", number=True),
    Column("method", "curriculum", kind="method"),
)
_METHOD_COLUMNS = (
    *_columns("total", "total × spgl", factor),
    *Column.interval("total_same_interval", "same instances", factor),
    *_columns("ratio", "per update × spgl", factor),
    *Column.interval("ratio_same_interval", "same instances", factor),
    Column("outcome", "verdict"),
    Column("step", "own step", duration, number=True),
    *_columns("step_total", "own steps: total × spgl", factor),
    *_columns("step_ratio", "per update × spgl", factor),
    Column("gap", "gap (median)", percent, number=True),
    Column("infeasible", "infeasible", percent, number=True),
)
