"""rliable's definitions: aggregates, performance profiles, probability of improvement.

They are computed by rliable wherever a number is printed. Its bootstrap resamples in a Python loop
and draws from NumPy's global generator whatever `random_state` it is given, so the report resamples
with `bootstrap`; tests give rliable's own classes the same draws and hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rliable import metrics

from pacebench.harness.statistics.scores import FloatArray

AGGREGATES: dict[str, Callable[[FloatArray], float]] = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "iqm": metrics.aggregate_iqm,
    "optimality_gap": metrics.aggregate_optimality_gap,
}


def aggregate(name: str, values: FloatArray) -> float:
    """Returns one of rliable's aggregates of scores (runs × tasks)."""
    return float(AGGREGATES[name](values))


def improvement(x: FloatArray, y: FloatArray) -> float:
    """Returns rliable's probability that a run of the one beats a run of the other."""
    return float(metrics.probability_of_improvement(x, y))


def profile(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Returns rliable's score distribution: the share of runs above each threshold."""
    # It imports matplotlib and statsmodels, for which most commands would wait in vain.
    from rliable import library

    return np.asarray(library.score_distributions(values, thresholds), dtype=np.float64)
