"""Intervals of scores, one function per kind, each carrying its simulated coverage.

Which one is the default for which estimand, and why, is in docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def difference_t(
    a: Scores,
    b: Scores,
    level: float = LEVEL,
    *,
    paired: bool = False,
    single_level: float | None = None,
) -> Interval:
    """Returns the stratified Welch–Satterthwaite t interval of the difference a − b.

    Args:
        a: The method.
        b: What is subtracted.
        level: Nominal level, of the whole family if the interval is one of a family.
        paired: Whether runs with equal seeds form declared pairs.
        single_level: The level at which each of a family is computed so that all hold together,
            from `multiplicity.simultaneous_level`.
    """
    require_replication(a, b)
    x, y = aligned(a, b)
    if paired and a.seeds != b.seeds:
        raise UserError(f"'{a.method}' and '{b.method}' cannot be paired: their seeds differ.")
    moments = welch.difference_moments(x, y, paired=paired)
    low, high = welch.bounds(moments, level if single_level is None else single_level)
    kind = "paired-t" if paired else "welch-t"
    kind = kind if single_level is None else "simultaneous-t"
    fewer = a if a.runs <= b.runs else b
    shapes = [coverage.classify(scores.matrix) for scores in (a, b)]
    return _build(moments.estimate, low, high, level, kind, "difference", fewer, *shapes)


def percentile(
    scores: Scores,
    functionals: Sequence[str],
    rng: np.random.Generator,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """Returns rliable's percentile intervals: what other papers print.

    Raises:
        RefusedIntervalError: At five runs or fewer on one task, where they are far too narrow.
    """
    return _resampled(scores, functionals, rng, PERCENTILE, level, resamples)


def expanded_percentile(
    scores: Scores,
    functionals: Sequence[str],
    rng: np.random.Generator,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """Returns Hesterberg's expanded percentile intervals of functionals such as the IQM.

    Raises:
        RefusedIntervalError: At five runs or fewer on one task.
    """
    return _resampled(scores, functionals, rng, EXPANDED, level, resamples)


def _resampled(
    scores: Scores,
    functionals: Sequence[str],
    rng: np.random.Generator,
    kind: str,
    level: float,
    resamples: int,
) -> dict[str, Interval]:
    refuse_few_runs(scores)
    values = bootstrap.resample(scores.matrix, functionals, resamples, rng)
    return {
        name: from_distribution(scores, name, distribution, kind, level)
        for name, distribution in values.items()
    }


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
    shapes = [coverage.classify(scores.matrix) for scores in (a, b)]
    kind, estimand = "logit-brunner-munzel", "improvement"
    if effect.error > 0:
        low, high = improvement.logit_bounds(effect, level)
        value = rliable_adapter.improvement(x, y)
        return _build(value, low, high, level, kind, estimand, fewer, *shapes)
    p = float(effect.estimate)
    if p not in (0.0, 1.0):
        raise RefusedIntervalError(
            f"'{a.method}' and '{b.method}' tie or separate on every task (P = {p:g}), so the "
            f"probability of improvement has no spread to make an interval from; run more seeds."
        )
    ends = improvement.separated_bounds(p == 1.0, fewer.matrix.size, level)
    interval = _build(p, *ends, level, kind, estimand, fewer, *shapes)
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
    shapes = [coverage.classify(scores.matrix) for scores in (a, b)]
    estimates = {
        "difference": float(estimands.mean(x) - estimands.mean(y)),
        "improvement": rliable_adapter.improvement(x, y),
    }
    found = {}
    for name, distribution in bootstrap.resample_pair(x, y, resamples, rng).items():
        ends = bootstrap.quantiles(distribution, bootstrap.percentile_tail(level))
        # Where runs do not overlap every resample wins all pairs, up to rounding: no width.
        if ends[1] - ends[0] > 1e-9 * max(1.0, abs(ends[1])):
            found[name] = _build(estimates[name], *ends, level, PERCENTILE, name, fewer, *shapes)
    return found


def bounded_difference(a: Interval, b: Interval) -> Interval:
    """Returns the interval of a difference from two single ones (Newcombe, MOVER).

    It has a width wherever the single ones have, so it stands in where no run varies.
    """
    first, second = (np.array([i.estimate, i.low, i.high]) for i in (a, b))
    estimate, low, high = bounded.mover(tuple(first), tuple(second))
    interval = Interval(
        estimate=float(estimate),
        low=float(low),
        high=float(high),
        level=a.level,
        kind=f"mover-{a.kind}",
        estimand="difference",
        runs=min(a.runs, b.runs),
        tasks=a.tasks,
    )
    # A single interval whose shape was not simulated does not know what its data look like.
    shapes = [i.coverage.shape if i.coverage.matched else "" for i in (a, b) if i.coverage]
    return coverage.attach(interval, *shapes)


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
    *shapes: str,
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
    return coverage.attach(interval, *shapes)
