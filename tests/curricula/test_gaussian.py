"""Gaussians against SciPy, and over the scales that contexts come in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, ortho_group

from pacebench.curricula import CurriculumError, Gaussian, UniformBox


def random_gaussian(rng, d, full):
    root = rng.normal(size=(d, d + 2))
    covariance = root @ root.T if full else rng.uniform(0.1, 5.0, d)
    return Gaussian(rng.normal(size=d), covariance)


@pytest.mark.parametrize("full", [False, True])
@given(d=st.integers(1, 6), seed=st.integers(0, 10_000))
def test_density_and_kl_agree_with_scipy(full, d, seed):
    rng = np.random.default_rng(seed)
    p, q = random_gaussian(rng, d, full), random_gaussian(rng, d, not full)
    x = rng.normal(size=(5, d))
    reference = multivariate_normal(p.mean, p.covariance_matrix)
    np.testing.assert_allclose(p.log_prob(x), reference.logpdf(x), rtol=1e-9, atol=1e-9)
    assert p.log_prob(x[0]) == pytest.approx(float(reference.logpdf(x[0])))
    ratio = np.linalg.solve(q.covariance_matrix, p.covariance_matrix)
    gap = q.mean - p.mean
    kl = 0.5 * (
        np.trace(ratio)
        - d
        - np.linalg.slogdet(ratio)[1]
        + gap @ np.linalg.solve(q.covariance_matrix, gap)
    )
    assert p.kl(q) == pytest.approx(float(kl), rel=1e-9)
    assert p.kl(p) == 0.0


def test_samples_have_mean_and_covariance():
    rng = np.random.default_rng(0)
    for full in (False, True):
        p = random_gaussian(rng, 3, full)
        x = p.sample(200_000, rng)
        assert x.shape == (200_000, 3)
        np.testing.assert_allclose(x.mean(axis=0), p.mean, atol=6 * p.std.max() / 447)
        np.testing.assert_allclose(np.cov(x.T), p.covariance_matrix, atol=0.03 * p.variance.max())


@pytest.mark.parametrize("log_condition", [4, 8, 12])
@pytest.mark.parametrize("log_scale", [-12, 0, 12])
def test_ill_conditioned_matrices(log_condition, log_scale):
    rng, d = np.random.default_rng(log_condition), 5
    Q = ortho_group.rvs(d, random_state=rng)
    eigenvalues = 10.0**log_scale * np.logspace(-log_condition, 0, d)
    covariance = (Q * eigenvalues) @ Q.T
    p = Gaussian(np.zeros(d), 0.5 * (covariance + covariance.T))
    # Twice the covariance: KL = ½ d (ln 2 − ½) whatever the condition number.
    q = Gaussian(np.zeros(d), p.covariance * 2.0)
    assert p.kl(q) == pytest.approx(0.5 * d * (math.log(2) - 0.5), rel=1e-3)
    # Along an eigenvector, the density falls by ½ z².
    for j in range(d):
        z = 2.0 * math.sqrt(eigenvalues[j]) * Q[:, j]
        fall = p.log_prob(np.zeros(d)) - p.log_prob(z)
        assert fall == pytest.approx(2.0, rel=10.0 ** (log_condition - 14))
    white = p.whiten(p.sample(2000, rng))
    np.testing.assert_allclose(np.cov(white.T), np.eye(d), atol=0.2)


def test_axes_of_very_different_scale_cost_no_accuracy():
    scale = np.array([1e-6, 1.0, 1e6])
    correlation = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]])
    p = Gaussian(np.zeros(3), correlation * np.outer(scale, scale))
    q = Gaussian(scale, correlation * np.outer(scale, scale))
    plain = Gaussian(np.zeros(3), correlation), Gaussian(np.ones(3), correlation)
    assert p.kl(q) == pytest.approx(plain[0].kl(plain[1]), rel=1e-12)
    x = np.array([1.0, -2.0, 0.5])
    shift = float(np.log(scale).sum())
    assert p.log_prob(x * scale) == pytest.approx(plain[0].log_prob(x) - shift, rel=1e-12)


@pytest.mark.parametrize("variance", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("full", [False, True])
def test_kl_is_accurate_where_two_nearly_agree(variance, full):
    covariance = (
        np.array([[1.0, 0.4], [0.4, 2.0]]) * variance if full else np.array([1.0, 2.0]) * variance
    )
    p = Gaussian([0.0, 0.0], covariance)
    step = 1e-7
    q = p.rescaled(p.mean, np.full(2, 1.0 + step))
    # ½ d (ρ − 1 − ln ρ) ≈ ¼ d step²
    assert q.kl(p) == pytest.approx(0.5 * step**2, rel=1e-6)


def test_kl_between_very_different_widths():
    narrow, wide = Gaussian([0.0], [1e-30]), Gaussian([0.0], [1.0])
    assert narrow.kl(wide) == pytest.approx(0.5 * (30 * math.log(10) - 1), rel=1e-12)
    full = [Gaussian(np.zeros(2), np.diag([v, v])) for v in (1e-30, 1.0)]
    assert full[0].kl(full[1]) == pytest.approx(2 * narrow.kl(wide), rel=1e-12)


def test_shapes():
    diagonal, full = Gaussian([0, 1], [1, 4]), Gaussian([0, 1], [[1, 0], [0, 4]])
    assert diagonal.covariance.shape == (2,)
    assert full.covariance.shape == (2, 2)
    np.testing.assert_array_equal(diagonal.covariance_matrix, full.covariance_matrix)
    assert diagonal.dim == full.dim == 2
    assert diagonal.kl(full) == full.kl(diagonal) == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_array_equal(diagonal.variance, full.variance)


def test_immutable():
    p = Gaussian([0.0], [1.0])
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0] = 1.0
    for gaussian in (p, p.rescaled(np.ones(1), np.ones(1))):
        with pytest.raises(ValueError, match="read-only"):
            gaussian.std[0] = 2.0
    given_mean = np.zeros(1)
    q = Gaussian(given_mean, [1.0])
    given_mean[0] = 5.0
    assert q.mean[0] == 0.0


@pytest.mark.parametrize(
    ("mean", "covariance", "words"),
    [
        ([0.0, 0.0], [1.0], "shape"),
        ([0.0, 0.0], np.eye(3), "shape"),
        ([[0.0]], [1.0], "shape"),
        ([], [], "shape"),
        ([np.nan], [1.0], "NaN"),
        ([0.0], [np.inf], "singular or not finite"),
        ([0.0], [0.0], "singular"),
        ([0.0], [-1.0], "singular"),
        ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], "singular"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "singular"),
        ([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]], "asymmetric"),
        ([0.0, 0.0], [[1.0, np.nan], [np.nan, 1.0]], "NaN"),
        (["a"], [1.0], "numbers"),
        ([0.0], "wide", "numbers"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(mean, covariance, words):
    with pytest.raises(CurriculumError, match=words) as caught:
        Gaussian(mean, covariance)
    assert str(caught.value).endswith(".")


def test_rank_deficient_matrix_with_rounding_pivots_is_refused():
    rng = np.random.default_rng(1)
    for d in (3, 6):
        v = rng.normal(size=(d, d - 1))
        with pytest.raises(CurriculumError, match="singular"):
            Gaussian(np.zeros(d), v @ v.T)


def test_uniform():
    box, rng = UniformBox([0.0, -1.0], [2.0, 3.0]), np.random.default_rng(0)
    x = box.sample(5000, rng)
    assert (x >= box.lower).all()
    assert (x <= box.upper).all()
    np.testing.assert_allclose(x.var(axis=0), box.variance, rtol=0.1)
    assert box.log_prob([1.0, 0.0]) == pytest.approx(-math.log(8))
    assert box.log_prob([3.0, 0.0]) == -math.inf
    for q in (Gaussian([0.5, 0.0], [1.0, 2.0]), Gaussian([0.5, 0.0], [[1.0, 0.3], [0.3, 2.0]])):
        sampled = np.mean(box.log_prob(x) - q.log_prob(x))
        assert box.kl(q) == pytest.approx(sampled, abs=0.05)
    assert box.kl(box) == 0.0
    assert UniformBox([-1.0, -1.0], [2.0, 3.0]).kl(box) == math.inf
