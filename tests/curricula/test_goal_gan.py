"""`goal-gan`: labels by hand, mastered goals, gradients, contexts of intermediate difficulty."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import CurriculumError, Episodes, Gaussian
from pacebench.curricula.lsgan import Network

BOUNDS = ([-4.0, 0.0], [4.0, 2.0])


def make(**options):
    some = Gaussian([0.0, 1.0], [1.0, 1.0])
    return curricula.make("goal-gan", target=some, initial=some, bounds=BOUNDS, **options)


def test_labels_are_rates_in_between():
    c = make(pool=4)
    first, second, third, fourth = c.distribution.points
    contexts = [first, first, second, second, third, third, fourth, [9.0, 9.0]]
    success = [True, False, True, True, False, False, True, True]
    c.update(Episodes(contexts, success=success))
    # Half, all, none; one episode is too few, and a context of no pool counts nowhere.
    np.testing.assert_array_equal(c.labelled[:, :2], [first, second, third])
    np.testing.assert_array_equal(c.labelled[:, 2], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(c.mastered, [second])
    points = c.distribution.points
    assert len(points) == 4
    assert c.played[tuple(fourth)] == (True, 1, 1)
    assert not any((points == gone).all(axis=1).any() for gone in (first, second, third))


def test_mastered_goals_are_distinct_and_come_back():
    c = make(pool=4, old=1.0, noise=0.0)
    goals = c.distribution.points
    c.update(Episodes(np.repeat(goals, 2, axis=0), success=[True] * 8))
    assert len(c.mastered) == 4
    np.testing.assert_array_equal(c._distinct([tuple(goals[0] + 1e-3)]), c.mastered)
    assert len(c._distinct([(0.0, 0.123)])) == 5
    # With p_old = 1 all that follow are mastered ones, and they are not labelled again.
    drawn = c.distribution.points
    assert {tuple(x) for x in drawn} <= {tuple(x) for x in goals}
    c.update(Episodes(np.repeat(drawn, 2, axis=0), success=[True, False] * len(drawn)))
    assert len(c.labelled) == 4


def test_it_generates_contexts_that_succeed_sometimes():
    c, rng = make(fit_rate=60, pool=40), np.random.default_rng(0)
    fits = 0
    for _ in range(20):
        x = c.sample(40, rng)
        # Sure for c₀ < 0, hopeless for c₀ > 2, even odds in between.
        success = np.where(x[:, 0] < 0.0, True, (x[:, 0] < 2.0) & (rng.random(40) < 0.5))
        fits += c.update(Episodes(x, success=success)).case == "fitted"
    assert fits >= 2
    made = c.gan.generate(rng.standard_normal((1000, 2), dtype=np.float32))[:, 0] * 4.0
    # A quarter of the box is in between.
    assert ((made > -0.4) & (made < 2.4)).mean() > 0.6


def test_the_gradients_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    net = Network((3, 5, 4, 2), 0.1, rng)
    net.arrays = [array.astype(np.float64) for array in net.arrays]
    x, weights = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))

    def loss():
        return float((net.forward(x)[-1] * weights).sum())

    gradients, by_input = net.backward(net.forward(x), weights)
    for array, gradient in zip(net.arrays, gradients, strict=True):
        place = tuple(rng.integers(size) for size in array.shape)
        array[place] += 1e-6
        above = loss()
        array[place] -= 2e-6
        assert gradient[place] == pytest.approx((above - loss()) / 2e-6, abs=1e-5)
        array[place] += 1e-6
    base = loss()
    x[0, 0] += 1e-6
    assert by_input[0, 0] == pytest.approx((loss() - base) / 1e-6, abs=1e-4)


def test_the_state_goes_on_bit_by_bit_through_a_fit():
    c, copy = make(fit_rate=12), make(fit_rate=12)

    def practise(curriculum, seed):
        rng = np.random.default_rng(seed)
        x = curriculum.sample(30, rng)
        return curriculum.update(Episodes(x, success=rng.random(30) < 0.5)).case

    cases = [practise(c, i) for i in range(3)]
    copy.load_state_dict(json.loads(json.dumps(c.state_dict())))
    cases += [practise(c, i) for i in range(3, 6)]
    assert "fitted" in cases[:3]
    assert "fitted" in cases[3:]
    for i in range(3, 6):
        practise(copy, i)
    assert c.state_dict() == copy.state_dict()
    with pytest.raises(CurriculumError, match="other sizes"):
        c.load_state_dict({**c.state_dict(), "generator": ["AAAA"]})


@pytest.mark.parametrize("wrong", [{"rollouts": 0}, {"pool": 0}, {"old": 1.5}, {"noise": -1.0}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(CurriculumError, match="goal-gan needs"):
        make(**wrong)
