"""Point and interval estimates of one label, with whatever had to be refused and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pacebench.harness.analysis.scores import STEPS
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import bootstrap, intervals, rliable_adapter, welch
from pacebench.harness.statistics.interval import Interval
from pacebench.harness.statistics.scores import Scores

Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number of one label, as the report prints it.

    Attributes:
        label: The label.
        scope: A setup, or `suite`.
        estimand: The run-level score.
        functional: How runs are aggregated: mean, iqm, median, optimality_gap.
        value: The estimate.
        standard_error: Of the mean, as the papers print it; None for other functionals.
        interval: The default interval; None where refused.
        rliable: The percentile interval other papers print; None where refused.
        bounded: Learned-Miller–Thomas, where the score has declared bounds.
        refusals: One sentence per interval that was refused or replaced.
        worst: The estimate with every unknown run at its worst; None without unknown runs.
        best: The same at its best.
        runs: Runs per setup behind the estimate.
        unresolved: Planned runs whose score is unknown.
    """

    label: str
    scope: str
    estimand: str
    functional: str
    value: float
    standard_error: float | None
    interval: Interval | None
    rliable: Interval | None
    bounded: Interval | None
    refusals: tuple[str, ...]
    worst: float | None = None
    best: float | None = None
    runs: int = 0
    unresolved: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("interval", "rliable", "bounded"):
            item = record[name]
            record[name] = item.to_dict() if item is not None else None
        record["refusals"] = list(self.refusals)
        return record


def functionals(estimand: str, scope: str) -> tuple[str, ...]:
    """Returns the aggregates that are reported of an estimand."""
    if scope == SUITE and estimand == "normalised":
        return ("mean", "iqm", "median", "optimality_gap")
    if estimand in ("success", "solved", STEPS) or scope == SUITE:
        return ("mean",)
    return ("mean", "iqm")


@dataclass
class _Attempt:
    """Collects intervals, and the sentences of those that were refused."""

    refusals: list[str] = field(default_factory=list)

    def __call__(self, make: Callable[[], Interval]) -> Interval | None:
        try:
            return make()
        except UserError as refusal:
            if refusal.sentences[0] not in self.refusals:
                self.refusals.append(refusal.sentences[0])
            return None


def estimate(
    scores: Scores,
    scope: str,
    estimand: str,
    bounds: Bounds | None,
    rng: np.random.Generator,
    level: float,
) -> list[Estimate]:
    """Returns the estimates of all functionals of one estimand, with their intervals.

    Args:
        scores: One value per run; the tasks are the setups of the scope.
        scope: A setup, or `suite`.
        estimand: The run-level score.
        bounds: Smallest and largest possible score, if declared.
        rng: Source of the resamples.
        level: Nominal level.
    """
    resamples = bootstrap.enough(intervals.RESAMPLES, scores.runs)
    names = functionals(estimand, scope)
    distributions = bootstrap.resample(scores.matrix, names, resamples, rng)
    found = []
    for name in names:
        attempt = _Attempt()

        def resampled(kind: str, name: str = name) -> Interval:
            return intervals.from_distribution(scores, name, distributions[name], kind, level)

        limited, error = None, None
        if name == "mean":
            if bounds is not None:
                # A floor above the worst score seen is no bound: refused, with the sentence.
                limited = attempt(lambda: intervals.bounded_mean(scores, bounds, rng, level))
            error = float(welch.mean_moments(scores.matrix).error) if scores.runs > 1 else None
            main = attempt(lambda: _mean_interval(scores, estimand, level, bounds))
            if main is None and limited is not None:
                main = replace(limited, note="no run varies: interval for bounded scores instead")
        else:
            main = attempt(lambda: resampled(intervals.EXPANDED))
        found.append(
            Estimate(
                label=scores.method,
                scope=scope,
                estimand=estimand,
                functional=name,
                value=rliable_adapter.aggregate(name, scores.matrix),
                standard_error=error,
                interval=main,
                rliable=attempt(lambda: resampled(intervals.PERCENTILE)),
                bounded=limited,
                refusals=tuple(attempt.refusals),
                runs=scores.runs,
            )
        )
    return found


def _mean_interval(scores: Scores, estimand: str, level: float, bounds: Bounds | None) -> Interval:
    if estimand in ("success", "solved"):
        return intervals.success(scores, level)
    return intervals.mean_t(scores, level, bounds)
