"""Facts about the closed form that a random search alone would not show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from pacebench import curricula
from pacebench.harness.verify import PROPERTIES, Subject, attempt, oracle
from pacebench.harness.verify.oracle import Normal

BY_NAME = {p.name: p for p in PROPERTIES}


def test_every_case_of_both_lemmas_is_reached():
    outcome = attempt(BY_NAME["optimality"], Subject(curricula.get("spgl")), 250)
    assert outcome.held, outcome.message
    taken = [case.removeprefix("convergence ") for case in outcome.cases if "convergence" in case]
    mean, theta = {case.split("/")[0] for case in taken}, {case.split("/")[1] for case in taken}
    assert mean >= {"free", "kl", "value", "both"}
    assert theta >= {"free", "kl", "value", "both"}
    assert "performance ascent/ascent" in outcome.cases


def test_every_case_of_the_joint_step_is_reached():
    outcome = attempt(BY_NAME["joint-optimality"], Subject(curricula.get("spgl-shared")), 200)
    assert outcome.held, outcome.message
    assert {"performance ascent", "convergence free", "convergence kl", "convergence both"} <= set(
        outcome.cases
    )


@pytest.mark.parametrize(
    ("epsilon", "kappa"), [(0.001, 1.044), (0.01, 1.157), (0.05, 1.456), (0.1, 1.842), (0.2, 3.385)]
)
def test_taylor_bound_is_attained_by_a_shrinking_variance(epsilon, kappa):
    assert curricula.taylor_bound(epsilon) == pytest.approx(kappa, abs=6e-4)
    target = curricula.Gaussian([0.0], [1.0])
    # Far too wide and in the right place: the θ-step shrinks by the whole budget.
    c = curricula.make(
        "spgl",
        target=target,
        initial=curricula.Gaussian([0.0], [100.0]),
        epsilon=epsilon,
        threshold=0.0,
    )
    record = c.update(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0]))
    assert record.case == "free/kl"
    assert record.kl_step == pytest.approx(curricula.taylor_bound(epsilon) * epsilon, rel=1e-9)
    assert record.kl_step > epsilon


@pytest.mark.parametrize("epsilon", [0.001, 0.05, 0.24])
def test_no_step_among_correlated_axes_exceeds_the_taylor_bound(epsilon):
    """Searches for a θ-step that does: maximises its exact KL on the boundary of the budget."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(60):
        d = int(rng.integers(2, 6))
        root = rng.normal(size=(d, int(rng.integers(1, d + 1))))
        covariance = root @ root.T + 10 ** rng.uniform(-4, 1) * np.eye(d)
        family = curricula.ScaledFamily(curricula.Gaussian(np.zeros(d), covariance))

        def spent(v, family=family):
            step = v * (2 * math.sqrt(epsilon) / np.linalg.norm(v))
            return family.theta_kl(family.relative(step))

        # Start from a shrinking of all variances, which is the worst kind in one dimension.
        start = (-np.ones(d) + 0.5 * rng.normal(size=d)) @ family.root
        found = minimize(lambda v: -spent(v), start, method="BFGS", options={"maxiter": 60})
        largest = max(largest, spent(found.x))
    bound = curricula.taylor_bound(epsilon) * epsilon
    assert 0.9 * bound < largest <= bound * (1 + 1e-9)


def test_the_joint_step_attains_one_plus_kappa():
    epsilon = 0.05
    c = curricula.make(
        "spgl",
        target=curricula.Gaussian([0.0], [1.0]),
        initial=curricula.Gaussian([9.0], [100.0]),
        epsilon=epsilon,
        threshold=0.0,
    )
    record = c.update(np.array([[10.0], [8.0]]), np.array([1.0, 1.0]))
    assert record.case == "kl/kl"
    assert record.kl_step / epsilon == pytest.approx(1 + curricula.taylor_bound(epsilon), rel=1e-9)
    assert record.kl_step / epsilon == pytest.approx(2.456, abs=1e-3)


@pytest.mark.parametrize("name", ["spgl-shared", "spgl-joint"])
def test_one_budget_holds_where_two_blocks_overspend(name):
    c = curricula.make(
        name,
        target=curricula.Gaussian([0.0], [1.0]),
        initial=curricula.Gaussian([9.0], [100.0]),
        epsilon=0.05,
        threshold=0.0,
    )
    record = c.update(np.array([[10.0], [8.0]]), np.array([1.0, 1.0]))
    assert 0.05 * (1 - 1e-3) <= record.kl_step <= 0.05 * (1 + 1e-6)


def test_spread_does_not_collapse_before_the_mean_arrives():
    # Forward KL pulls σ² towards σ̃² + x²: from afar, it widens until the mean is there.
    spreads, gaps = _path(initial_variance=4.0)
    assert max(spreads) > 20.0
    assert spreads[-1] == 1.0
    assert all(s >= 4.0 for s, gap in zip(spreads, gaps, strict=True) if gap > 2.0)


def test_theta_lands_whenever_it_can_even_while_the_mean_is_away():
    # Lemma 2 takes θ = 1 wherever it is within reach, though KL(ψ‖p) would prefer a wider p.
    spreads, gaps = _path(initial_variance=1.3)
    assert spreads[1] == 1.0
    assert gaps[1] > 9.0


def _path(initial_variance):
    c = curricula.make(
        "spgl",
        target=curricula.Gaussian([0.0], [1.0]),
        initial=curricula.Gaussian([10.0], [initial_variance]),
        epsilon=0.05,
        threshold=0.0,
    )
    rng = np.random.default_rng(0)
    spreads, gaps = [], []
    for _ in range(60):
        p = c.distribution
        spreads.append(float(p.variance[0]))
        gaps.append(abs(float(p.mean[0])))
        c.update(p.sample(50, rng), np.ones(50))
    return spreads, gaps


def test_a_general_linear_map_does_not_commute():
    """The family Θ^½ Σ̃ Θ^½ is tied to the axes: rotating contexts gives another curriculum."""
    rng = np.random.default_rng(3)
    angle = 0.6
    R = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    cov = np.array([[1.0, 0.3], [0.3, 2.0]])
    # θ = (3, 3) is the one kind of θ that every linear map leaves in the family.
    target, initial = curricula.Gaussian([0.0, 0.0], cov), curricula.Gaussian([3.0, -1.0], 3 * cov)
    contexts, values = initial.sample(50, rng), rng.normal(2.0, 1.0, 50)

    def updated(matrix):
        moved = [
            curricula.Gaussian(matrix @ g.mean, matrix @ g.covariance @ matrix.T)
            for g in (target, initial)
        ]
        c = curricula.make("spgl", target=moved[0], initial=moved[1], epsilon=0.05, threshold=0.0)
        c.update(contexts @ matrix.T, values)
        inverse = np.linalg.inv(matrix)
        p = Normal.of(c.distribution)
        return Normal(inverse @ p.mean, inverse @ p.covariance @ inverse.T)

    plain = updated(np.eye(2))
    assert oracle.kl(updated(np.diag([3.0, 0.2])), plain) < 1e-12
    rotated = updated(R)
    np.testing.assert_allclose(rotated.mean, plain.mean, rtol=1e-9)
    assert oracle.kl(rotated, plain) > 1e-4
