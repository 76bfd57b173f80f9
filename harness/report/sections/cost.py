"""Where the wall clock went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.rows import Bar, Row, RowPlot
from pacebench.harness.report.tables import CELL, Column, Table, number, percent

# In the order of the colours .p0 to .p3 of the page.
_PHASES = {
    "rollout": "seconds_rollout",
    "policy update": "seconds_policy",
    "curriculum update": "seconds_curriculum",
    "evaluation": "seconds_evaluation",
}


def cost(data: ReportData) -> doc.Section:
    """Returns the split of wall time by phase."""
    runs = data.scored[data.scored["how"] == MEASURED]
    rows = _rows(data, runs)
    if not rows:
        return doc.Section("cost", "Cost", [doc.Text("No timings were recorded.")])
    figures = [data.figure(_plot(data, setup, rows)) for setup in data.study.setups]
    table = doc.Fold("Wall clock as a table", [_table(rows)])
    return doc.Section("cost", "Cost", [doc.Figures(figures), table])


def _plot(data: ReportData, setup: str, rows: list[dict[str, Any]]) -> RowPlot:
    drawn = []
    for row in rows:
        if row["setup"] != setup:
            continue
        style, total = data.styles[row["method"]], row["total"]
        bars = [
            Bar(s, i, f"{style.label}, {word}: {s:.3g} s ({s / total:.1%})")
            for i, (word, column) in enumerate(_PHASES.items())
            if np.isfinite(s := row.get(column, np.nan)) and total
        ]
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        drawn.append(Row([style], style.short, bars=bars, note=share))
    return RowPlot(
        f"time-{setup}",
        setup,
        "Mean seconds of a finished run: rollout, policy update, curriculum update (orange, its "
        "share at the end), evaluation. Runs side by side share the machine: this splits the bill, "
        "and `pacebench overhead` measures.",
        Axis.over([v for row in drawn for v in row.drawn], "seconds per run (mean)"),
        drawn,
        head="share",
    )


def _rows(data: ReportData, runs: pd.DataFrame) -> list[dict[str, Any]]:
    phases = [column for column in _PHASES.values() if column in runs]
    rows: list[dict[str, Any]] = []
    for setup, label in data.cells() if phases else []:
        mine = of_cell(runs, setup, label)
        if mine.empty:
            continue
        updates = data.updates_of(setup, label)
        seconds = {column: float(mine[column].mean()) for column in phases}
        total = float(np.nansum(list(seconds.values())))
        own = seconds.get("seconds_curriculum", float("nan"))
        rows.append(
            {
                "setup": setup,
                "method": label,
                "runs": len(mine),
                **seconds,
                "total": total,
                "share": own / total if total else None,
                "per_update": float(updates["seconds"].mean()) if "seconds" in updates else None,
                "per_thousand": 1000 * own / float(mine["env_steps"].mean()),
            }
        )
    return rows


def _table(rows: list[dict[str, Any]]) -> Table:
    phases = {word: column for word, column in _PHASES.items() if column in rows[0]}
    columns = (
        *CELL,
        Column("runs", "n", number=True),
        *(Column(column, f"{word}, s", number(3), number=True) for word, column in phases.items()),
        Column("total", "total, s", number(3), number=True),
        Column("share", "curriculum share", percent(2), number=True),
        Column("per_update", "s per update", number(3), number=True),
        Column("per_thousand", "curriculum s per 1 000 steps", number(3), number=True),
    )
    return Table("wall-clock", "", "Mean seconds per finished run and phase.", columns, rows)
