"""rliable's definitions: aggregates, performance profiles, probability of improvement.

They are computed by rliable wherever a number is printed. Its bootstrap resamples in a Python loop
and draws from NumPy's global generator whatever `random_state` it is given, so the report resamples
with `bootstrap`; tests give rliable's own classes the same draws and hold the two together. rliable
imports scipy.stats, matplotlib and statsmodels, for which most commands would wait in vain.
"""

from __future__ import annotations

import numpy as np

from pacebench.harness.statistics.scores import FloatArray


def aggregate(name: str, values: FloatArray) -> float:
    """Returns one of rliable's aggregates of scores (runs × tasks)."""
    from rliable import metrics

    return float(getattr(metrics, f"aggregate_{name}")(values))


def improvement(x: FloatArray, y: FloatArray) -> float:
    """Returns rliable's probability that a run of the one beats a run of the other."""
    from rliable import metrics

    return float(metrics.probability_of_improvement(x, y))


def profile(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Returns rliable's score distribution: the share of runs above each threshold."""
    from rliable import library

    return np.asarray(library.score_distributions(values, thresholds), dtype=np.float64)
