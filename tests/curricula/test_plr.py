"""`plr`: probabilities by hand, the buffer by hand, best returns, and what robust asks for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import CurriculumError, Episodes, Gaussian
from pacebench.curricula.plr import probabilities
from pacebench.harness.learners import get as learner
from pacebench.harness.study.construct import unfed

BOUNDS = ([0.0, -1.0], [1.0, 1.0])


def make(**options):
    some = Gaussian([0.5, 0.0], [0.1, 0.1])
    return curricula.make("plr", target=some, initial=some, bounds=BOUNDS, **options)


def episodes(rows, returns, errors):
    return Episodes(np.array(rows, dtype=float), discounted_returns=returns, value_errors=errors)


def test_probabilities_equal_a_hand_computation():
    # Ranks 2, 1, 3 and β = ½: 1/4, 1, 1/9 over 49/36. Staleness 0, 1, 3.
    found = probabilities(np.array([2.0, 5.0, 1.0]), np.array([0.0, 1.0, 3.0]), 0.5, 0.2)
    by_score = np.array([1 / 4, 1.0, 1 / 9]) / (49 / 36)
    np.testing.assert_allclose(found, 0.8 * by_score + 0.2 * np.array([0.0, 0.25, 0.75]))
    assert found.sum() == pytest.approx(1.0)
    # The constants of Klink et al.: a hundred scores, all equally stale.
    found = probabilities(np.arange(100.0)[::-1], np.ones(100), 0.45, 0.15)
    weights = np.arange(1, 101) ** (-1 / 0.45)
    np.testing.assert_allclose(found, 0.85 * weights / weights.sum() + 0.15 / 100)


def test_the_buffer_by_hand():
    c = make(buffer=2)
    c.update(episodes([[0.1, 0.0], [0.2, 0.0]], [1.0, 2.0], [0.5, 0.3]))
    assert c.kept == {(0.1, 0.0): (0.5, 1.0, 1), (0.2, 0.0): (0.3, 2.0, 2)}
    # A new context with a lower score is left out; one with a higher takes the lowest one's place.
    c.update(episodes([[0.3, 0.0], [0.4, 0.0]], [0.0, 7.0], [0.2, 0.4]))
    assert c.kept == {(0.1, 0.0): (0.5, 1.0, 1), (0.4, 0.0): (0.4, 7.0, 4)}
    # A replayed one keeps its best return and gets a new score, also a lower one.
    record = c.update(episodes([[0.4, 0.0]], [3.0], [0.1]))
    assert c.kept[0.4, 0.0] == (0.1, 7.0, 5)
    assert record.case == "1 of 1 replayed"
    np.testing.assert_allclose(c.distribution.probabilities.sum(), 1.0)
    np.testing.assert_array_equal(
        c.best_returns(np.array([[0.4, 0.0], [0.9, 0.9]])), [7, -math.inf]
    )


def test_contexts_are_replayed_at_the_rate_and_otherwise_uniform():
    c, rng = make(), np.random.default_rng(0)
    first = c.sample(100, rng)
    assert len({tuple(x) for x in first}) == 100
    c.update(episodes(first, np.ones(100), np.arange(100.0)))
    drawn = c.sample(20_000, rng)
    known = {tuple(x) for x in first}
    replayed = np.array([tuple(x) in known for x in drawn])
    assert replayed.mean() == pytest.approx(0.85, abs=0.01)
    new = drawn[~replayed]
    np.testing.assert_allclose(new.mean(axis=0), [0.5, 0.0], atol=0.03)
    np.testing.assert_allclose(new.std(axis=0), [1 / math.sqrt(12), 2 / math.sqrt(12)], rtol=0.05)
    best = tuple(first[-1])
    share = np.mean([tuple(x) == best for x in drawn[replayed]])
    assert share == pytest.approx(c.distribution.probabilities[-1], abs=0.02)


def test_robust_learns_from_replayed_contexts_and_needs_a_learner_that_can():
    c = make(robust=True)
    c.update(episodes([[0.1, 0.0]], [1.0], [0.5]))
    np.testing.assert_array_equal(c.learns_from(np.array([[0.1, 0.0], [0.2, 0.0]])), [True, False])
    assert make().learns_from(np.zeros((2, 2))).all()
    kind = curricula.get("plr")
    assert "selective_gradients" in unfed(kind, learner("sb3-sac"), {"robust": True})
    assert unfed(kind, learner("ppo"), {}) == ""
    # SAC has no value of states.
    assert "value_errors" in unfed(kind, learner("sb3-sac"), {})


@pytest.mark.parametrize("wrong", [{"buffer": 0}, {"beta": 0.0}, {"rho": 2.0}, {"replay_rate": -1}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(CurriculumError, match="plr needs"):
        make(**wrong)
