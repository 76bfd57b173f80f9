"""Steps to threshold: Kaplan–Meier by hand, and censoring that is never averaged away."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import UserError
from harness.statistics.survival import kaplan_meier, restrict, restricted_mean


def test_kaplan_meier_by_hand() -> None:
    curve = kaplan_meier(np.array([10.0, 20.0, 20.0, np.nan, np.nan]), 100.0)
    np.testing.assert_allclose(curve.steps, [0, 10, 20])
    np.testing.assert_allclose(curve.share, [1, 0.8, 0.4])
    assert (curve.runs, curve.censored) == (5, 2)
    # Log–log limits at 0.4 with Greenwood's error √(0.4·0.6/5).
    error = np.sqrt(0.4 * 0.6 / 5)
    theta = 1.959964 * error / (0.4 * abs(np.log(0.4)))
    assert curve.low[2] == pytest.approx(0.4 ** np.exp(theta), rel=1e-5)
    assert curve.high[2] == pytest.approx(0.4 ** np.exp(-theta), rel=1e-5)


def test_nobody_made_it_and_everybody_did() -> None:
    nobody = kaplan_meier(np.full(4, np.nan), 50.0)
    assert nobody.censored == 4
    assert (nobody.share == 1).all()
    everybody = kaplan_meier(np.array([1.0, 2.0]), 50.0)
    assert everybody.share[-1] == 0


def test_restricted_mean_counts_those_that_never_made_it() -> None:
    steps = np.array([10.0, 20.0, np.nan, np.nan])
    times = restrict(steps, 100.0)
    np.testing.assert_array_equal(times, [10, 20, 100, 100])
    mean, error, df = restricted_mean(times, ~np.isnan(steps), 100.0)
    assert mean == 57.5
    assert mean > np.nanmean(steps), "an average over those that made it would say 15"
    assert error == pytest.approx(times.std(ddof=1) / 2)
    assert df == 3


def test_restricted_mean_with_early_censoring_is_the_area_under_the_curve() -> None:
    # Falls at 10 (5 at risk) and 30 (3 at risk, one lost at 20): S = 0.8, then 0.8·2/3.
    times = np.array([10.0, 20.0, 30.0, 40.0, 40.0])
    reached = np.array([True, False, True, False, False])
    mean, error, df = restricted_mean(times, reached, 40.0)
    assert mean == pytest.approx(10 + 20 * 0.8 + 10 * 0.8 * 2 / 3)
    after = [20 * 0.8 + 10 * 0.8 * 2 / 3, 10 * 0.8 * 2 / 3]
    variance = after[0] ** 2 * 1 / (5 * 4) + after[1] ** 2 * 1 / (3 * 2)
    assert error == pytest.approx(np.sqrt(variance * 5 / 4))
    assert df == 1


def test_both_formulas_agree_where_nothing_is_censored_early() -> None:
    """Greenwood's area variance with n/(n−1) is the variance of a mean."""
    rng = np.random.default_rng(0)
    times = rng.uniform(1, 120, 30)
    steps = np.minimum(times, 100.0)
    plain, error, _ = restricted_mean(steps, times <= 100, 100.0)
    # A run lost at the horizon minus nothing is not early; force the other branch a hair before.
    nearly = np.where(times > 100, 100.0 - 1e-9, steps)
    area, other, _ = restricted_mean(nearly, times <= 100, 100.0)
    assert area == pytest.approx(plain, rel=1e-6)
    assert other == pytest.approx(error, rel=1e-6)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="horizon"):
        restrict(np.array([1.0]), 0.0)
    with pytest.raises(UserError, match="negative"):
        restrict(np.array([-1.0]), 10.0)
