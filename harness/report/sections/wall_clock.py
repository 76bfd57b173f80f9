"""Where the wall clock went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figures.rows import label_rows
from pacebench.harness.report.tables import CELL, Column, Table, number, percent

# Phase → column and colour; the colours belong to no curriculum and read on light and dark.
_PHASES = {
    "rollout": ("seconds_rollout", "#9aa5b1"),
    "policy update": ("seconds_policy", "#7b8794"),
    "curriculum update": ("seconds_curriculum", "#ee7733"),
    "evaluation": ("seconds_evaluation", "#c3cad2"),
}


def wall_clock(data: ReportData) -> doc.Section:
    """Returns the split of wall time by phase."""
    runs = data.scored[data.scored["how"] == MEASURED]
    if runs.empty or not any(column in runs for column, _ in _PHASES.values()):
        return doc.Section("time", "Wall clock", [doc.Text("No timings were recorded.")])
    figures = [f for setup in data.study.setups if (f := _figure(data, runs, setup)) is not None]
    lead = (
        "Where the time of a run went. Runs that train side by side share the machine, so these "
        "are shares of a bill, not timings: `pacebench overhead` compares curricula in "
        "interleaved, randomised blocks."
    )
    table = doc.TableBlock(_table(data, runs))
    return doc.Section("time", "Wall clock", [doc.Text(lead), table, doc.Figures(figures)])


def _figure(data: ReportData, runs: pd.DataFrame, setup: str) -> Figure | None:
    """Draws the mean seconds per run by phase, one bar per curriculum."""
    runs = runs[runs["setup"] == setup]
    styles = [style for label, style in data.styles.items() if (runs["label"] == label).any()]
    phases = {w: c for w, c in _PHASES.items() if c[0] in runs and runs[c[0]].notna().any()}
    if not styles or not phases:
        return None
    grouped = runs.groupby("label", observed=True)
    means = grouped[[column for column, _ in phases.values()]].mean()
    name, title = f"time-{setup}", f"Wall clock by phase, {setup}"
    with data.canvas(name, title, height=1.25 + 0.34 * len(styles)) as canvas:
        axes = canvas.axes
        for i, style in enumerate(styles):
            left = 0.0
            total = float(means.loc[style.label].sum())
            for word, (column, colour) in phases.items():
                seconds = float(means[column].loc[style.label])
                bars = axes.barh(i, seconds, left=left, height=0.62, color=colour, linewidth=0)
                share = f" ({seconds / total:.1%})" if total else ""
                tip = f"{style.label}, {word}: {seconds:.3g} s{share}"
                canvas.mark(bars.patches, style, tip)
                left += seconds
        label_rows(canvas, [style.short for style in styles], styles)
        axes.grid(axis="x")
        axes.set_xlabel("seconds per run (mean)")
        handles = [Patch(color=colour, label=word) for word, (_, colour) in phases.items()]
        canvas.figure.legend(handles=handles, loc="outside lower center", ncols=2)
        return canvas.finish(
            f"Mean wall-clock seconds of a run by phase over n = {words.extent(grouped.size())} "
            "finished runs per curriculum. Runs trained side by side share the machine: this is a "
            "split of the time, not a timing result; `pacebench overhead` measures curricula "
            "against each other."
        )


def _table(data: ReportData, runs: pd.DataFrame) -> Table:
    phases = {word: column for word, (column, _) in _PHASES.items() if column in runs}
    rows: list[dict[str, Any]] = []
    for setup, label in data.cells():
        mine = of_cell(runs, setup, label)
        if mine.empty:
            continue
        updates = of_cell(data.updates, setup, label)
        seconds = {column: float(mine[column].mean()) for column in phases.values()}
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
