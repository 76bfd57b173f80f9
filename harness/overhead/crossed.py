"""Times of instances × blocks: estimates, and intervals that say what they generalise to.

Every block replays every instance, so the times of one curriculum are a matrix (instances, blocks)
and those of two are paired entry by entry. Two ratios are made of such a pair: that of total times,
which is what a user pays, and the geometric mean of the ratios per update. Each has two 95 %
intervals, for *other instances of the same workload*, timed again, and for *these instances*, timed
again. The variance of the logarithm is the jackknife's, over instances (rows) and blocks (columns),
with Satterthwaite's degrees of freedom; docs/overhead.md says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from pacebench.harness.overhead.findings import Bounds, MeanInterval, Ratio
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.statistics import welch

LEVEL = 0.95


def mean(values: Floats) -> MeanInterval:
    """Returns the mean of independent values with its t interval."""
    moments = welch.mean_moments(np.asarray(values, dtype=np.float64)[:, None])
    low, high = welch.bounds(moments, LEVEL)
    return MeanInterval(estimate=float(moments.estimate), low=float(low), high=float(high))


def geometric_mean(values: Floats) -> MeanInterval:
    """Returns the geometric mean of independent values; its interval cannot fall below zero."""
    logs = mean(np.log(np.maximum(values, 1e-12)))
    return MeanInterval(**{name: math.exp(x) for name, x in logs})


def seconds(times: Floats) -> MeanInterval:
    """Returns the geometric mean time per update, for other instances; as `per_update`."""
    found = per_update(times, np.ones_like(times))
    return MeanInterval(estimate=found.estimate, low=found.low, high=found.high)


def per_update(a: Floats, b: Floats) -> Ratio:
    """Returns the geometric mean over updates of time(a)/time(b), both (instances, blocks)."""
    logs = np.log(a / b)

    def without(axis: int) -> Floats:
        return np.asarray((logs.sum() - logs.sum(axis)) / (logs.size - logs.shape[axis]))

    return _ratio(logs.mean(), without, logs)


def total(a: Floats, b: Floats) -> Ratio:
    """Returns the ratio of the total times, what a user pays; arguments as in `per_update`.

    Where times spread over an order of magnitude, the interval for other instances holds the truth
    in about nine of ten cases only: the few slow instances decide the sum.
    """

    def without(axis: int) -> Floats:
        return np.asarray(np.log((a.sum() - a.sum(axis)) / (b.sum() - b.sum(axis))))

    return _ratio(math.log(a.sum() / b.sum()), without, a / a.mean() - b / b.mean())


def _ratio(log: float, without: Callable[[int], Floats], effects: Floats) -> Ratio:
    """Returns the ratio of a logarithm with both intervals.

    `without` gives the logarithms without each instance (axis 1) or each block (axis 0), `effects`
    is what each entry contributes to the logarithm, up to a constant.
    """
    instances, blocks = effects.shape
    rest = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    cells = (instances - 1.0) * (blocks - 1.0)
    noise = float((rest**2).sum()) / cells / effects.size
    rows, columns = _jackknife(without(1)), _jackknife(without(0))
    # The difference of mean squares may fall below what either axis alone shows.
    both = max(rows + columns - noise, rows, columns)
    parts = rows**2 / (instances - 1) + columns**2 / (blocks - 1) + noise**2 / cells
    smallest = min(instances, blocks) - 1.0
    df = max(both**2 / parts, smallest) if parts > 0 else smallest
    low, high = _bounds(log, both, df)
    same = Bounds(*_bounds(log, columns, blocks - 1.0))
    return Ratio(estimate=math.exp(log), low=low, high=high, same_instances=same)


def _jackknife(left_out: Floats) -> float:
    """Returns the variance of an estimate, given its values without each unit in turn."""
    return float(left_out.var()) * (len(left_out) - 1)


def _bounds(log: float, variance: float, df: float) -> tuple[float, float]:
    half = float(stats.t.ppf(0.5 + LEVEL / 2, df)) * math.sqrt(variance)
    return math.exp(log - half), math.exp(log + half)
