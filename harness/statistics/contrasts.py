"""Comparisons of two methods: difference, tests, probability of improvement, verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import hypothesis_tests, intervals, verdicts, welch
from pacebench.harness.statistics.hypothesis_tests import TestResult
from pacebench.harness.statistics.interval import Interval, RefusedIntervalError
from pacebench.harness.statistics.power import minimum_detectable_effect, runs_needed
from pacebench.harness.statistics.scores import Scores, aligned
from pacebench.harness.statistics.specification import SUCCESS, StatisticsSpec
from pacebench.harness.statistics.verdicts import Verdict, VerdictKind

Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two methods' scores on one scope, before anything is decided.

    Attributes:
        method: The method.
        control: What it is compared with.
        scope: A setup, or `suite`.
        column: The run-level score.
        a: The method's scores; None where no run is known.
        b: The control's.
        extremes: The same two with unknown runs worst for the method and best for the control, and
            the other way round; empty where all runs are known, None where the range is not.
        bounds: Smallest and largest possible score, if declared.
        family: Whether it belongs to the declared family.
    """

    method: str
    control: str
    scope: str
    column: str
    a: Scores | None
    b: Scores | None
    extremes: tuple[tuple[Scores, Scores], ...] | None
    bounds: Bounds | None
    family: bool


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the tests say about one pair of scores.

    Attributes:
        difference: The estimated difference.
        p_value: Welch's p-value; the permutation's where no run varies.
        equivalence_p: TOST's p-value; None without a smallest effect or without spread.
    """

    difference: float
    p_value: float
    equivalence_p: float | None


@dataclass(frozen=True, eq=False)
class ContrastResult:
    """A comparison as the report prints it.

    Attributes:
        comparison: The identity: method, control, scope, column.
        family: Whether it belongs to the declared family.
        interval: Interval of the difference method − control; None where refused.
        simultaneous: The interval that holds together with the family's others.
        test: Welch's test; None where no run varies.
        sensitivity: The studentised permutation test.
        adjusted_p: Holm's adjusted p-value in the family, None outside it.
        improvement: P(method beats control), ties half; None where refused.
        percentile: The percentile interval of the difference that other papers print.
        percentile_improvement: The same of P(method beats control).
        verdict: What it shows.
        refusals: One sentence per interval that was refused or replaced.
    """

    comparison: Comparison
    interval: Interval | None
    simultaneous: Interval | None
    test: TestResult | None
    sensitivity: TestResult | None
    adjusted_p: float | None
    improvement: Interval | None
    percentile: Interval | None
    percentile_improvement: Interval | None
    verdict: Verdict
    refusals: tuple[str, ...]

    @property
    def family(self) -> bool:
        """Whether it belongs to the declared family."""
        return self.comparison.family

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        record: dict[str, Any] = {
            name: getattr(self.comparison, name)
            for name in ("method", "control", "scope", "column", "family")
        }
        for name in ("interval", "simultaneous", "test", "sensitivity", "improvement",
                     "percentile", "percentile_improvement", "verdict"):  # fmt: skip
            item = getattr(self, name)
            record[name] = item.to_dict() if item is not None else None
        record["adjusted_p"] = self.adjusted_p
        record["refusals"] = list(self.refusals)
        return record


def moments(a: Scores, b: Scores, spec: StatisticsSpec) -> welch.Moments:
    """Returns the moments of the difference, paired where declared."""
    x, y = aligned(a, b)
    return welch.difference_moments(x, y, paired=spec.paired)


def weigh(
    a: Scores, b: Scores, spec: StatisticsSpec, sesoi: float | None, rng: np.random.Generator
) -> Evidence | None:
    """Returns the evidence of one pair of scores; None with a single run."""
    if min(a.runs, b.runs) < 2:
        return None
    found = moments(a, b, spec)
    if found.error == 0:
        p = _permutation(a, b, spec, rng).p_value
        return Evidence(float(found.estimate), p, None)
    equivalence = verdicts.tost(found, sesoi) if sesoi is not None else None
    return Evidence(float(found.estimate), float(welch.p_value(found)), equivalence)


def _permutation(
    a: Scores, b: Scores, spec: StatisticsSpec, rng: np.random.Generator
) -> TestResult:
    return hypothesis_tests.permutation_test(a, b, rng, spec.permutations, paired=spec.paired)


@dataclass
class Measured:
    """Intervals and tests of one comparison."""

    interval: Interval | None = None
    test: TestResult | None = None
    sensitivity: TestResult | None = None
    improvement: Interval | None = None
    refusals: tuple[str, ...] = ()


def measure(
    comparison: Comparison, spec: StatisticsSpec, level: float, rng: np.random.Generator
) -> Measured:
    """Returns whatever intervals and tests the runs of a comparison allow."""
    a, b = comparison.a, comparison.b
    if a is None or b is None or min(a.runs, b.runs) < 2:
        return Measured(refusals=("Fewer than two runs are known: nothing can be compared.",))
    refusals: list[str] = []
    interval, improvement = None, None
    try:
        interval = intervals.difference_t(a, b, level, paired=spec.paired)
    except RefusedIntervalError as refusal:
        refusals.append(refusal.sentences[0])
        try:
            found = bounded_difference(comparison, level, rng)
            interval = found and replace(
                found,
                note="no run varies: difference of two intervals for bounded scores instead",
            )
        except UserError as refusal_too:
            refusals.append(refusal_too.sentences[0])
    try:
        improvement = intervals.probability_of_improvement(a, b, level)
    except RefusedIntervalError as refusal:
        refusals.append(refusal.sentences[0])
    return Measured(
        interval=interval,
        test=hypothesis_tests.welch_test(a, b, paired=spec.paired),
        sensitivity=_permutation(a, b, spec, rng),
        improvement=improvement,
        refusals=tuple(refusals),
    )


def bounded_difference(
    comparison: Comparison, level: float, rng: np.random.Generator
) -> Interval | None:
    """Returns the interval of the difference from the range of the scores alone, if declared.

    Raises:
        UserError: The scores leave their declared range, or no run is known.
    """
    a, b = comparison.a, comparison.b
    if a is None or b is None:
        return None
    if comparison.column == SUCCESS:
        pair = [intervals.success(scores, level) for scores in (a, b)]
    elif comparison.bounds is not None:
        pair = [intervals.bounded_mean(scores, comparison.bounds, rng, level) for scores in (a, b)]
    else:
        return None
    return intervals.bounded_difference(*pair)


def detectable(comparison: Comparison, spec: StatisticsSpec, alpha: float) -> float | None:
    """Returns the minimum detectable effect with the runs at hand, None without spread."""
    if comparison.a is None or comparison.b is None:
        return None
    if min(comparison.a.runs, comparison.b.runs) < 2:
        return None
    found = moments(comparison.a, comparison.b, spec)
    try:
        return minimum_detectable_effect(float(found.error), float(found.df), alpha, spec.power)
    except UserError:
        return None


def needed(comparison: Comparison, spec: StatisticsSpec, alpha: float) -> int | None:
    """Returns the runs per cell that would find the smallest effect of interest at this spread."""
    effect = spec.smallest_effect(comparison.column, comparison.scope)
    if comparison.a is None or comparison.b is None or effect is None:
        return None
    runs = min(comparison.a.runs, comparison.b.runs)
    if runs < 2:
        return None
    found = moments(comparison.a, comparison.b, spec)
    try:
        return runs_needed(float(found.error), float(found.df), runs, effect, alpha, spec.power)
    except UserError:
        return None


def withhold(observed: VerdictKind, extremes: list[VerdictKind] | None, unresolved: int) -> str:
    """Returns why unknown runs forbid a verdict, or nothing.

    Args:
        observed: What the known runs show.
        extremes: What they show with the unknown ones at either extreme; None if the range of the
            score is not declared, so that the extremes are not known.
        unresolved: How many runs are unknown.
    """
    if unresolved == 0:
        return ""
    runs = f"{unresolved} planned runs have" if unresolved > 1 else "1 planned run has"
    if extremes is None:
        return f"{runs} no result and the range of the score is not declared"
    if any(outcome is not observed for outcome in extremes):
        shown = ", ".join(dict.fromkeys(f"'{outcome.value}'" for outcome in extremes))
        return (
            f"{runs} no result and could turn '{observed.value}' into another outcome "
            f"({shown} at the extremes)"
        )
    return ""
