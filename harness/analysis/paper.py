"""The table that the papers print: mean, standard error, p-value against the best, success rate."""

from __future__ import annotations

from dataclasses import dataclass

from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.statistics import welch


@dataclass(frozen=True)
class PaperRow:
    """A row in the layout of the papers.

    Attributes:
        setup: The setup.
        label: The label.
        runs: Runs behind it.
        mean: Mean target return.
        standard_error: Of the mean, over runs.
        p_against_best: Welch's p-value against the best mean, not adjusted; None for the best.
        best: Whether it is the best mean of the setup.
        success: Success rate.
    """

    setup: str
    label: str
    runs: int
    mean: float
    standard_error: float | None
    p_against_best: float | None
    best: bool
    success: float | None


def paper_rows(table: ScoreTable) -> tuple[PaperRow, ...]:
    """Returns the papers' table of every setup."""
    rows = []
    for setup in table.study.setups:
        known = {
            label: scores
            for label in table.study.labels
            if (scores := table.scores(label, setup, "return")) is not None
        }
        best = max(known, key=lambda name: float(known[name].matrix.mean()), default=None)
        for label, scores in known.items():
            p = None
            if best is not None and label != best and min(scores.runs, known[best].runs) > 1:
                found = welch.difference_moments(scores.matrix, known[best].matrix)
                p = float(welch.p_value(found)) if found.error > 0 else None
            success = table.scores(label, setup, "success")
            error = welch.mean_moments(scores.matrix).error if scores.runs > 1 else None
            rows.append(
                PaperRow(
                    setup=setup,
                    label=label,
                    runs=scores.runs,
                    mean=float(scores.matrix.mean()),
                    standard_error=None if error is None else float(error),
                    p_against_best=p,
                    best=label == best,
                    success=float(success.matrix.mean()) if success is not None else None,
                )
            )
    return tuple(rows)
