"""`acl`: the weights by hand, a drifting bandit, nothing learned, the grid's geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import CurriculumError, Gaussian
from pacebench.curricula.acl import GridDistribution


def make(d=1, **options):
    some = Gaussian(np.full(d, 0.5), np.full(d, 0.1))
    bounds = (np.zeros(d), np.ones(d))
    return curricula.make("acl", target=some, initial=some, bounds=bounds, **options)


def test_the_weights_by_hand():
    c = make(bins=2, rate=0.1, exploration=0.2)
    c.update([[0.2], [0.2], [0.7], [0.2]], [0.0, 1.0, 5.0, 4.0])
    # Rewards: 0 (first), 1 (new largest: +1), 0 (first: −1), 3 (new largest: +1); all drawn with ½.
    w = np.zeros(2)
    for t, (cell, r) in enumerate([(0, 0.0), (0, 1.0), (1, -1.0), (0, 1.0)], start=2):
        w[cell] += 0.1 * r / 0.5
        w = np.log((1 - 1 / t) * np.exp(w) + np.exp(w).sum() / t / 2)
    policy = 0.8 * np.exp(w) / np.exp(w).sum() + 0.1
    np.testing.assert_allclose(c.distribution.probabilities, policy)
    assert c.extremes == (0.0, 3.0)


def test_it_tracks_a_drifting_bandit():
    c, rng, level = make(bins=10), np.random.default_rng(0), np.zeros(10)
    masses = {}
    for i in range(160):
        # Whoever practises in the cell that can be learned now gets better there, nowhere else.
        learnable = 2 if i < 80 else 7
        x = c.sample(20, rng)
        cells = np.minimum((x[:, 0] * 10).astype(int), 9)
        values = np.empty(20)
        for k, cell in enumerate(cells):
            level[cell] += cell == learnable
            values[k] = level[cell]
        c.update(x, values)
        masses[i] = c.distribution.probabilities.copy()
    assert masses[79].argmax() == 2
    assert masses[159].argmax() == 7
    assert masses[79][2] > 0.5 > 0.2 > masses[159][2]


def test_nothing_learned_is_uniform():
    c, rng = make(d=2), np.random.default_rng(0)
    for _ in range(20):
        c.update(c.sample(20, rng), np.full(20, 3.0))
    np.testing.assert_allclose(c.distribution.probabilities, 1 / 2500, rtol=1e-9)


def test_the_grid_is_a_distribution():
    p = np.array([[0.1, 0.2, 0.0], [0.3, 0.3, 0.1], [0.0, 0.0, 0.0]]).ravel()
    grid, rng = GridDistribution(np.array([0.0, -3.0]), np.array([3.0, 3.0]), 3, p), None
    rng = np.random.default_rng(0)
    x = grid.sample(50_000, rng)
    assert (x >= [0.0, -3.0]).all()
    assert (x <= [3.0, 3.0]).all()
    counts = np.bincount(grid.cells(x), minlength=9) / len(x)
    np.testing.assert_allclose(counts, p, atol=0.01)
    # Cells are 1 × 2, the last dimension running fastest.
    assert grid.log_prob([0.5, 0.0]) == pytest.approx(math.log(0.2 / 2))
    assert grid.log_prob([9.0, 0.0]) == -math.inf
    assert np.exp(grid.log_prob(x)).shape == (50_000,)
    np.testing.assert_array_equal(grid.cells(np.array([[3.0, 3.0], [-1.0, -9.0]])), [8, 0])


def test_bins_follow_the_dimension_and_stay_few():
    assert [make(d=d).bins for d in (1, 2, 3, 4)] == [50, 50, 20, 9]
    for wrong, words in (({"bins": 0}, "whole number"), ({"exploration": 0.0}, "exploration")):
        with pytest.raises(CurriculumError, match=words):
            make(**wrong)
    with pytest.raises(CurriculumError, match="cells"):
        make(d=3, bins=1000)


def test_the_divergence_between_grids_is_exact():
    c, rng = make(), np.random.default_rng(0)
    before = c.distribution
    for _ in range(5):
        record = c.update(c.sample(20, rng), rng.normal(size=20))
        p, q = c.distribution.probabilities, before.probabilities
        assert record.kl_step == pytest.approx((p * np.log(p / q)).sum())
        before = c.distribution
    assert record.kl_step > 0.0
