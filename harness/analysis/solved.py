"""Bimodal results as two plain numbers: how many runs are solved, and what those return.

Whether a run is solved is a score in [0, 1], and the returns of solved runs, in the order of their
seeds, are draws of their own in the setup's range: both get the interval of the verdicts, valid for
any shape and at every look. The difference of two arms is the comparison by `solved`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.statistics.confidence_sequence import mean_interval


@dataclass(frozen=True)
class SolvedRow:
    """One label on one setup.

    Attributes:
        setup: The setup.
        label: The label.
        seeds: Seeds before the first that is not there yet.
        solved: How many of them are solved.
        lost: How many were lost to the machine; the interval takes them as solved and as not.
        share: Share of the known seeds that are solved.
        low: Lower end of the interval of P(solved).
        high: Upper end.
        mean_return: Mean return of the solved seeds; None without any.
        return_low: Lower end of its interval; None without a range, and where runs were lost.
        return_high: Upper end.
        alpha: The level of both intervals, each on its own: they describe, and claim nothing.
    """

    setup: str
    label: str
    seeds: int
    solved: int
    lost: int
    share: float
    low: float
    high: float
    mean_return: float | None
    return_low: float | None
    return_high: float | None
    alpha: float

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def solved_rows(table: ScoreTable) -> tuple[SolvedRow, ...]:
    """Returns every cell that has a known seed, setup by setup."""
    cells = [(setup, label) for setup in table.study.setups for label in table.study.labels]
    rows = (_row(table, setup, label) for setup, label in cells)
    return tuple(row for row in rows if row is not None)


def _row(table: ScoreTable, setup: str, label: str) -> SolvedRow | None:
    cell = table.cell(label, setup)
    cell = cell.loc[: table.seeds_there([cell]) - 1]
    flags = cell["solved"].to_numpy(dtype=np.float64)
    lost = np.isnan(flags)
    if lost.all():
        return None
    alpha = table.study.statistics.alpha
    returns = cell["return"].to_numpy(dtype=np.float64)[flags == 1]
    bounds = table.bounds(setup, "return")
    ends: tuple[float | None, float | None] = (None, None)
    if bounds is not None and len(returns) and not lost.any():
        ends = mean_interval(np.clip(returns, *bounds), *bounds, alpha)
    low, high = mean_interval(np.where(lost, 0.0, flags), 0, 1, alpha)
    if lost.any():
        high = mean_interval(np.where(lost, 1.0, flags), 0, 1, alpha)[1]
    return SolvedRow(
        setup=setup,
        label=label,
        seeds=len(flags),
        solved=len(returns),
        lost=int(lost.sum()),
        share=float(flags[~lost].mean()),
        low=low,
        high=high,
        mean_return=float(returns.mean()) if len(returns) else None,
        return_low=ends[0],
        return_high=ends[1],
        alpha=alpha,
    )
