"""ū, ψ̄, ω and H are what they are called: derivatives of the exact quantities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.family import ScaledFamily
from pacebench.curricula.scaled_problem import ScaledProblem
from pacebench.harness.verify import UpdateProblem, oracle
from pacebench.harness.verify.oracle import Normal

problems = st.builds(
    UpdateProblem,
    dim=st.integers(1, 5),
    samples=st.sampled_from([7, 20]),
    full=st.booleans(),
    distance=st.sampled_from([0.0, 1.0, 3.0]),
    decades=st.sampled_from([0.0, 0.5, 1.5]),
    landscape=st.sampled_from(["hard", "bumpy"]),
    offset=st.sampled_from([0.0, 2.0]),
    seed=st.integers(0, 1000),
)


def finite_difference(f, x, h):
    gradient = np.empty_like(x)
    for j in range(len(x)):
        e = np.zeros_like(x)
        e[j] = h[j] if np.ndim(h) else h
        # The five-point rule: its error is of order h⁴.
        gradient[j] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * e[j])
    return gradient


def assert_close(found, wanted, scale):
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7 * scale)


@given(problems)
def test_statistics_are_derivatives(problem):
    target, p = Normal.of(problem.target), Normal.of(problem.initial)
    theta, mean = problem.theta, p.mean
    s = oracle.SampleStatistics.of(target, mean, theta, problem.contexts, problem.values, 0.0)

    def member(m, t):
        return target.rescaled(m, t)

    h = 1e-3
    step = h * np.sqrt(p.covariance.diagonal())

    def value(m, t):
        return oracle.weighted_value(member(m, t), p, problem.contexts, problem.values)

    by_mean = finite_difference(lambda m: value(m, theta), mean, step)
    assert_close(by_mean * step / h, s.P @ s.u * step / h, np.abs(problem.values).max())
    by_theta = finite_difference(lambda t: value(mean, t), theta, h * theta)
    assert_close(by_theta * theta, s.psi * theta, np.abs(problem.values).max())
    distance = finite_difference(lambda t: oracle.kl(target, member(mean, t)), theta, h * theta)
    assert_close(distance * theta, s.omega * theta, 1 + np.abs(s.omega * theta).max())
    # KL(p_new‖p) ≈ ¼ ‖δθ‖²_H: the quadratic part along random directions.
    for direction in problem.rng(20).normal(size=(3, problem.dim)):
        delta = 1e-3 * theta * direction
        both = oracle.kl(member(mean, theta + delta), p) + oracle.kl(member(mean, theta - delta), p)
        assert both / 2 == pytest.approx(0.25 * delta @ s.H @ delta, rel=1e-4)


@given(problems)
def test_family_computes_the_printed_statistics(problem):
    family = ScaledFamily(problem.target)
    theta = family.theta_of(problem.initial)
    np.testing.assert_allclose(theta, problem.theta, rtol=1e-12)
    p = family.at(problem.initial.mean, theta)
    slack = float(problem.values.mean())
    mine = family.statistics(p, theta, problem.contexts, problem.values, slack)
    s = oracle.SampleStatistics.of(
        Normal.of(problem.target), p.mean, theta, problem.contexts, problem.values, 0.0
    )
    unit = mine.unit
    assert mine.slack * unit == pytest.approx(s.slack, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(p.unwhiten(mine.mean_gap), s.gap, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(p.unwhiten(mine.mean_slope) * unit, s.u, rtol=1e-7, atol=1e-9)
    root = np.eye(problem.dim) if family.diagonal else family.root
    np.testing.assert_allclose(root @ mine.theta_slope * unit, s.psi * theta, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(root @ mine.theta_pull, s.omega * theta, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(root @ root.T, s.H * np.outer(theta, theta), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(root.T @ (1 / theta - 1), mine.theta_gap, rtol=1e-8, atol=1e-9)


@given(problems)
def test_exact_quantities_of_the_scaled_family(problem):
    family = ScaledFamily(problem.target)
    theta = family.theta_of(problem.initial)
    p = family.at(problem.initial.mean, theta)
    stats = family.statistics(p, theta, problem.contexts, problem.values, 0.3)
    exact = ScaledProblem(family, p, theta, stats)
    rng, d = problem.rng(21), problem.dim
    m, zeta = 0.2 * rng.normal(size=d), 0.2 * rng.normal(size=d)
    z = np.concatenate([m, zeta])
    new = Normal.of(family.at(p.mean + p.unwhiten(m), theta * np.exp(zeta)))
    old, target = Normal.of(p), Normal.of(problem.target)
    value = oracle.weighted_value(new, old, problem.contexts, problem.values)
    wanted = {
        "trust": oracle.kl(new, old),
        "distance": oracle.kl(target, new),
        "gain": (value - float(problem.values.mean())) / stats.unit,
    }
    for name, number in wanted.items():
        f = getattr(exact, name)
        found, gradient = f(z)
        assert found == pytest.approx(number, rel=1e-7, abs=1e-9)
        numeric = finite_difference(lambda x, f=f: f(x)[0], z, 1e-3)
        assert_close(gradient, numeric, 1 + abs(found))


@given(problems)
def test_exact_quantities_of_all_gaussians(problem):
    p, target = problem.initial, problem.target
    old = (p.mean, p.cholesky())
    weights = problem.values / len(problem.values)
    exact = CholeskyProblem(old, (target.mean, target.cholesky()), problem.contexts, weights)
    x0 = exact.pack(*old)
    assert exact.trust(x0)[0] == pytest.approx(0.0, abs=1e-9)
    assert exact.value(x0)[0] == pytest.approx(float(problem.values.mean()), rel=1e-9, abs=1e-12)
    rng = problem.rng(22)
    factor = p.cholesky() @ (
        np.eye(problem.dim) + np.tril(0.1 * rng.normal(size=2 * [problem.dim]))
    )
    factor *= np.sign(factor.diagonal())
    x = exact.pack(p.mean + 0.2 * p.std * rng.normal(size=problem.dim), factor)
    mean, L = exact.unpack(x)
    new = Normal(mean, L @ L.T)
    wanted = {
        "trust": oracle.kl(Normal.of(p), new),
        "distance": oracle.kl(new, Normal.of(target)),
        "value": oracle.weighted_value(new, Normal.of(p), problem.contexts, problem.values),
    }
    # Each variable in the units it has: standard deviations for the mean and off the diagonal.
    below = np.tril_indices(problem.dim, -1)
    unit = np.concatenate([p.std, np.ones(problem.dim), L.diagonal()[below[0]]])
    for name, number in wanted.items():
        f = getattr(exact, name)
        found, gradient = f(x)
        assert found == pytest.approx(number, rel=1e-7, abs=1e-9)
        numeric = finite_difference(lambda y, f=f: f(y)[0], x, 1e-3 * unit)
        assert_close(gradient * unit, numeric * unit, 1 + np.abs(gradient * unit).max())
