"""Do two measurements of the same streams agree?"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.crossed import LEVEL
from pacebench.harness.overhead.findings import Bounds, Ratio, StoredRecord, load_summary
from pacebench.harness.statistics import welch


class RatioShift(StoredRecord):
    """A ratio in two measurements, its relative change (`shift`), and the p-value of no change."""

    cell: str
    method: str
    ratio: float
    other: float
    shift: float
    p_value: float


class Agreement(StoredRecord):
    """How two compare: `alone` differ at 5 % each, `disagreeing` after Holm's correction."""

    agree: bool
    ratios: int
    alone: int
    disagreeing: tuple[RatioShift, ...]
    median_change: float
    rows: tuple[RatioShift, ...]


def compare_runs(folder: Path | str, other: Path | str) -> Agreement:
    """Compares every ratio per update that both have on the very same instances.

    The measurements are paired by instance: both replay the same ones, so how much instances differ
    cancels in the difference of the two mean logarithms. What is left is timing, whose variance the
    intervals for the same instances give for either measurement; the difference in its standard
    error is Welch's t. With Holm's correction over all ratios, the measurements disagree if any is
    rejected at 5 %.

    Raises:
        UserError: They have no ratio on the same instances in common.
    """
    ours, theirs = _ratios(folder), _ratios(other)
    shared = sorted(set(ours) & set(theirs))
    if not shared:
        raise UserError(
            f"{folder} and {other} have no ratio on the same instances in common; measure the same "
            "cells in both with this version of `pacebench overhead`."
        )
    rows = tuple(_shift(key[0], key[2], *ours[key], *theirs[key]) for key in shared)
    p_values = np.array([row.p_value for row in rows])
    rejected = multipletests(p_values, 0.05, method="holm")[0]
    disagreeing = tuple(row for row, bad in zip(rows, rejected, strict=True) if bad)
    return Agreement(
        agree=not disagreeing,
        ratios=len(rows),
        alone=int((p_values < 0.05).sum()),
        disagreeing=disagreeing,
        median_change=float(np.median([abs(row.shift) for row in rows])),
        rows=rows,
    )


def _ratios(folder: Path | str) -> dict[tuple[str, str, str], tuple[Ratio, Bounds]]:
    """Returns the ratios that have an interval for their instances, by cell, stream and method."""
    return {
        (cell.name, cell.stream, name): (found.ratio, found.ratio.same_instances)
        for cell in load_summary(folder).cells
        for name, found in cell.timed.items()
        if found.ratio is not None and found.ratio.same_instances is not None
    }


def _shift(
    cell: str, method: str, a: Ratio, bounds: Bounds, b: Ratio, other_bounds: Bounds
) -> RatioShift:
    dfs = np.array([a.blocks - 1.0, b.blocks - 1.0])
    halves = np.array([0.5 * math.log(ends.high / ends.low) for ends in (bounds, other_bounds)])
    variances = (halves / stats.t.ppf(0.5 + LEVEL / 2, dfs)) ** 2
    log_shift = math.log(b.estimate / a.estimate)
    return RatioShift(
        cell=cell,
        method=method,
        ratio=a.estimate,
        other=b.estimate,
        shift=math.expm1(log_shift),
        p_value=float(welch.p_value(welch.pool(np.array(log_shift), variances, dfs))),
    )
