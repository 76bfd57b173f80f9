"""Profiles and learning curves: shapes against rliable, bands against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from rliable import library
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.curves import learning_curve, max_t_quantile
from pacebench.harness.statistics.profiles import half_width, performance_profile, profile
from pacebench.harness.statistics.scores import Scores


def _scores() -> Scores:
    values = np.round(np.random.default_rng(0).random((10, 3)), 1)
    return Scores("m", ("a", "b", "c"), tuple(range(10)), values)


def test_profile_is_rliables() -> None:
    grid = np.linspace(-0.1, 1.1, 25)
    band = performance_profile(_scores(), grid)
    np.testing.assert_array_equal(band.centre, library.score_distributions(_scores().matrix, grid))
    np.testing.assert_allclose(band.centre, profile(_scores().matrix, grid), rtol=0, atol=1e-15)
    assert band.centre[0] == 1
    assert band.centre[-1] == 0
    assert (np.diff(band.centre) <= 0).all()
    assert band.simultaneous
    assert "simultaneous 95 % band" in band.caption


@pytest.mark.parametrize("runs", [5, 20, 100])
def test_profile_band_is_kolmogorovs_and_inside_dkw(runs: int) -> None:
    half = half_width(runs, 1, 0.95)
    assert half == pytest.approx(stats.kstwo.ppf(0.95, runs))
    assert half < np.sqrt(np.log(2 / 0.05) / (2 * runs))


def test_curve_quantile_lies_between_one_point_and_bonferroni() -> None:
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(12, 30)), axis=1)
    found = max_t_quantile(walks, 0.95, np.random.default_rng(1))
    assert stats.t.isf(0.025, 11) < found < stats.t.isf(0.025 / 30, 11)
    # One curve repeated is one point; the shrinkage towards independence keeps it a bit wider.
    copies = np.repeat(rng.normal(size=(60, 1)), 30, axis=1)
    assert max_t_quantile(copies, 0.95, np.random.default_rng(1)) == pytest.approx(2.0, abs=0.35)


def test_many_runs_need_not_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = np.cumsum(np.random.default_rng(0).normal(size=(220, 6)), axis=1)
    found = max_t_quantile(walks, 0.95, np.random.default_rng(1))
    monkeypatch.setattr("pacebench.harness.statistics.curves.MANY_RUNS", len(walks))
    drawn = max_t_quantile(walks, 0.95, np.random.default_rng(1))
    assert found == pytest.approx(drawn, abs=0.08)
    assert found != drawn


def test_curve_band_and_its_gaps() -> None:
    rng = np.random.default_rng(0)
    curves = rng.normal(size=(6, 4)).cumsum(axis=1)
    curves[:, 0] = 1.0
    band = learning_curve([0, 10, 20, 30], curves, range(6), np.random.default_rng(0))
    assert np.isnan(band.low[0])
    assert np.isfinite(band.low[1:]).all()
    np.testing.assert_allclose(band.centre, curves.mean(axis=0))
    assert (band.high[1:] > band.low[1:]).all()
    again = learning_curve([0, 10, 20, 30], curves, range(6), np.random.default_rng(0))
    np.testing.assert_array_equal(band.low, again.low)


def test_curves_are_checked() -> None:
    rng = np.random.default_rng(0)
    curves = rng.normal(size=(6, 4))
    with pytest.raises(UserError, match="one column per step"):
        learning_curve([0, 1, 2, 3], curves.T, range(6), rng)
    with pytest.raises(UserError, match="repeat a seed"):
        learning_curve([0, 1, 2, 3], curves, [0, 0, 1, 2, 3, 4], rng)
    with pytest.raises(UserError, match="gaps"):
        learning_curve([0, 1, 2, 3], np.where(curves > 1, np.nan, curves * np.inf), range(6), rng)
    with pytest.raises(UserError, match="two runs"):
        learning_curve([0, 1, 2, 3], curves[:1], [0], rng)
