"""Ratios of times over instances × blocks, with intervals that say what they generalise to.

Every block replays every instance, so the times of one curriculum are a matrix (instances, blocks)
and those of two are paired entry by entry. The variance of a ratio's logarithm is the jackknife's,
over instances (rows) and blocks (columns), with Satterthwaite's degrees of freedom. What either
interval is for, and why, is in docs/overhead.md under "Two ratios, two intervals".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from pydantic import computed_field
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pacebench.harness.errors import UserError
from pacebench.harness.overhead import findings
from pacebench.harness.overhead.cells import Floats
from pacebench.harness.statistics import welch

LEVEL = 0.95


def mean(values: ArrayLike) -> findings.MeanInterval:
    """Returns the mean of independent values with its t interval."""
    moments = welch.mean_moments(np.asarray(values, dtype=np.float64)[:, None])
    low, high = welch.bounds(moments, LEVEL)
    return findings.MeanInterval(estimate=float(moments.estimate), low=float(low), high=float(high))


def geometric_mean(values: ArrayLike) -> findings.MeanInterval:
    """Returns the geometric mean of independent values; its interval cannot fall below zero."""
    logs = mean(np.log(np.maximum(values, 1e-12)))
    return findings.MeanInterval(**{name: math.exp(x) for name, x in logs})


def per_update(a: Floats, b: Floats | float = 1.0) -> findings.Ratio:
    """Returns the geometric mean over updates of time(a)/time(b), both (instances, blocks)."""
    b = np.broadcast_to(b, a.shape)
    return _ratio(a, b, lambda a, b: np.log(a / b).mean(), np.log(a / b))


def total(a: Floats, b: Floats) -> findings.Ratio:
    """Returns the ratio of the total times, what a user pays; arguments as in `per_update`.

    Where times spread over an order of magnitude, the interval for other instances holds the truth
    in about nine of ten cases only: the few slow instances decide the sum.
    """
    return _ratio(a, b, lambda a, b: np.log(a.sum() / b.sum()), a / a.mean() - b / b.mean())


def _ratio(
    a: Floats, b: Floats, statistic: Callable[[Floats, Floats], float], effects: Floats
) -> findings.Ratio:
    """Returns the ratio whose logarithm `statistic` gives, with both intervals.

    `effects` is what each entry contributes to the logarithm, up to a constant.
    """

    def jackknife(axis: int) -> float:
        """Returns the variance of the logarithm, from its values without each unit in turn."""
        units = range(a.shape[axis])
        left_out = [statistic(np.delete(a, i, axis), np.delete(b, i, axis)) for i in units]
        return float(np.var(left_out)) * (len(units) - 1)

    instances, blocks = effects.shape
    rest = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    cells = (instances - 1.0) * (blocks - 1.0)
    noise = float((rest**2).sum()) / cells / effects.size
    rows, columns = jackknife(0), jackknife(1)
    # The difference of mean squares may fall below what either axis alone shows.
    both = max(rows + columns - noise, rows, columns)
    parts = rows**2 / (instances - 1) + columns**2 / (blocks - 1) + noise**2 / cells
    smallest = min(instances, blocks) - 1.0
    df = max(both**2 / parts, smallest) if parts > 0 else smallest
    log = np.asarray(statistic(a, b))
    (low, high), same = (
        np.exp(welch.bounds(welch.Moments(log, np.sqrt(variance), np.asarray(df)), LEVEL))
        for variance, df in ((both, df), (columns, blocks - 1.0))
    )
    ends = {"low": low, "high": high, "same_instances": findings.Bounds(*same)}
    return findings.Ratio(estimate=math.exp(log), **ends)


class RatioShift(findings.StoredRecord):
    """A ratio in two measurements, its relative change (`shift`), and the p-value of no change."""

    cell: str
    method: str
    ratio: float
    other: float
    shift: float
    p_value: float


class Agreement(findings.StoredRecord):
    """How two measurements compare: all shared ratios, and those that differ by Holm's rule."""

    rows: tuple[RatioShift, ...]
    disagreeing: tuple[RatioShift, ...]

    @computed_field
    def agree(self) -> bool:
        """Whether no ratio differs."""
        return not self.disagreeing

    @computed_field
    def sentence(self) -> str:
        """Whether two measurements of the same streams agree, in words."""
        count, changes = len(self.rows), [abs(row.shift) for row in self.rows]
        alone = sum(row.p_value < 0.05 for row in self.rows)
        worst = max(self.rows, key=lambda row: abs(math.log1p(row.shift)))
        return (
            f"Of {count} ratios that both have on the same instances, {alone} differ at the 5 % "
            f"level taken alone ({0.05 * count:.1f} expected by chance) and "
            f"{len(self.disagreeing)} after Holm's correction: the measurements "
            f"{'do not agree' if self.disagreeing else 'agree'} within their intervals. Median "
            f"change {np.median(changes):.1%}, largest {worst.shift:+.0%} ({worst.method} in "
            f"{worst.cell})."
        )


def compare_runs(folder: Path, other: Path) -> Agreement:
    """Compares every ratio per update that both have on the very same instances.

    How much instances differ cancels in the difference of the two mean logarithms. What is left is
    timing, whose variance the intervals for the same instances give. Writes what is found into the
    first folder too.

    Raises:
        UserError: They have no ratio on the same instances in common.
    """
    ours, theirs = _logarithms(folder), _logarithms(other)
    rows = []
    for key in sorted(ours.keys() & theirs.keys()):
        test = stats.ttest_ind_from_stats(*ours[key], *theirs[key], equal_var=False)
        ratio, again = math.exp(ours[key][0]), math.exp(theirs[key][0])
        said = {"cell": key[0], "method": key[2], "p_value": test.pvalue}
        rows.append(RatioShift(**said, ratio=ratio, other=again, shift=again / ratio - 1))
    if not rows:
        raise UserError(
            f"{folder} and {other} have no ratio on the same instances in common; measure the same "
            "cells in both with this version of `pacebench overhead`."
        )
    rejected = multipletests([row.p_value for row in rows], 0.05, method="holm")[0]
    disagreeing = tuple(row for row, bad in zip(rows, rejected, strict=True) if bad)
    found = Agreement(rows=tuple(rows), disagreeing=disagreeing)
    found.write(folder / "agreement.json")
    return found


def _logarithms(folder: Path) -> dict[tuple[str, str, str], tuple[float, float, int]]:
    """Returns mean, deviation and number over blocks of ln ratio, by cell, stream and method."""
    found = {}
    for cell in findings.load_summary(folder).cells:
        for name, method in cell.rivals.items():
            low, high = method.ratio.same_instances
            widths = 2.0 * stats.t.ppf(0.5 + LEVEL / 2, cell.blocks - 1) / math.sqrt(cell.blocks)
            key, mean = (cell.name, cell.stream, name), math.log(method.ratio.estimate)
            found[key] = mean, math.log(high / low) / widths, cell.blocks
    return found
