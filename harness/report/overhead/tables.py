"""Tables of a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pacebench.harness.overhead.findings import (
    CellFinding,
    MeanInterval,
    OverheadSummary,
    TimedMethod,
    TrainingSummary,
    UntimedMethod,
)
from pacebench.harness.report.overhead.claims import TONES
from pacebench.harness.report.overhead.formats import duration, factor, percent
from pacebench.harness.report.tables import Column, Show, Table, fixed, number


def times_table(summary: OverheadSummary) -> Table:
    """Returns the time per update of every curriculum in every cell, one column per curriculum."""
    limit, names = f"> {summary.settings.limit:g} s", summary.settings.curricula
    columns = (
        *_CELL_COLUMNS,
        *(Column(name, name) for name in names),
        Column("floor", "noise floor", percent, number=True),
    )
    rows = [
        _cell_row(cell) | {name: _time(cell.methods[name], limit) for name in names}
        for cell in summary.cells
    ]
    caption = (
        f"{clock_name(summary)} per update, geometric mean over {summary.settings.blocks} blocks. "
        f"“{limit}” is what does not finish within the stated limit, on average over the "
        "probed updates, or was over it at smaller d with the same K already; “error” "
        "is an update that raised one. Intervals and CPU times are in the ratio table."
    )
    return Table("times", "Time per update", caption, columns, rows, folded=True)


def ratio_table(summary: OverheadSummary) -> Table:
    """Returns all ratios to the closed form with intervals and verdicts."""
    columns = (
        *_CELL_COLUMNS,
        Column("method", "curriculum", kind="method"),
        Column("seconds", "wall time", duration, number=True),
        Column("seconds_low", "", where="csv"),
        Column("seconds_high", "", where="csv"),
        Column("cpu", "CPU time", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("interval", "95 % interval", _span(factor), number=True, where="shown"),
        Column("low", "", where="csv"),
        Column("high", "", where="csv"),
        Column("outcome", "verdict"),
        Column("cpu_ratio", "CPU × spgl", factor, number=True),
        Column("cpu_interval", "95 % interval (CPU)", _span(factor), number=True, where="shown"),
        Column("cpu_low", "", where="csv"),
        Column("cpu_high", "", where="csv"),
        Column("floor", "noise floor", percent, number=True),
        Column("status", "status"),
    )
    rows = []
    for cell in summary.cells:
        for name, found in cell.methods.items():
            row = _cell_row(cell) | {"method": name, "status": found.note or found.status}
            if isinstance(found, TimedMethod):
                row |= {"seconds": found.wall.estimate, "cpu": found.cpu.estimate}
                row |= {"seconds_low": found.wall.low, "seconds_high": found.wall.high}
                row["outcome"] = None if found.ratio is None else found.ratio.outcome.value
                row |= _interval(found.wall_ratio, "ratio", "interval", "low", "high")
                row |= _interval(
                    found.cpu_ratio, "cpu_ratio", "cpu_interval", "cpu_low", "cpu_high"
                )
            rows.append(row)
    caption = (
        f"Ratios over {summary.settings.blocks} paired blocks, each a fresh process; slower "
        "or faster only where the interval excludes 1 and the estimate is beyond the noise floor "
        "of the cell's A/A."
    )
    return Table("ratios", "Ratios to the closed form", caption, columns, rows, folded=True)


def headline_table(cells: Sequence[CellFinding]) -> Table:
    """Returns the ratios on the headline streams, for the page and the report's section."""
    words = {tone: speed.value for speed, tone in TONES.items()}
    columns = (
        Column("stream", "stream"),
        Column("size", "K", number=True),
        Column("method", "curriculum", kind="method"),
        Column("seconds", "time per update", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("interval", "95 % interval", _span(factor), number=True),
        Column("outcome", "verdict", lambda tone: words[tone], kind="verdict"),
        Column("gap", "gap (median)", percent, number=True),
        Column("budget", "KL/ε (worst)", number(3), number=True),
        Column("infeasible", "infeasible", percent, number=True),
        Column("rejected", "rejected", number=True),
    )
    rows = []
    for cell in cells:
        for name, found in cell.timed.items():
            row = _cell_row(cell) | {"method": name, "seconds": found.time.estimate}
            row |= _interval(found.ratio, "ratio", "interval")
            row["outcome"] = None if found.ratio is None else TONES[found.ratio.outcome]
            if found.quality is not None:
                row |= {
                    "gap": found.quality.gap_median,
                    "budget": found.quality.budget_worst,
                    "infeasible": found.quality.infeasible / found.quality.updates,
                    "rejected": found.quality.rejected,
                }
            rows.append(row)
    caption = (
        "Time and quality on the same updates. Gap: 0 % is the best feasible answer of any method, "
        "100 % is not moving; negative gaps are bought by breaking a constraint."
    )
    return Table("headline", "Time and quality of one update", caption, columns, rows)


def scaling_table(summary: OverheadSummary) -> Table:
    """Returns the fitted exponents."""
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("alpha", "exponent of d", fixed(2), number=True),
        Column("alpha_interval", "95 % interval", _span(fixed(2)), number=True),
        Column("beta", "exponent of K", fixed(2), number=True),
        Column("beta_interval", "95 % interval (K)", _span(fixed(2)), number=True),
        Column("fixed", "fixed cost", duration, number=True),
        Column("cells", "cells", number=True),
        Column("working", "of them dominated by work", number=True),
        Column("largest", "largest K·d", number=True),
        Column("misfit", "largest |ln misfit|", fixed(2), number=True),
    )
    rows = [
        {"method": name, "largest": fit.range[1]}
        | fit.model_dump(include={"fixed", "cells", "working", "misfit"})
        | _interval(fit.d, "alpha", "alpha_interval")
        | _interval(fit.size, "beta", "beta_interval")
        for name, fit in summary.scaling.items()
    ]
    caption = (
        "t = t₀ + c·dᵅ·Kᵝ, least squares on the logarithms, fitted in every block; t intervals "
        "over blocks. Work dominates a cell that takes at least three times the cheapest one. "
        "Where no or few cells are dominated by work, the exponents extrapolate."
    )
    return Table("scaling", "Growth with d and K", caption, columns, rows)


