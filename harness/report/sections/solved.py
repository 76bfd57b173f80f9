"""How many runs are solved, and what those return: bimodal results as two plain numbers."""

from __future__ import annotations

from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.sections.pairs import PAIR, VERDICT, pair_cells
from pacebench.harness.report.tables import CELL, Column, Table, fitted, fixed, number, percent
from pacebench.harness.statistics.interval import level_words


def solved(data: ReportData) -> list[doc.Block]:
    """Returns P(solved) of every cell with the return of its solved runs, and the differences."""
    blocks: list[doc.Block] = [_cells(data)]
    if data.comparisons(estimand="solved"):
        blocks.append(_differences(data))
    return blocks


def _cells(data: ReportData) -> Table:
    rows = [
        {
            **row.to_dict(),
            "method": row.label,
            "interval": (row.low, row.high),
            "return": None if row.return_low is None else (row.return_low, row.return_high),
        }
        for row in data.analysis.solved
    ]
    show = fitted([row["mean_return"] for row in rows], 4)
    level = level_words(data.analysis.level)
    caption = (
        f"A run is solved with {data.solved_words}; the return is that of the solved runs. {level} "
        "% intervals from the range alone, each on its own: any shape, every look."
    )
    columns = [
        *CELL,
        Column("seeds", "n", number=True),
        Column("solved", "solved", number=True),
        Column("share", "P(solved)", percent(0), number=True),
        *Column.interval("interval", "interval", percent(0)),
        Column("mean_return", "return if solved", show, number=True),
        *Column.interval("return", "interval of that return", show),
        Column("lost", "lost", number=True),
    ]
    return Table("solved", "", caption, columns, rows)


def _differences(data: ReportData) -> Table:
    rows = [
        {**pair_cells(item), "strength": "confirmatory" if item.confirmatory else "exploratory"}
        for item in data.comparisons(estimand="solved")
    ]
    columns = [
        *PAIR,
        VERDICT,
        Column("difference", "difference of P(solved)", fixed(2), number=True),
        *Column.interval("interval", "interval", fixed(2)),
        Column("alpha", "α", number(2), number=True),
        Column("strength", "strength"),
        Column("runs", "n", number=True),
    ]
    caption = "By the rule of the verdicts; without a share of α they are exploratory."
    return Table("solved-differences", "Differences", caption, columns, rows)
