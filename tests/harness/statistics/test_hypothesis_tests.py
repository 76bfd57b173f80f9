"""Tests against scipy, and what the permutation is exact about."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.statistics import welch
from pacebench.harness.statistics.hypothesis_tests import permutation_test, welch_test
from pacebench.harness.statistics.scores import Scores


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 9999))
def test_welch_on_one_task_is_scipys(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.normal(0.5, 3, size=m)
    oracle = stats.ttest_ind(a, b, equal_var=False)
    found = welch_test(Scores.single_task("a", a), Scores.single_task("b", b))
    assert found is not None
    assert found.p_value == pytest.approx(oracle.pvalue)
    assert found.df == pytest.approx(oracle.df)
    assert found.statistic == pytest.approx(oracle.statistic)


def test_paired_is_scipys_related() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 15))
    found = welch_test(Scores.single_task("a", a), Scores.single_task("b", b), paired=True)
    assert found is not None
    assert found.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_no_spread_no_t() -> None:
    a, b = Scores.single_task("a", np.ones(9)), Scores.single_task("b", np.zeros(9))
    assert welch_test(a, b) is None
    test = permutation_test(a, b, np.random.default_rng(0), 9_999)
    # Two of the C(18, 9) = 48 620 splits are as extreme.
    assert test.p_value < 0.002
    same = permutation_test(a, a, np.random.default_rng(0), 99)
    assert same.p_value == 1.0


def test_permutation_comes_close_to_full_enumeration() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.9, 1, 5), rng.normal(0, 2, 5)
    pooled = np.concatenate([a, b])
    observed = abs(stats.ttest_ind(a, b, equal_var=False).statistic)
    count = 0
    for chosen in combinations(range(10), 5):
        mask = np.isin(np.arange(10), chosen)
        t = stats.ttest_ind(pooled[mask], pooled[~mask], equal_var=False).statistic
        count += abs(t) >= observed - 1e-9
    found = permutation_test(
        Scores.single_task("a", a), Scores.single_task("b", b), np.random.default_rng(0), 20_000
    )
    assert found.p_value == pytest.approx(count / 252, abs=0.012)


def test_permutation_never_mixes_tasks() -> None:
    """Tasks a thousand apart: permuting across them would drown the difference."""
    rng = np.random.default_rng(2)
    base = np.array([0.0, 1000.0, -1000.0])
    a = Scores("a", ("x", "y", "z"), tuple(range(8)), base + 2 + rng.normal(size=(8, 3)))
    b = Scores("b", ("x", "y", "z"), tuple(range(8)), base + rng.normal(size=(8, 3)))
    assert permutation_test(a, b, np.random.default_rng(0), 999).p_value == 0.001


def test_paired_permutation_comes_close_to_full_enumeration() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.6, 1, 8), rng.normal(size=8)
    gap = a - b
    observed = abs(stats.ttest_1samp(gap, 0).statistic)
    count = 0
    for bits in range(2**8):
        signs = np.array([1 if bits >> i & 1 else -1 for i in range(8)])
        count += abs(stats.ttest_1samp(signs * gap, 0).statistic) >= observed - 1e-9
    found = permutation_test(
        Scores.single_task("a", a),
        Scores.single_task("b", b),
        np.random.default_rng(0),
        20_000,
        paired=True,
    )
    assert found.p_value == pytest.approx(count / 2**8, abs=0.012)


def test_p_value_is_never_zero_and_reproducible() -> None:
    a, b = Scores.single_task("a", np.arange(9.0) + 50), Scores.single_task("b", np.arange(9.0))
    first = permutation_test(a, b, np.random.default_rng(3), 199)
    assert first.p_value > 0
    assert first == permutation_test(a, b, np.random.default_rng(3), 199) or np.isnan(first.df)


def test_one_sided_p_values_are_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 12, 1))
    moments = welch.difference_moments(a, b)
    above, below = welch.one_sided(moments, 0.0)
    oracle = stats.ttest_ind(a[:, 0], b[:, 0], equal_var=False, alternative="greater").pvalue
    assert float(above) == pytest.approx(oracle)
    assert float(above + below) == pytest.approx(1)
