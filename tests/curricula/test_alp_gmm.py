"""`alp-gmm`: where returns change, the fit of mixtures, the progress by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from pacebench import curricula
from pacebench.curricula import CurriculumError, Gaussian
from pacebench.curricula.gmm import best_mixture, fit

BOUNDS = ([-4.0, 0.0], [4.0, 2.0])


def make(**options):
    some = Gaussian([0.0, 1.0], [1.0, 1.0])
    return curricula.make("alp-gmm", target=some, initial=some, bounds=BOUNDS, **options)


def test_it_concentrates_where_returns_change():
    c, rng = make(), np.random.default_rng(0)
    for i in range(25):
        x = c.sample(20, rng)
        # Values grow with practice where 1 < c₀ < 2, and are constant elsewhere.
        learnable = (x[:, 0] > 1.0) & (x[:, 0] < 2.0)
        c.update(x, np.where(learnable, 0.3 * i, 1.0))
    drawn = c.sample(4000, rng)
    inside = (drawn[:, 0] > 0.8) & (drawn[:, 0] < 2.2)
    # A tenth of all contexts stays uniform; an eighth of the box is learnable.
    assert inside.mean() > 0.5
    assert (drawn[:, 0] < -1.0).mean() > 0.01
    assert c.known.shape == (500, 3)


def test_progress_is_the_change_at_the_nearest_earlier_context():
    c = make(fit_rate=50)
    x = np.array([[i - 3.0, 1.0] for i in range(7)])
    c.update(x, np.arange(7.0))
    # None until there are more than five to compare with; then 6 against 5.
    assert c.fresh[:, -1].tolist() == [0.0] * 6 + [1.0]
    c.update([[-2.9, 1.0]], [9.5])
    assert c.fresh[-1, -1] == 9.5
    np.testing.assert_allclose(c.fresh[-1, :2], [1.1 / 8, 0.5])


def test_it_is_uniform_until_the_first_fit_and_without_progress():
    c, rng = make(), np.random.default_rng(0)
    for _ in range(4):
        assert c.update(c.sample(20, rng), rng.normal(size=20)).case == "collecting"
        assert c.distribution is c.box
    assert c.update(c.sample(20, rng), rng.normal(size=20)).case == "fitted"
    assert c.distribution is not c.box
    still = make()
    for _ in range(10):
        still.update(still.sample(20, rng), np.ones(20))
    assert still.distribution is still.box


def test_components_are_chosen_in_proportion_to_their_progress():
    c = make(uniform=0.0)
    tight = [[1e-6, 0.0], [0.0, 1e-6]]
    c.load_state_dict(
        {**c.state_dict(), "parts": [[3.0, [0.25, 0.5], tight], [1.0, [0.75, 0.5], tight]]}
    )
    drawn = c.sample(4000, np.random.default_rng(0))
    assert (drawn[:, 0] < 0).mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(np.abs(drawn[:, 0]), 2.0, atol=0.05)


def test_mixtures_find_what_points_were_made_of():
    rng = np.random.default_rng(0)
    blobs = [rng.normal(centre, 0.1, size=(200, 2)) for centre in ((0, 0), (3, 0), (0, 3))]
    points = np.concatenate(blobs)
    found = best_mixture(points, range(2, 7), rng)
    assert len(found.weights) == 3
    np.testing.assert_allclose(found.weights, 1 / 3, atol=0.01)
    np.testing.assert_allclose(sorted(found.means.sum(axis=1)), [0.0, 3.0, 3.0], atol=0.05)
    for covariance in found.covariances:
        np.testing.assert_allclose(covariance, 0.01 * np.eye(2), atol=0.003)
    # More components can only be likelier; equal points are no obstacle.
    assert fit(points, range(6, 7), rng)[0].log_likelihood > found.log_likelihood
    assert np.isfinite(fit(np.ones((20, 2)), range(5, 6), rng)[0].log_likelihood)


def test_mixtures_fitted_together_are_maxima_of_their_likelihoods():
    rng = np.random.default_rng(1)
    points = rng.random((100, 4)) * [1.0, 1.0, 1.0, 0.1]
    for k, found in zip(range(2, 11), fit(points, range(2, 11), rng), strict=True):
        assert found.means.shape == (k, 4)
        np.testing.assert_allclose(found.weights.sum(), 1.0)
        logs = np.stack(
            [
                np.log(weight) + multivariate_normal(mean, covariance).logpdf(points)
                for weight, mean, covariance in zip(*found[:3], strict=True)
            ]
        )
        total = np.logaddexp.reduce(logs, axis=0)
        assert found.log_likelihood == pytest.approx(total.sum(), abs=1e-6)
        # One more step of expectation and maximisation hardly changes anything.
        shares = np.exp(logs - total)
        np.testing.assert_allclose(shares.sum(axis=1) / 100, found.weights, atol=0.02)


@pytest.mark.parametrize("wrong", [{"fit_rate": 1}, {"history": 0}, {"uniform": 1.5}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(CurriculumError, match="alp-gmm needs"):
        make(**wrong)
