"""Reductions of a run and aggregates of runs, against arithmetic and rliable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rliable import metrics

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import estimands
from pacebench.harness.statistics.estimands import (
    auc,
    cvar,
    mean_return,
    steps_to_threshold,
    success_rate,
)

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(FINITE, min_size=1, max_size=60))
def test_cvar_lies_between_the_worst_and_the_mean(values: list[float]) -> None:
    worst = cvar(values)
    assert min(values) - 1e-6 <= worst <= np.mean(values) + 1e-6
    assert cvar(values, 1.0) == pytest.approx(np.mean(values), abs=1e-6)


def test_cvar_counts_fractions_of_an_episode() -> None:
    assert cvar([3.0, 1.0, 2.0, 4.0, 5.0], 0.2) == 1.0
    # Worst 20 % of 8 episodes: the worst one and 0.6 of the next.
    assert cvar([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 0.2) == pytest.approx((1 + 0.6 * 2) / 1.6)
    with pytest.raises(UserError, match="share"):
        cvar([1.0], 0.0)


def test_area_is_on_the_scale_of_the_score() -> None:
    assert auc([0, 10, 40], [2.0, 2.0, 2.0]) == 2.0
    assert auc([0, 10, 20], [0.0, 1.0, 1.0]) == pytest.approx(0.75)
    for bad in ([0], [0, 0], [1, 0]):
        with pytest.raises(UserError, match="increasing"):
            auc(bad, [1.0] * len(bad))


def test_steps_to_threshold_is_the_first_and_nan_if_never() -> None:
    assert steps_to_threshold([1, 2, 3], [0.0, 5.0, 0.0], 5.0) == 2.0
    assert np.isnan(steps_to_threshold([1, 2, 3], [0.0, 1.0, 2.0], 5.0))


@pytest.mark.parametrize("reduce", [mean_return, success_rate, cvar])
def test_a_run_with_gaps_has_no_summary(reduce: object) -> None:
    with pytest.raises(UserError, match="finite"):
        reduce([1.0, np.nan])  # type: ignore[operator]
    with pytest.raises(UserError, match="vector"):
        reduce([[1.0], [2.0]])  # type: ignore[operator]


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_aggregates_are_rliables(runs: int, tasks: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(runs, tasks))
    assert estimands.iqm(values) == pytest.approx(metrics.aggregate_iqm(values), abs=1e-12)
    assert estimands.mean(values) == pytest.approx(metrics.aggregate_mean(values), abs=1e-12)
    assert estimands.median(values) == pytest.approx(metrics.aggregate_median(values), abs=1e-12)
    expected = metrics.aggregate_optimality_gap(values)
    assert estimands.optimality_gap(values) == pytest.approx(expected, abs=1e-12)


def test_leading_axes_are_data_sets() -> None:
    values = np.random.default_rng(0).normal(size=(7, 9, 3))
    for function in estimands.FUNCTIONALS.values():
        np.testing.assert_allclose(function(values), [float(function(v)) for v in values])
