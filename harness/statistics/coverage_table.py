"""The coverage table on disk, and whether its simulations still give it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pacebench.harness.statistics.simulation import CoverageCell, cells

CoverageTable = dict[CoverageCell, list[dict[str, Any]]]


def write(path: Path, table: CoverageTable) -> None:
    """Writes the table, one row per line so that changes can be read."""
    order = {cell: number for number, cell in enumerate(cells())}
    rows = [
        json.dumps({"group": cell.group, **row})
        for cell in sorted(table, key=lambda cell: order[cell])
        for row in table[cell]
    ]
    head = json.dumps({"command": "pacebench coverage"})[1:-1]
    lines = ",\n  ".join(rows)
    path.write_text(f'{{{head}, "rows": [\n  {lines}\n]}}\n', encoding="utf-8")


def read(path: Path) -> CoverageTable:
    """Reads a table back, by cell; cells that are no longer simulated are left out."""
    known = set(cells())
    table: CoverageTable = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        cell = CoverageCell(row.pop("group"), row["shape"], row["runs"], row["tasks"])
        if cell in known:
            table.setdefault(cell, []).append(row)
    return table


def differences(
    shipped: CoverageTable, fresh: Iterable[tuple[CoverageCell, list[dict[str, Any]]]]
) -> list[str]:
    """Returns one sentence for each row of a table that its simulation does not give again.

    Another machine may round differently and so move single data sets across an end; a share is
    called different when more than one data set in 500 moved.
    """
    sentences = []
    for cell, rows in fresh:
        old = {_key(row): row for row in shipped.get(cell, [])}
        for row in rows:
            name = (
                f"{row['kind']} of the {row['estimand']} at {row['level']:.2%} ({cell.shape}, "
                f"n = {cell.runs}, {cell.tasks} tasks)"
            )
            known = old.pop(_key(row), None)
            if known is None:
                sentences.append(f"{name} is not in the table.")
            elif abs(known["coverage"] - row["coverage"]) > 0.002 or known["sets"] != row["sets"]:
                sentences.append(
                    f"{name} covers {row['coverage']:.2%}, the table says {known['coverage']:.2%}."
                )
        sentences += [f"The {kind} of the {est} is no longer simulated." for kind, est, _ in old]
    return sentences


def _key(row: dict[str, Any]) -> tuple[str, str, float]:
    return row["kind"], row["estimand"], row["level"]
