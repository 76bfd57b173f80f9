"""rliable, fed an explicit generator.

rliable 1.2 takes a `random_state` and draws from NumPy's global generator all the same, and its
performance profiles take none at all. Here its bootstrap classes get their indices from a generator
of ours, and everything else of theirs (resampling, metrics, percentiles) runs as published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rliable import library, metrics

from harness.statistics.scores import FloatArray, Scores, aligned

aggregate_iqm: Callable[[FloatArray], float] = metrics.aggregate_iqm
aggregate_mean: Callable[[FloatArray], float] = metrics.aggregate_mean
aggregate_median: Callable[[FloatArray], float] = metrics.aggregate_median
aggregate_optimality_gap: Callable[[FloatArray], float] = metrics.aggregate_optimality_gap


class _Bootstrap(library.StratifiedBootstrap):  # type: ignore[misc]
    """rliable's stratified bootstrap on our indices."""

    def __init__(self, scores: FloatArray, rng: np.random.Generator) -> None:
        super().__init__(scores)
        self._rng = rng

    def update_indices(self) -> tuple[Any, ...]:
        """Draws run indices for every task."""
        return (self._rng.integers(self._num_items, size=self._args_shape), *self._strata_indices)


class _PairBootstrap(library.StratifiedIndependentBootstrap):  # type: ignore[misc]
    """rliable's bootstrap of two methods on our indices."""

    def __init__(self, a: FloatArray, b: FloatArray, rng: np.random.Generator) -> None:
        super().__init__(a, b)
        self._rng = rng

    def _get_indices(
        self, num_runs: int, array_shape: tuple[int, ...], strata_indices: list[Any]
    ) -> tuple[Any, ...]:
        return (self._rng.integers(num_runs, size=array_shape), *strata_indices)


def interval(
    scores: Scores,
    function: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
    resamples: int = 50_000,
    level: float = 0.95,
) -> tuple[FloatArray, FloatArray]:
    """Returns rliable's point estimates and percentile interval (2 × outputs) of a function."""
    bootstrap = _Bootstrap(scores.matrix, rng)
    ends = bootstrap.conf_int(function, reps=resamples, size=level, method="percentile")
    return np.atleast_1d(function(scores.matrix)), np.asarray(ends)


def probability_of_improvement(
    a: Scores, b: Scores, rng: np.random.Generator, resamples: int = 2_000, level: float = 0.95
) -> tuple[float, float, float]:
    """Returns rliable's P(a > b) and the ends of its percentile interval."""
    x, y = aligned(a, b)

    def function(left: FloatArray, right: FloatArray) -> FloatArray:
        return np.array([metrics.probability_of_improvement(left, right)])

    bootstrap = _PairBootstrap(x, y, rng)
    ends = bootstrap.conf_int(function, reps=resamples, size=level, method="percentile")
    return float(function(x, y)[0]), float(ends[0, 0]), float(ends[1, 0])


def performance_profile(
    scores: Scores,
    thresholds: FloatArray,
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> tuple[FloatArray, FloatArray]:
    """Returns rliable's score distribution over thresholds and its *pointwise* band."""
    return interval(
        scores,
        lambda values: np.asarray(library.score_distributions(values, thresholds)),
        rng,
        resamples,
        level,
    )
