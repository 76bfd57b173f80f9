"""Tests of a difference between two methods' means: Welch, and a studentised permutation.

Welch is the primary test. The permutation is the sensitivity analysis: it needs no normality, and
because its statistic is studentised it keeps its size when the methods differ in spread only, where
Mann–Whitney does not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pacebench.harness.statistics import welch
from pacebench.harness.statistics.scores import FloatArray, Scores, aligned, require_replication

_BLOCK = 1 << 20


@dataclass(frozen=True)
class TestResult:
    """The outcome of a test.

    Attributes:
        kind: Which test.
        estimate: The difference tested.
        statistic: The t statistic.
        df: Satterthwaite's degrees of freedom, NaN for the permutation.
        p_value: Two-sided.
        draws: Permutations drawn, 0 for Welch.
    """

    __test__ = False  # it is not a test case, whatever its name suggests to pytest

    kind: str
    estimate: float
    statistic: float
    df: float
    p_value: float
    draws: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def welch_test(a: Scores, b: Scores, *, paired: bool = False) -> TestResult | None:
    """Tests equal means, stratified by task; None where no run varies, so that no t exists.

    Args:
        a: The method.
        b: What it is compared with.
        paired: Whether runs with the same seed form declared pairs.
    """
    require_replication(a, b)
    x, y = aligned(a, b)
    moments = welch.difference_moments(x, y, paired=paired)
    if moments.error == 0:
        return None
    return TestResult(
        kind="paired-t" if paired else "welch-t",
        estimate=float(moments.estimate),
        statistic=float(welch.statistic(moments)),
        df=float(moments.df),
        p_value=float(welch.p_value(moments)),
    )


def permutation_test(
    a: Scores, b: Scores, rng: np.random.Generator, draws: int = 9_999, *, paired: bool = False
) -> TestResult:
    """Tests equal means by permuting methods among the runs of each task, studentised.

    The p-value counts the data themselves among the permutations, so it is never zero.

    Args:
        a: The method.
        b: What it is compared with.
        rng: Source of the permutations.
        draws: How many.
        paired: Whether runs with the same seed form declared pairs: methods are then permuted
            within pairs only.
    """
    require_replication(a, b)
    x, y = aligned(a, b)
    observed = welch.difference_moments(x, y, paired=paired)
    t = float(welch.statistic(observed))
    if paired:
        reference = np.abs(sign_statistics(x - y, rng, draws))
    else:
        reference = np.abs(permutation_statistics(x, y, rng, draws))
    # Rounding makes equal splits differ in the last bits; they count as equal.
    extreme = int(np.sum(reference >= abs(t) * (1 - 1e-9)))
    return TestResult(
        kind="paired-studentised-permutation" if paired else "studentised-permutation",
        estimate=float(observed.estimate),
        statistic=t,
        df=float("nan"),
        p_value=(1 + extreme) / (1 + draws),
        draws=draws,
    )


def permutation_statistics(
    x: FloatArray, y: FloatArray, rng: np.random.Generator, draws: int
) -> FloatArray:
    """Returns the studentised statistic on each of `draws` permutations within tasks."""
    pooled = np.concatenate([x, y])
    total, tasks = pooled.shape
    rows = max(1, _BLOCK // pooled.size)
    parts = []
    for start in range(0, draws, rows):
        keys = rng.random((min(rows, draws - start), total, tasks))
        order = np.argsort(keys, axis=1)
        shuffled = np.take_along_axis(np.broadcast_to(pooled, order.shape), order, axis=1)
        moments = welch.difference_moments(shuffled[:, : len(x)], shuffled[:, len(x) :])
        parts.append(welch.statistic(moments))
    return np.concatenate(parts)


def sign_statistics(differences: FloatArray, rng: np.random.Generator, draws: int) -> FloatArray:
    """Returns the studentised statistic with the signs of paired differences drawn anew."""
    rows = max(1, _BLOCK // differences.size)
    parts = []
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        signs = 2.0 * rng.integers(2, size=(count, *differences.shape)) - 1.0
        parts.append(welch.statistic(welch.mean_moments(signs * differences)))
    return np.concatenate(parts)
