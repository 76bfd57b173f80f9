"""Do two runs of the measurement agree within their intervals?"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.findings import Ratio, StoredRecord, load_summary
from pacebench.harness.overhead.ratios import LEVEL
from pacebench.harness.statistics import welch
from pacebench.harness.statistics.multiplicity import holm


class RatioShift(StoredRecord):
    """A ratio in two runs, its relative change (`shift`), and Welch's p-value of no change."""

    cell: str
    method: str
    ratio: float
    other: float
    shift: float
    p_value: float


class Agreement(StoredRecord):
    """How two runs compare: `alone` differ at 5 % each, `disagreeing` after Holm's correction."""

    agree: bool
    ratios: int
    alone: int
    disagreeing: tuple[RatioShift, ...]
    median_change: float
    rows: tuple[RatioShift, ...]


def compare_runs(folder: Path | str, other: Path | str) -> Agreement:
    """Compares every ratio that both runs have.

    Each ratio of either run has a t interval on the logarithmic scale. The difference of the two
    logarithms, in its own standard error, is Welch's t. With Holm's correction over all ratios, the
    runs disagree if any is rejected at 5 %.

    Raises:
        UserError: The runs have no ratio in common.
    """
    ours, theirs = _ratios(folder), _ratios(other)
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        raise UserError(
            f"{folder} and {other} have no ratio in common; measure the same cells in both."
        )
    rows = tuple(_shift(*key, ours[key], theirs[key]) for key in shared)
    p_values = np.array([row.p_value for row in rows])
    rejected = holm(p_values) < 0.05
    disagreeing = tuple(row for row, bad in zip(rows, rejected, strict=True) if bad)
    return Agreement(
        agree=not disagreeing,
        ratios=len(rows),
        alone=int((p_values < 0.05).sum()),
        disagreeing=disagreeing,
        median_change=float(np.median([abs(row.shift) for row in rows])),
        rows=rows,
    )


def _ratios(folder: Path | str) -> dict[tuple[str, str], Ratio]:
    return {
        (cell.name, name): found.ratio
        for cell in load_summary(folder).cells
        for name, found in cell.timed.items()
        if found.ratio is not None
    }


def _shift(cell: str, method: str, a: Ratio, b: Ratio) -> RatioShift:
    dfs = np.array([a.blocks - 1.0, b.blocks - 1.0])
    halves = np.array([0.5 * math.log(found.high / found.low) for found in (a, b)])
    variances = (halves / stats.t.ppf(0.5 + LEVEL / 2, dfs)) ** 2
    log_shift = math.log(b.estimate / a.estimate)
    moments = welch.pool(np.array(log_shift), variances, dfs)
    return RatioShift(
        cell=cell,
        method=method,
        ratio=a.estimate,
        other=b.estimate,
        shift=math.expm1(log_shift),
        p_value=float(welch.p_value(moments)),
    )
