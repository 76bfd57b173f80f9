"""Intervals of scores, one function per kind, each carrying its simulated coverage.

Which one is the default for which estimand, and why, is in docs/statistics.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import (
    bootstrap,
    bounded,
    coverage,
    estimands,
    improvement,
    rliable_adapter,
    welch,
)
from pacebench.harness.statistics.interval import (
    PERCENTILE_MINIMUM_RUNS,
    Interval,
    RefusedIntervalError,
)
from pacebench.harness.statistics.scores import FloatArray, Scores, aligned, require_replication

LEVEL = 0.95
RESAMPLES = 50_000
PERCENTILE = "percentile (rliable)"
EXPANDED = "expanded-percentile"
Bounds = tuple[float, float]


def mean_t(scores: Scores, level: float = LEVEL, bounds: Bounds | None = None) -> Interval:
    """Returns the stratified Welch–Satterthwaite t interval of the mean over tasks."""
    require_replication(scores)
    moments = welch.mean_moments(scores.matrix)
    low, high = welch.bounds(moments, level)
    shape = coverage.classify(scores.matrix, bounds)
    return _build(moments.estimate, low, high, level, "welch-t", "mean", scores, shape)


def from_distribution(
    scores: Scores, functional: str, distribution: FloatArray, kind: str, level: float = LEVEL
) -> Interval:
    """Returns the interval of one functional from its values on resamples.

    Args:
        scores: The scores that were resampled.
        functional: Name from `estimands.FUNCTIONALS`.
        distribution: From `bootstrap.resample`.
        kind: `PERCENTILE` or `EXPANDED`.
        level: Nominal level.
    """
    refuse_few_runs(scores)
    tails = {
        PERCENTILE: lambda: bootstrap.percentile_tail(level),
        EXPANDED: lambda: expanded_tail(scores.matrix, level),
    }
    low, high = bootstrap.quantiles(distribution, tails[kind]())
    estimate = rliable_adapter.aggregate(functional, scores.matrix)
    shape = coverage.classify(scores.matrix)
    return _build(estimate, low, high, level, kind, functional, scores, shape)


def expanded_tail(values: FloatArray, level: float) -> float:
    """Returns the expanded percentile's tail for scores (runs × tasks)."""
    df = float(welch.mean_moments(values).df)
    return bootstrap.expanded_tail(level, values.shape[0], df)


def success(scores: Scores, level: float = LEVEL) -> Interval:
    """Returns Wilson's interval of the success rate; the trials are training runs."""
    if scores.matrix.min() < 0 or scores.matrix.max() > 1:
        raise UserError(f"Success rates of '{scores.method}' must lie in [0, 1].")
    rate = estimands.mean(scores.matrix)
    low, high = bounded.wilson(rate, scores.matrix.size, level)
    shape = coverage.classify(scores.matrix, (0.0, 1.0))
    return _build(rate, low, high, level, "wilson", "success", scores, shape)


def bounded_mean(
    scores: Scores,
    bounds: Bounds,
    rng: np.random.Generator,
    level: float = LEVEL,
    draws: int = 10_000,
) -> Interval:
    """Returns the Learned-Miller–Thomas interval of the mean of bounded scores."""
    draws = bootstrap.enough(draws, scores.runs)
    uniforms = bounded.uniform_order_statistics(scores.runs, len(scores.tasks), draws, rng)
    low, high = bounded.learned_miller_thomas(scores.matrix, *bounds, level, uniforms)
    shape = coverage.classify(scores.matrix, bounds)
    estimate = estimands.mean(scores.matrix)
    return _build(estimate, low, high, level, "learned-miller-thomas", "mean", scores, shape)


def probability_of_improvement(a: Scores, b: Scores, level: float = LEVEL) -> Interval:
    """Returns the logit Brunner–Munzel interval of P(a > b) + ½ P(a = b), averaged over tasks.

    Where the runs do not overlap at all, an exact binomial interval from matched runs stands in.
    """
    require_replication(a, b)
    x, y = aligned(a, b)
    effect = improvement.moments(x, y)
    fewer = a if a.runs <= b.runs else b
    shape = coverage.classify_pair(x, y)
    kind, estimand = "logit-brunner-munzel", "improvement"
    if effect.error > 0:
        low, high = improvement.logit_bounds(effect, level)
        value = rliable_adapter.improvement(x, y)
        return _build(value, low, high, level, kind, estimand, fewer, shape)
    p = float(effect.estimate)
    if p not in (0.0, 1.0):
        raise RefusedIntervalError(
            f"'{a.method}' and '{b.method}' tie or separate on every task (P = {p:g}), so the "
            f"probability of improvement has no spread to make an interval from; run more seeds."
        )
    ends = improvement.separated_bounds(p == 1.0, fewer.matrix.size, level)
    interval = _build(p, *ends, level, kind, estimand, fewer, shape)
    return replace(
        interval, note="no overlap between the runs: exact binomial interval of matched runs"
    )


def percentile_pair(
    a: Scores,
    b: Scores,
    rng: np.random.Generator,
    level: float = LEVEL,
    resamples: int = 10_000,
) -> dict[str, Interval]:
    """Returns the percentile intervals of the difference and of P(a beats b) that others print.

    Raises:
        RefusedIntervalError: At five runs or fewer on one task, or where no run varies.
    """
    refuse_few_runs(a)
    refuse_few_runs(b)
    x, y = aligned(a, b)
    fewer = a if a.runs <= b.runs else b
    shape = coverage.classify_pair(x, y)
    estimates = {
        "difference": float(estimands.mean(x) - estimands.mean(y)),
        "improvement": rliable_adapter.improvement(x, y),
    }
    found = {}
    resamples = bootstrap.enough(resamples, fewer.runs)
    for name, distribution in bootstrap.resample_pair(x, y, resamples, rng).items():
        ends = bootstrap.quantiles(distribution, bootstrap.percentile_tail(level))
        # Where runs do not overlap every resample wins all pairs, up to rounding: no width.
        if ends[1] - ends[0] > 1e-9 * max(1.0, abs(ends[1])):
            found[name] = _build(estimates[name], *ends, level, PERCENTILE, name, fewer, shape)
    return found


def refuse_few_runs(scores: Scores) -> None:
    """Refuses percentile-type intervals where they are far too narrow.

    Raises:
        RefusedIntervalError: At five runs or fewer on one task.
    """
    require_replication(scores)
    if len(scores.tasks) == 1 and scores.runs < PERCENTILE_MINIMUM_RUNS:
        raise RefusedIntervalError(
            f"A percentile-type interval from {scores.runs} runs on one task holds the truth far "
            f"less often than it says; look at the runs themselves, or run at least "
            f"{PERCENTILE_MINIMUM_RUNS} seeds."
        )


def _build(
    estimate: FloatArray | float,
    low: FloatArray | float,
    high: FloatArray | float,
    level: float,
    kind: str,
    estimand: str,
    scores: Scores,
    shape: str,
) -> Interval:
    interval = Interval(
        estimate=float(estimate),
        low=float(low),
        high=float(high),
        level=level,
        kind=kind,
        estimand=estimand,
        runs=scores.runs,
        tasks=len(scores.tasks),
    )
    return coverage.attach(interval, shape)
