"""`spgl-mixture`: `spgl` with one component, its bound with several, both of two gates."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacebench import curricula
from pacebench.curricula import CurriculumError, Gaussian, Mixture, UniformBox, taylor_bound

GATES = Mixture([Gaussian([3.0, 0.5], [1e-2] * 2), Gaussian([-3.0, 0.5], [1e-2] * 2)])
WIDE = Gaussian([0.0, 4.25], [4.0, 3.516])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_one_component_is_spgl_bit_for_bit(shared, full):
    rng = np.random.default_rng(4)
    root = rng.normal(size=(3, 5))
    covariance = root @ root.T if full else rng.uniform(0.5, 2.0, 3)
    target = Gaussian(rng.normal(size=3), covariance)
    keywords = {
        "initial": Gaussian(target.mean + 3.0, 4.0 * target.variance),
        "threshold": 0.0,
        "epsilon": 0.05,
    }
    one = curricula.make("spgl-shared" if shared else "spgl", target=target, **keywords)
    mix = curricula.make("spgl-mixture", target=Mixture([target]), shared=shared, **keywords)
    kinds = set()
    for i in range(30):
        x = one.sample(20, np.random.default_rng(i))
        np.testing.assert_array_equal(x, mix.sample(20, np.random.default_rng(i)))
        v = rng.normal(size=20) + (i % 5 - 1.0) + 0.3 * x[:, 0]
        first, second = one.update(x, v).to_dict(), mix.update(x, v).to_dict()
        assert {k: v for k, v in first.items() if not k.startswith("seconds")} == {
            k: v for k, v in second.items() if not k.startswith("seconds")
        }
        kinds.add((first["step"], first["case"]))
        np.testing.assert_array_equal(one.theta, mix.theta)
        np.testing.assert_array_equal(one.distribution.mean, mix.distribution.components[0].mean)
    assert len(kinds) >= 3


@st.composite
def mixtures(draw):
    count, dim = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    apart = draw(st.sampled_from([0.5, 2.0, 6.0]))

    def mixture(spread):
        parts = [
            Gaussian(rng.normal(0.0, spread, dim), np.exp(rng.normal(0.0, 0.8, dim)))
            for _ in range(count)
        ]
        return Mixture(parts, weights)

    weights = rng.uniform(0.2, 1.0, count)
    return mixture(apart), mixture(apart), rng


@settings(max_examples=40, deadline=None)
@given(
    problem=mixtures(),
    epsilon=st.sampled_from([0.05, 0.01, 0.2]),
    slack=st.sampled_from([1.0, 0.1, -1.0]),
    shared=st.booleans(),
)
def test_the_divergence_of_a_step_keeps_its_bound(problem, epsilon, slack, shared):
    target, initial, rng = problem
    x = initial.sample(40, rng)
    v = rng.normal(size=40) + np.sin(x[:, 0])
    c = curricula.make(
        "spgl-mixture",
        target=target,
        initial=initial,
        threshold=float(v.mean()) - slack,
        epsilon=epsilon,
        shared=shared,
        record_every=0,
    )
    old = c.distribution
    record = c.update(x, v)
    new, bound = c.distribution, epsilon * (1.0 if shared else 1.0 + taylor_bound(epsilon))
    parts = [p.kl(q) for p, q in zip(new.components, old.components, strict=True)]
    assert max(parts) <= bound * (1 + 1e-9)
    # The mixture's own divergence is below the components' mean; measured, not only derived.
    drawn = new.sample(20_000, np.random.default_rng(0))
    logs = new.log_prob(drawn) - old.log_prob(drawn)
    error = 4.0 * float(logs.std()) / math.sqrt(len(logs))
    assert float(logs.mean()) <= float(new.weights @ parts) + error
    np.testing.assert_array_equal(new.weights, target.weights)
    if record.step == "convergence":
        assert record.predicted_value >= c.threshold - 1e-9


@pytest.mark.parametrize("shared", [False, True])
def test_both_of_two_gates_are_reached_exactly(shared):
    c = curricula.make(
        "spgl-mixture", target=GATES, initial=WIDE, threshold=0.4, epsilon=0.05, shared=shared
    )
    rng, skill = np.random.default_rng(0), np.zeros(2)
    for _ in range(300):
        x = c.sample(40, rng)
        # A learner that gets better on each side by practising there: success falls off with how
        # much narrower and further out a gate is than what its side has mastered.
        right = x[:, 0] > 0
        demand = (8.0 - x[:, 1]) / 7.5 + np.abs(x[:, 0]) / 3.0
        v = 1.0 / (1.0 + np.exp(4.0 * (demand - np.where(right, skill[1], skill[0]) - 1.0)))
        skill += 0.06 * np.array([(~right).mean(), right.mean()])
        record = c.update(x, v)
    assert record.kl_target_forward == 0.0
    assert record.sliced_wasserstein < 0.2
    for reached, wanted in zip(c.distribution.components, GATES.components, strict=True):
        np.testing.assert_array_equal(reached.mean, wanted.mean)
        np.testing.assert_array_equal(reached.variance, wanted.variance)
    share = (c.sample(4000, rng)[:, 0] > 0).mean()
    assert abs(share - 0.5) < 0.05


def test_a_moment_matched_gaussian_misses_the_gates():
    c = curricula.make("spgl", target=GATES, initial=WIDE, threshold=0.0, fit="gaussian")
    for _ in range(200):
        c.update(c.sample(20, np.random.default_rng(0)), np.ones(20))
    assert c.distribution is not None
    x = c.sample(4000, np.random.default_rng(1))
    assert (np.abs(np.abs(x[:, 0]) - 3.0) < 0.3).mean() < 0.2


def test_the_state_is_json_and_goes_on_bit_by_bit():
    def make():
        return curricula.make("spgl-mixture", target=GATES, initial=WIDE, threshold=0.4)

    rng, c, copy = np.random.default_rng(0), make(), make()
    for _ in range(5):
        x = c.sample(20, rng)
        c.update(x, np.cos(x[:, 0]))
    copy.load_state_dict(json.loads(json.dumps(c.state_dict())))
    x = c.sample(20, rng)
    c.update(x, np.cos(x[:, 0])), copy.update(x, np.cos(x[:, 0]))
    assert c.state_dict() == copy.state_dict()
    for spoilt in ({"means": [[0.0, 1.0]]}, {"thetas": [[1.0, -1.0], [1.0, 1.0]]}):
        with pytest.raises(CurriculumError, match="2 × 2"):
            copy.load_state_dict({**c.state_dict(), **spoilt})


def test_what_it_takes_for_a_target_and_an_initial_distribution():
    three = Mixture([WIDE, WIDE, WIDE])
    with pytest.raises(CurriculumError, match="2 components and the initial mixture 3"):
        curricula.make("spgl-mixture", target=GATES, initial=three, threshold=0.0)
    box = UniformBox([-4.0, 0.5], [4.0, 8.0])
    with pytest.raises(CurriculumError, match="Gaussian or a Mixture as its initial"):
        curricula.make("spgl-mixture", target=GATES, initial=box, threshold=0.0)
    c = curricula.make("spgl-mixture", target=GATES, initial=box, threshold=0.0, fit="gaussian")
    np.testing.assert_allclose(c.distribution.mean, box.mean)
    pair = Mixture([Gaussian([1.0, 1.0], [1.0, 1.0]), Gaussian([-1.0, 1.0], [1.0, 1.0])])
    c = curricula.make("spgl-mixture", target=GATES, initial=pair, threshold=0.0)
    np.testing.assert_array_equal(c.distribution.components[1].mean, [-1.0, 1.0])
