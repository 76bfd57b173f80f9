"""The stratified Welch–Satterthwaite t: means and differences of means over tasks.

Every task of every method is a stratum with its own variance. The estimate is the equally weighted
mean of the tasks' means; its variance is the sum of the strata's, and its degrees of freedom are
Satterthwaite's. Arrays are (…, runs, tasks), so a simulation runs the code that the report runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from pacebench.harness.statistics.scores import FloatArray


class Moments(NamedTuple):
    """Estimate, standard error and degrees of freedom, over any leading axes."""

    estimate: FloatArray
    error: FloatArray
    df: FloatArray


def mean_moments(values: FloatArray) -> Moments:
    """Returns the moments of the mean over tasks of the tasks' means."""
    runs, tasks = values.shape[-2:]
    variances = _variances(values) / runs / tasks**2
    return pool(values.mean(axis=(-2, -1)), variances, np.full(tasks, runs - 1.0))


def difference_moments(a: FloatArray, b: FloatArray, *, paired: bool = False) -> Moments:
    """Returns the moments of the difference a − b, of pairs of runs only where that is declared."""
    if paired:
        return mean_moments(a - b)
    tasks = a.shape[-1]
    variances = np.concatenate(
        [
            _variances(a) / a.shape[-2] / tasks**2,
            _variances(b) / b.shape[-2] / tasks**2,
        ],
        axis=-1,
    )
    dfs = np.repeat([a.shape[-2] - 1.0, b.shape[-2] - 1.0], tasks)
    return pool(a.mean(axis=(-2, -1)) - b.mean(axis=(-2, -1)), variances, dfs)


def _variances(values: FloatArray) -> FloatArray:
    """Returns each task's variance over runs, exactly zero where all runs are the same."""
    # A mean of equal values need not be that value to the last bit, but their difference is zero.
    return np.asarray((values - values[..., :1, :]).var(axis=-2, ddof=1))


def pool(estimate: FloatArray, variances: FloatArray, dfs: FloatArray) -> Moments:
    """Adds the strata's variances and gives Satterthwaite's degrees of freedom of the sum."""
    total = variances.sum(axis=-1)
    # Satterthwaite's ratio is scale-free, so dividing by the total first avoids underflow.
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = variances / total[..., None]
        df = 1.0 / (shares**2 / dfs).sum(axis=-1)
    df = np.where(total > 0, df, dfs.sum())
    return Moments(np.asarray(estimate), np.sqrt(total), np.asarray(df))


def bounds(moments: Moments, level: float) -> tuple[FloatArray, FloatArray]:
    """Returns the ends of the two-sided t interval."""
    half = special.stdtrit(moments.df, 0.5 + level / 2) * moments.error
    return np.asarray(moments.estimate - half), np.asarray(moments.estimate + half)


def statistic(moments: Moments, null: float = 0.0) -> FloatArray:
    """Returns the t statistic; 0/0 counts as 0 and a difference without spread as infinite."""
    shift = np.asarray(moments.estimate - null)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = shift / moments.error
    return np.where(shift == 0, 0.0, t)


def p_value(moments: Moments, null: float = 0.0) -> FloatArray:
    """Returns the two-sided p-value of the t test."""
    return np.asarray(2 * special.stdtr(moments.df, -np.abs(statistic(moments, null))))
