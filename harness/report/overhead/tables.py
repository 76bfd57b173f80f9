"""Tables of a measurement, and how times, ratios and shares are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.tables import Column, Show, Table, count, interval_cells, number

# What generalises to what, in the caption that shows both.
INTERVALS = (
    "The first 95 % interval is for other instances of the same workload, timed again (instances "
    "and blocks are samples); the second is for these instances, timed again (only blocks are)."
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
    return f"{number(2)(100 * value)} %"


def with_interval(found: findings.MeanInterval, show: Show = factor) -> str:
    """Returns an estimate with its interval in brackets."""
    return f"{show(found.estimate)} ({show(found.low)} to {show(found.high)})"


_SHOWS: dict[str, Show] = {"s": duration, "×": factor, "%": percent, "3": number(3), "": str}
_METHOD = Column("method", "curriculum", kind="method")


def columns_of(kind: type[findings.StoredRecord]) -> list[Column]:
    """Returns the columns of a finding: of every field that says what it is called."""
    columns: list[Column] = []
    for key, field in kind.model_fields.items():
        kinds = {field.annotation, *get_args(field.annotation)}
        for said in (m for m in field.metadata if isinstance(m, findings.Shown)):
            show = _SHOWS[said.unit]
            columns.append(Column(key, said.heading, show, number=str not in kinds))
            if kinds & {findings.MeanInterval, findings.Ratio}:
                columns += Column.interval(f"{key}_interval", "95 % interval", show)
            if findings.Ratio in kinds:
                columns += Column.interval(f"{key}_same_interval", "same instances", show)
    return columns


def row_of(found: findings.StoredRecord) -> dict[str, Any]:
    """Returns what those columns show."""
    row: dict[str, Any] = {}
    for key, value in found:
        row[key] = value
        if isinstance(value, findings.MeanInterval):
            row |= {key: value.estimate, **interval_cells(f"{key}_interval", value)}
        if isinstance(value, findings.Ratio):
            row |= interval_cells(f"{key}_same_interval", value.same_instances)
    return row


def _by_method(
    name: str, title: str, caption: str, found: Mapping[str, findings.StoredRecord]
) -> Table:
    """Returns a table with a row per curriculum."""
    rows = [{"method": method, **row_of(mine)} for method, mine in found.items()]
    columns = columns_of(type(next(iter(found.values()))))
    return Table(name, title, caption, [_METHOD, *columns], rows)


def cell_table(
    name: str, title: str, caption: str, cells: Sequence[findings.CellFinding], *, all_: bool
) -> Table:
    """Returns times, ratios to the closed form and quality of every curriculum in some cells.

    `all_` are the curricula that were not timed too, and why; such a table is folded.
    """
    columns = [
        Column("stream", "stream"),
        Column("d", "d", number=True),
        Column("size", "K", number=True),
        _METHOD,
        *columns_of(findings.MethodFinding),
        Column("outcome", "verdict"),
        Column("gap", "gap (median)", percent, number=True),
        Column("infeasible", "infeasible", percent, number=True),
        Column("floor", "noise floor", percent, number=True),
        *(Column(clock, "", where="csv") for clock in ("wall", "cpu")),
        *([Column("untimed", "not timed")] if all_ else []),
    ]
    rows: list[dict[str, Any]] = []
    for cell in cells:
        about = {
            "stream": cell.name if cell.kind == "recorded" else cell.kind,
            **{"d": cell.d, "size": cell.size, "floor": cell.floor - 1},
        }
        for method, found in cell.methods.items():
            row = about | {"method": method, **row_of(found)}
            if method == REFERENCE:
                row = {key: None if "ratio" in key or "total" in key else row[key] for key in row}
            else:
                row["outcome"] = found.speed(cell.floor).value
            if (quality := found.quality) is not None:
                row["gap"] = quality.gap_median
                row["infeasible"] = quality.infeasible / quality.updates
            rows.append(row)
        if all_:
            rows += [about | {"method": m, "untimed": why} for m, why in cell.untimed.items()]
    return Table(name, title, caption, columns, rows, folded=all_)


def headline_table(cells: Sequence[findings.CellFinding]) -> Table:
    """Returns time and quality on the headline streams."""
    caption = (
        "Time and quality on the same updates. Times are of whole updates without divergences and "
        "distances for the record, whose cost is in the table of training runs; “own step” is the "
        "method's step alone. “Total” is the ratio of the summed times, what a user pays; “per "
        f"update” the geometric mean of the ratios. {INTERVALS} Gap: 0 % is the best feasible "
        "answer of any method, 100 % is not moving; negative gaps are bought by breaking a "
        "constraint."
    )
    return cell_table("headline", "Time and quality of one update", caption, cells, all_=False)


def ratio_table(summary: findings.OverheadSummary) -> Table:
    """Returns the same for every curriculum in every cell."""
    caption = (
        f"{clock_name(summary)} per update over instances and {summary.settings.blocks} blocks, "
        "each a fresh process that replays every instance; columns as above. Slower or faster only "
        "where both ratios have intervals that exclude 1 and estimates beyond the noise floor of "
        f"the cell's A/A. What takes more than {summary.settings.limit:g} s on average over the "
        "probed updates, or did so at smaller d with the same K already, is not timed."
    )
    title = "Ratios to the closed form"
    return cell_table("ratios", title, caption, summary.cells, all_=True)


def scaling_table(summary: findings.OverheadSummary) -> Table:
    """Returns the fitted exponents."""
    caption = (
        "t = t₀ + c·dᵅ·Kᵝ, least squares on the logarithms, fitted in every block; t intervals "
        "over blocks, so for the same instances timed again. Work dominates a cell that takes at "
        "least three times the cheapest one; where few cells are, the exponents extrapolate."
    )
    return _by_method("scaling", "Growth with d and K", caption, summary.scaling)


def quality_table(summary: findings.OverheadSummary) -> Table:
    """Returns the quality of every method over all instances it was judged on."""
    caption = (
        "All by exact formulas. The budget is KL(p'‖p) for the forward problem and KL(p‖p') for "
        "the reverse one, the value is importance-weighted, in standard deviations of V; a "
        "violation is more than 0.1 % of ε or of that deviation. Methods that linearise the value "
        "are judged by the exact one. A rejected update leaves the distribution in place."
    )
    return _by_method("quality", "Quality of the answers", caption, summary.quality)


def training_table(training: findings.TrainingSummary) -> Table:
    """Returns shares of training time and scores per step and per second."""
    caption = (
        f"Instrumented runs on {training.setup}, {training.env_steps} environment steps, "
        f"{training.seeds} seeds, one process at a time on one thread, curricula in random "
        "order within each seed; 95 % t intervals over seeds. Evaluation is not counted. The last "
        f"score is read after {duration(training.common_seconds)}, the mean time of the quickest "
        "curriculum; a run that was done before keeps its last score."
    )
    title = "Share of training time, score per second"
    return _by_method("training", title, caption, training.methods)


def clock_name(summary: findings.OverheadSummary) -> str:
    """Returns what the clock that verdicts go by measures."""
    return "Wall-clock time" if summary.clock == "wall" else "Processor time"
