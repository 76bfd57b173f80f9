"""The table that the papers print: mean, standard error, p-value against the best, success rate."""

from __future__ import annotations

from dataclasses import dataclass

from pacebench.harness.statistics import welch
from pacebench.harness.statistics.specification import SUCCESS
from pacebench.harness.statistics.table import RunTable


@dataclass(frozen=True)
class PaperRow:
    """A row in the layout of the papers.

    Attributes:
        setup: The setup.
        method: The method.
        runs: Runs behind it.
        mean: Mean target return.
        standard_error: Of the mean, over runs.
        p_against_best: Welch's p-value against the best mean, not adjusted; None for the best.
        best: Whether it is the best mean of the setup.
        success: Success rate.
    """

    setup: str
    method: str
    runs: int
    mean: float
    standard_error: float | None
    p_against_best: float | None
    best: bool
    success: float | None


def paper_rows(table: RunTable) -> tuple[PaperRow, ...]:
    """Returns the papers' table of every setup."""
    column = table.spec.raw
    if column is None:
        return ()
    rows = []
    for setup in table.setups:
        known = {
            method: scores
            for method in table.methods
            if (scores := table.scores("observed", method, setup, column)) is not None
        }
        if not known:
            continue
        best = max(known, key=lambda name: (float(known[name].matrix.mean()), name))
        for method, scores in known.items():
            p = None
            if method != best and min(scores.runs, known[best].runs) > 1:
                found = welch.difference_moments(scores.matrix, known[best].matrix)
                p = float(welch.p_value(found)) if found.error > 0 else None
            rate = None
            if SUCCESS in table.spec.estimands:
                success = table.scores("observed", method, setup, SUCCESS)
                rate = float(success.matrix.mean()) if success is not None else None
            rows.append(
                PaperRow(
                    setup=setup,
                    method=method,
                    runs=scores.runs,
                    mean=float(scores.matrix.mean()),
                    standard_error=float(welch.mean_moments(scores.matrix).error)
                    if scores.runs > 1
                    else None,
                    p_against_best=p,
                    best=method == best,
                    success=rate,
                )
            )
    return tuple(rows)
