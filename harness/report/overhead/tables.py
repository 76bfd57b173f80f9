"""Tables of a measurement, and how times, ratios and shares are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pacebench.harness.overhead import findings
from pacebench.harness.overhead.settings import REFERENCE
from pacebench.harness.report.tables import Column, Table, count, fixed, interval_cells, number


def duration(seconds: float) -> str:
    """Returns a time with two or three significant digits and its unit."""
    sizes = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, size in sizes.items() if seconds >= 0.9995 * size), "µs")
    value = seconds / sizes[unit]
    return f"{number(2)(value if value >= 99.5 else float(f'{value:.2g}'))} {unit}"


def factor(value: float) -> str:
    """Returns a ratio: three digits near one, whole numbers where it is large."""
    if value >= 99.5:
        return count(float(f"{value:.3g}"))
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def percent(value: float) -> str:
    """Returns a share with two significant digits."""
    return f"{number(2)(100 * value)} %"


_SHOWS = {"s": duration, "×": factor, "%": percent, "3": number(3)}
_SHOWS |= {f".{places}": fixed(places) for places in (1, 2, 3)}
_METHOD = Column("method", "curriculum", kind="method")


def columns_of(kind: type[findings.StoredRecord]) -> list[Column]:
    """Returns the columns of a finding: of every field that says what it is called."""
    columns: list[Column] = []
    for key, field in kind.model_fields.items():
        for said in (m for m in field.metadata if isinstance(m, findings.Shown)):
            show, held = _SHOWS.get(said.unit, str), field.annotation
            columns.append(Column(key, said.heading, show, number=held is not str))
            if held in (findings.MeanInterval, findings.Ratio):
                columns += Column.interval(f"{key}_interval", "95 % interval", show)
            if held is findings.Ratio:
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


def by_method(
    name: str, title: str, caption: str, found: Mapping[str, findings.StoredRecord]
) -> Table:
    """Returns a table with a row per curriculum."""
    rows = [{"method": method, **row_of(mine)} for method, mine in found.items()]
    columns = columns_of(type(next(iter(found.values()))))
    return Table(name, title, caption, [_METHOD, *columns], rows)


def by_cell(
    name: str, title: str, caption: str, cells: Sequence[findings.CellFinding], folded: bool = False
) -> Table:
    """Returns times, ratios and quality of every curriculum in some cells, or why it has none."""
    columns = [
        Column("stream", "stream"),
        Column("d", "d", number=True),
        Column("size", "K", number=True),
        _METHOD,
        Column("outcome", "verdict"),
        Column("gap", "gap (median)", percent, number=True),
        Column("infeasible", "infeasible", percent, number=True),
        *columns_of(findings.MethodFinding),
        Column("floor", "noise floor", percent, number=True),
        *(Column(clock, "", where="csv") for clock in ("wall", "cpu")),
        Column("untimed", "not timed"),
    ]
    rows: list[dict[str, Any]] = []
    for cell in cells:
        stream = cell.name if cell.kind == "recorded" else cell.kind
        about = {"stream": stream, "d": cell.d, "size": cell.size, "floor": cell.floor - 1}
        for method, found in cell.methods.items():
            row = about | {"outcome": found.speed(cell.floor), "method": method, **row_of(found)}
            if method == REFERENCE:
                row = {key: row[key] for key in row if not re.search("ratio|total|outcome", key)}
            if (quality := found.quality) is not None:
                broken = quality.infeasible / quality.updates
                row |= {"gap": quality.gap_median, "infeasible": broken}
            rows.append(row)
        rows += [about | {"method": m, "untimed": why} for m, why in cell.untimed.items()]
    return Table(name, title, caption, columns, rows, folded=folded, optional=("untimed",))
