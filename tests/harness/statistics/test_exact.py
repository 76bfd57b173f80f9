"""What could hide, and the permutation p-value against brute force and SciPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import exact
from tests.harness.statistics.test_self_validation import sizes, slack

scores = st.lists(st.one_of(st.integers(-3, 3), st.floats(-5, 5)), min_size=1, max_size=5)


def brute_force(x: list[float], y: list[float]) -> float:
    pooled = np.array([*x, *y], dtype=float)
    indices = set(range(len(pooled)))
    found = [
        abs(pooled[list(a)].mean() - pooled[list(indices - set(a))].mean())
        for a in itertools.combinations(range(len(pooled)), len(x))
    ]
    return float(np.mean(np.array(found) >= found[0] - 1e-9 * np.ptp(pooled)))


@given(scores, scores)
def test_small_samples_are_counted_in_full(x: list[float], y: list[float]) -> None:
    found = exact.permutation_p_value(x, y, np.random.default_rng(0))
    assert found == pytest.approx(brute_force(x, y), rel=1e-12)


def test_twelve_runs_each_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=12), rng.normal(0.8, size=12)
    drawn = stats.permutation_test(
        (x, y), lambda a, b, axis: a.mean(axis) - b.mean(axis), n_resamples=50_000, rng=rng
    ).pvalue
    found = exact.permutation_p_value(x, y, rng)
    assert found == pytest.approx(drawn, abs=4 * math.sqrt(drawn / 50_000))
    assert found == exact.permutation_p_value(y, x, rng) == exact.permutation_p_value(-x, -y, rng)
    assert found * math.comb(24, 12) == pytest.approx(round(found * math.comb(24, 12)))


def test_larger_samples_are_drawn_and_the_data_count() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=13), rng.normal(0.5, size=40)
    found = exact.permutation_p_value(x, y, rng, 20_000)
    welch = stats.ttest_ind(x, y).pvalue
    assert found == pytest.approx(welch, abs=0.02)
    apart = exact.permutation_p_value(np.arange(20.0), 100 + np.arange(20.0), rng, 1_000)
    assert apart == 1 / 1_001


def test_equal_scores_do_not_differ() -> None:
    for runs in (1, 5, 30):
        assert exact.permutation_p_value([0.1] * runs, [0.1] * runs, np.random.default_rng(0)) == 1


@sizes(400, 4_000)
def test_the_p_value_is_valid(sets: int) -> None:
    rng = np.random.default_rng(1)
    values = rng.random((sets, 14)) ** 3
    found = [exact.permutation_p_value(row[:7], row[7:], rng) for row in values]
    assert np.mean(np.array(found) <= 0.1) <= 0.1 + slack(0.1, sets)
    assert np.mean(np.array(found) <= 0.1) >= 0.1 - slack(0.1, sets) - 2 / math.comb(14, 7)


@pytest.mark.parametrize(("x", "y"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0])])
def test_nothing_to_permute_is_refused(x: list[float], y: list[float]) -> None:
    with pytest.raises(UserError, match="permutation"):
        exact.permutation_p_value(x, y, np.random.default_rng(0))


def test_what_could_hide() -> None:
    assert exact.hidden_failure_rate(0, 0.05) == 1
    assert exact.hidden_failure_rate(10, 0.05) == pytest.approx(0.2589, abs=1e-4)
    assert exact.hidden_failure_rate(59, 0.05) == pytest.approx(0.0495, abs=1e-4)
    for runs in (1, 7, 200):
        assert stats.binom.pmf(0, runs, exact.hidden_failure_rate(runs, 0.01)) == pytest.approx(
            0.01
        )
