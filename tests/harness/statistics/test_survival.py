"""Steps to threshold: Kaplan–Meier by hand, and censoring that is never averaged away."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.survival import kaplan_meier, restrict


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
    # Four of four: the exact lower limit is 0.025^(1/4). Never a limit without width.
    assert nobody.low[0] == pytest.approx(0.025**0.25)
    everybody = kaplan_meier(np.array([1.0, 2.0]), 50.0)
    assert everybody.share[-1] == 0
    assert everybody.low[-1] == 0
    assert everybody.high[-1] == pytest.approx(1 - 0.025**0.5)
    for curve in (nobody, everybody):
        assert (curve.high > curve.low).all()


def test_restricted_mean_counts_those_that_never_made_it() -> None:
    steps = np.array([10.0, 20.0, np.nan, np.nan])
    times = restrict(steps, 100.0)
    np.testing.assert_array_equal(times, [10, 20, 100, 100])
    assert times.mean() == 57.5
    assert times.mean() > np.nanmean(steps), "an average over those that made it would say 15"


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="horizon"):
        restrict(np.array([1.0]), 0.0)
    with pytest.raises(UserError, match="negative"):
        restrict(np.array([-1.0]), 10.0)