def quality_table(summary: OverheadSummary) -> Table:
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


def training_table(training: TrainingSummary) -> Table:
    """Returns shares of training time and scores per step and per second."""
    common = duration(training.common_seconds)
    spread = _span(number(3))
    columns = (
        Column("method", "curriculum", kind="method"),
        Column("share", "share of training", percent, number=True),
        Column("share_interval", "95 % interval", _span(percent), number=True),
        Column("per_update", "per update", duration, number=True),
        Column("per_1000", "per 1000 steps", duration, number=True),
        Column("seconds", "training time", duration, number=True),
        Column("ratio", "× spgl", factor, number=True),
        Column("final", "return, all steps", number(3), number=True),
        Column("final_interval", "95 % interval (steps)", spread, number=True),
        Column("at_common", f"return after {common}", number(3), number=True),
        Column("at_common_interval", "95 % interval (seconds)", spread, number=True),
        Column("rejected", "rejected", number=True),
    )
    rows = [
        {"method": name, "rejected": found.rejected}
        | _interval(found.share, "share", "share_interval")
        | _interval(found.per_update, "per_update")
        | _interval(found.per_1000_steps, "per_1000")
        | _interval(found.seconds, "seconds")
        | _interval(found.training_ratio, "ratio")
        | _interval(found.final, "final", "final_interval")
        | _interval(found.at_common, "at_common", "at_common_interval")
        for name, found in training.methods.items()
    ]
    caption = (
        f"Instrumented runs on {training.setup}, {training.env_steps} environment steps, "
        f"{training.seeds} seeds, one process at a time on one thread, curricula in random "
        "order within each seed. Evaluation is not counted. The last score is read at "
        "the mean time of the quickest curriculum; a run that was done before keeps its last score."
    )
    return Table("training", "Share of training time, score per second", caption, columns, rows)


def clock_name(summary: OverheadSummary) -> str:
    """Returns what the clock that verdicts go by measures."""
    return "Wall-clock time" if summary.clock == "wall" else "Processor time"


_CELL_COLUMNS = (
    Column("stream", "stream"),
    Column("d", "d", number=True),
    Column("size", "K", number=True),
)


def _cell_row(cell: CellFinding) -> dict[str, Any]:
    stream = cell.name if cell.kind == "recorded" else cell.kind
    return {"stream": stream, "d": cell.d, "size": cell.size, "floor": cell.floor - 1}


def _time(found: TimedMethod | UntimedMethod, limit: str) -> str:
    if isinstance(found, TimedMethod):
        return duration(found.time.estimate)
    if found.status == "failed":
        return "error"
    return "> memory" if found.note == "out of memory" else limit


def _interval(found: MeanInterval | None, *keys: str) -> dict[str, Any]:
    """Returns estimate, (low, high), low and high under as many keys as are given."""
    if found is None:
        return {}
    ends = (found.low, found.high)
    return dict(zip(keys, (found.estimate, ends, *ends), strict=False))


def _span(show: Show) -> Show:
    return lambda ends: f"{show(ends[0])} to {show(ends[1])}"
