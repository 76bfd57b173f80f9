"""rliable: its definitions for the report, and its bootstrap on an explicit generator.

What rliable defines (aggregates, performance profiles, probability of improvement) is computed by
rliable wherever a number is printed. Its bootstrap resamples in a Python loop and draws from
NumPy's global generator whatever `random_state` it is given, so the report resamples with
`bootstrap`. Here rliable's own classes get the same draws, and tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rliable import library, metrics

from pacebench.harness.statistics import bootstrap
from pacebench.harness.statistics.scores import FloatArray, Scores, aligned

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
    return np.asarray(library.score_distributions(values, thresholds), dtype=np.float64)


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

    def __init__(
        self, a: FloatArray, b: FloatArray, resamples: int, rng: np.random.Generator
    ) -> None:
        super().__init__(a, b)
        drawn = bootstrap.pair_draws(a, b, resamples, rng)
        self._drawn: Iterator[Any] = (i for both in zip(*drawn, strict=True) for i in both)

    def _get_indices(
        self, num_runs: int, array_shape: tuple[int, ...], strata_indices: list[Any]
    ) -> tuple[Any, ...]:
        return (next(self._drawn), *strata_indices)


def interval(
    scores: Scores,
    function: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
    resamples: int = 50_000,
    level: float = 0.95,
) -> FloatArray:
    """Returns rliable's percentile interval (2 × outputs) of a function of the scores."""
    resampled = _Bootstrap(scores.matrix, rng)
    ends = resampled.conf_int(function, reps=resamples, size=level, method="percentile")
    return np.asarray(ends)


def pair_interval(
    a: Scores,
    b: Scores,
    function: Callable[[FloatArray, FloatArray], float],
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Returns the ends of rliable's percentile interval of a function of two methods."""
    x, y = aligned(a, b)
    resampled = _PairBootstrap(x, y, resamples, rng)
    ends = resampled.conf_int(
        lambda left, right: np.array([function(left, right)]),
        reps=resamples,
        size=level,
        method="percentile",
    )
    return float(ends[0, 0]), float(ends[1, 0])
