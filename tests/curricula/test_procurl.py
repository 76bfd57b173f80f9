"""`procurl`: the weights by hand, what may go either way, near the target."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import CurriculumError, Gaussian

BOUNDS = ([0.0, 0.0], [2.0, 4.0])
TARGET = Gaussian([1.8, 3.6], [1e-6, 1e-6])


def make(**options):
    some = Gaussian([1.0, 1.0], [1.0, 1.0])
    return curricula.make("procurl", target=TARGET, initial=some, bounds=BOUNDS, **options)


def practised(c, rng, updates=10):
    for _ in range(updates):
        x = c.sample(20, rng)
        # Success falls off along the diagonal of the box: certain in one corner, 0.3 at the target.
        c.update(x, np.clip(1.2 - 0.5 * (x[:, 0] / 2 + x[:, 1] / 4), 0.0, 1.0))
    return c


def test_the_weights_by_hand():
    c = practised(make(beta=40.0, pool=50, targets=1), np.random.default_rng(0))
    p = c.distribution
    known, (low, high) = c.known, c.extremes
    units = p.points / [2.0, 4.0]
    target = TARGET.mean / [2.0, 4.0]

    def z(at):
        kernel = np.exp(-((at[:, None] - known[None, :, :2]) ** 2).sum(axis=2) / (2 * 0.1**2))
        chance = ((kernel @ known[:, 2]) / kernel.sum(axis=1) - low) / (high - low)
        return chance * (1 - chance)

    score = z(units) * z(target[None]) * np.exp(-np.linalg.norm(units - target, axis=1))
    weights = np.exp(40.0 * score)
    np.testing.assert_allclose(p.probabilities, weights / weights.sum(), rtol=2e-2)


def test_it_prefers_what_may_go_either_way():
    c, rng = practised(make(), np.random.default_rng(0)), np.random.default_rng(1)
    drawn = c.sample(4000, rng)
    far = (drawn[:, 0] / 2 + drawn[:, 1] / 4) / 2
    uniform = rng.random((4000, 2)).mean(axis=1)
    # The corner that is certain is rarer than under uniform sampling, the target's side likelier.
    assert (far < 0.2).mean() < 0.6 * (uniform < 0.2).mean()
    assert far.mean() > uniform.mean() + 0.05


def test_the_restored_pool_is_the_same():
    c = practised(make(), np.random.default_rng(0), updates=3)
    copy = make()
    copy.load_state_dict(json.loads(json.dumps(c.state_dict())))
    np.testing.assert_array_equal(copy.distribution.points, c.distribution.points)
    np.testing.assert_array_equal(copy.distribution.probabilities, c.distribution.probabilities)


@pytest.mark.parametrize("wrong", [{"pool": 0}, {"memory": 0}, {"beta": -1.0}, {"bandwidth": 0.0}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(CurriculumError, match="procurl needs"):
        make(**wrong)


def test_points_are_drawn_as_numpy_draws_them():
    points, p = np.arange(12.0).reshape(6, 2), np.array([0.1, 0.0, 0.4, 0.3, 0.2, 0.0])
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    drawn = curricula.PointDistribution(points, p).sample(500, ours)
    np.testing.assert_array_equal(drawn, points[theirs.choice(6, size=500, p=p)])
    assert ours.bit_generator.state == theirs.bit_generator.state
