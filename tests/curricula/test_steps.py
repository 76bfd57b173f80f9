"""The closed forms in their corners: parallel vectors, nothing to do, nothing to lose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench.curricula.family import WhitenedStatistics
from pacebench.curricula.shared import joint_approach, joint_ascent
from pacebench.curricula.steps import approach, ascent, descend
from pacebench.harness.verify.optimality import best_in_ball

EPSILON = 0.05
MEAN, THETA = math.sqrt(2 * EPSILON), 2 * math.sqrt(EPSILON)


def vector(*numbers):
    return np.array(numbers, dtype=float)


def statistics(*, u, psi, x=None, pull=None, slack=0.0):
    zero = np.zeros_like(u)
    x, pull = (zero if v is None else v for v in (x, pull))
    return WhitenedStatistics(slack, x, u, zero, psi, pull, np.ones(1), 1.0, zero[None])


def test_performance_steps_spend_the_budget():
    step = ascent(vector(3.0, 4.0), MEAN)
    np.testing.assert_allclose(step.delta, MEAN * vector(0.6, 0.8))
    assert step.case == "ascent"
    still = ascent(vector(0.0, 0.0), MEAN)
    assert still.case == "stationary"
    assert not still.delta.any()


@pytest.mark.parametrize(
    ("slack", "slope", "gap", "case"),
    [
        (1.0, vector(0.0), vector(0.1), "free"),
        (0.0, vector(0.0), vector(0.0), "free"),
        (1.0, vector(0.0), vector(5.0), "kl"),
        (0.1, vector(-1.0), vector(0.2), "value"),
        (0.1, vector(-1.0), vector(5.0), "value"),
        (0.0, vector(-1.0), vector(5.0), "value"),
        (0.1, vector(-1.0, 0.0), vector(2.0, 5.0), "both"),
        (0.0, vector(-1.0, 0.0), vector(0.2, 5.0), "both"),
        (0.1, vector(-1.0, -1.0), vector(5.0, 5.0), "value"),
    ],
)
def test_cases_of_the_mean(slack, slope, gap, case):
    step = approach(slack, slope, gap, EPSILON)
    assert step.case == case
    assert np.isfinite(step.delta).all()
    assert np.linalg.norm(step.delta) <= MEAN * (1 + 1e-12)
    assert slack + slope @ step.delta >= -1e-12


@pytest.mark.parametrize("tiny", [1e-155, 1e-200, 5e-324])
def test_slopes_whose_squares_underflow(tiny):
    slope = vector(-tiny, 0.0)
    for step in (
        ascent(slope, MEAN),
        approach(0.0, slope, vector(1.0, 5.0), EPSILON),
        descend(0.0, -slope, vector(1.0, 5.0), vector(9.0, 9.0), EPSILON),
    ):
        assert np.isfinite(step.delta).all()
        assert step.delta.any()
        assert np.linalg.norm(step.delta) <= THETA * (1 + 1e-9)


def test_one_dimension_stops_at_the_value_bound():
    # The way is −1 per unit of value and the slack is 0.1: the step is 0.1, not 0/0.
    assert approach(0.1, vector(-1.0), vector(5.0), EPSILON).delta == pytest.approx([0.1])
    assert approach(0.0, vector(-1.0), vector(5.0), EPSILON).delta == pytest.approx([0.0])


@pytest.mark.parametrize(
    ("slack", "slope", "pull", "gap", "case"),
    [
        (1.0, vector(0.0), vector(1.0), vector(0.1), "free"),
        (1.0, vector(0.0), vector(0.0), vector(3.0), "stationary"),
        (1.0, vector(0.1), vector(1.0), vector(3.0), "kl"),
        (0.01, vector(1.0), vector(1.0), vector(3.0), "value"),
        (0.01, vector(1.0, 1.0), vector(2.0, 2.0), vector(3.0, 3.0), "value"),
        (0.0, vector(1.0, 0.0), vector(2.0, 2.0), vector(3.0, 3.0), "both"),
        (0.01, vector(1.0, 0.0), vector(2.0, 2.0), vector(3.0, 3.0), "both"),
        # Landing would cost too much value, and there is no other pull.
        (0.0, vector(-1.0), vector(0.0), vector(0.1), "stationary"),
    ],
)
def test_cases_of_theta(slack, slope, pull, gap, case):
    step = descend(slack, slope, pull, gap, EPSILON)
    assert step.case == case
    assert np.isfinite(step.delta).all()
    assert np.linalg.norm(step.delta) <= THETA * (1 + 1e-12)
    assert slack + slope @ step.delta >= -1e-12


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([0.0, 1e-14, 1e-9, 1e-4, 1.0]))
def test_nearly_parallel_vectors_are_harmless(seed, d, off):
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=d)
    gap = -slope * rng.uniform(0.01, 10) + off * rng.normal(size=d)
    slack = float(rng.choice([0.0, 0.01, 0.1]))
    for step, radius in (
        (approach(slack, slope, gap, EPSILON), MEAN),
        (descend(slack, slope, -gap, 10 * gap, EPSILON), THETA),
    ):
        assert np.linalg.norm(step.delta) <= radius * (1 + 1e-9)
        assert slack + slope @ step.delta >= -1e-9 * (slack + np.linalg.norm(slope))


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([-9, 0, 9]))
def test_joint_step_is_optimal_before_it_is_shortened(seed, d, decades):
    rng = np.random.default_rng(seed)
    x, pull = (
        rng.normal(size=d) * 10 ** rng.uniform(-2, 1),
        rng.normal(size=d) * 10 ** rng.uniform(-2, 3),
    )
    unit = 10.0**decades
    u, psi = unit * (rng.normal(size=d) - x), unit * (rng.normal(size=d) + pull)
    a = unit * float(rng.choice([0.0, 0.05, 0.5, 5.0]))
    delta = joint_approach(statistics(slack=a, u=u, psi=psi, x=x, pull=pull), EPSILON).delta
    y = np.concatenate([delta[:d], delta[d:] / math.sqrt(2)]) / MEAN
    slope = MEAN * np.concatenate([u, math.sqrt(2) * psi])
    assert np.linalg.norm(y) <= 1 + 1e-6
    assert a + slope @ y >= -1e-7 * (a + np.linalg.norm(slope))

    def objective(z):
        e, f = MEAN * z[:d], MEAN * z[d:] * math.sqrt(2)
        gradient = MEAN * np.concatenate([e - x, math.sqrt(2) * pull])
        return 0.5 * float((x - e) @ (x - e)) + float(pull @ f), gradient

    best = best_in_ball(objective, (a, slope), rng, 2 * d)
    scale = float(np.linalg.norm(objective(np.zeros(2 * d))[1]))
    assert objective(y)[0] <= best + 1e-6 * scale


def test_joint_ascent_spends_one_budget():
    delta = joint_ascent(statistics(u=vector(1.0, 2.0), psi=vector(0.5, 0.1)), EPSILON).delta
    mean, theta = delta[:2], delta[2:]
    assert 0.5 * mean @ mean + 0.25 * theta @ theta == pytest.approx(EPSILON)
    still = joint_ascent(statistics(u=vector(0.0), psi=vector(0.0)), EPSILON)
    assert still.case == "stationary"
