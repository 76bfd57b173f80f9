"""One family of comparisons: Holm's adjustment and intervals that hold together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import FloatArray


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Returns Holm's adjusted p-values of a family, in the order given; columns are families."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.size == 0:
        return p
    if not ((p >= 0) & (p <= 1)).all():
        raise UserError(f"p-values must lie in [0, 1]; got {p.tolist()}.")
    # statsmodels has this too, but runs the garbage collector on every call.
    order = np.argsort(p, axis=0, kind="stable")
    factors = np.arange(len(p), 0, -1).reshape(-1, *[1] * (p.ndim - 1))
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, 0) * factors, axis=0)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), 0)
    return adjusted


class Stratum(NamedTuple):
    """The runs of one method on one task, as far as their mean goes."""

    variance_of_mean: float
    df: float


def strata(values: Mapping[Any, FloatArray]) -> dict[Any, Stratum]:
    """Returns the strata (name, task number) of several methods' scores, runs × tasks."""
    return {
        (name, task): Stratum(float(column.var(ddof=1)) / column.size, column.size - 1.0)
        for name, matrix in values.items()
        for task, column in enumerate(matrix.T)
    }


Contrast = Mapping[Any, float]


def simultaneous_level(
    strata: Mapping[Any, Stratum],
    contrasts: Sequence[Contrast],
    level: float,
    rng: np.random.Generator,
    draws: int = 20_000,
) -> float:
    """Returns the level at which each Welch t interval must be computed for all to hold at `level`.

    Simulates the contrasts' Welch statistics under normal runs with the estimated variances, with
    the correlation that a shared control makes, and takes the level's quantile of the most extreme
    |t|, measured by its own degrees of freedom. Never stricter than Bonferroni, never laxer than
    one interval alone.

    Args:
        strata: Every (method, task) that occurs, by any key.
        contrasts: Each a weight per stratum, e.g. +1 and −1.
        level: Wanted joint coverage.
        rng: Source of the simulated statistics.
        draws: Simulated families.
    """
    alpha = 1 - level
    weights = np.array([[c.get(key, 0.0) for key in strata] for c in contrasts])
    variances = np.array([s.variance_of_mean for s in strata.values()])
    dfs = np.array([s.df for s in strata.values()])
    weights = weights[(weights**2 @ variances) > 0]
    if len(weights) <= 1:
        return level
    means = rng.standard_normal((draws, len(strata))) * np.sqrt(variances)
    spreads = variances * rng.chisquare(dfs, (draws, len(strata))) / dfs
    pooled = spreads @ (weights**2).T
    df = pooled**2 / (spreads**2 @ (weights**4 / dfs).T)
    p = 2 * stats.t.sf(np.abs(means @ weights.T) / np.sqrt(pooled), df)
    single = float(np.quantile(p.min(axis=1), alpha))
    return 1 - min(max(single, alpha / len(weights)), alpha)
