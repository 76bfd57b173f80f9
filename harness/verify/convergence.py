"""Where repeated updates lead."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import Capabilities
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Problem, Subject
from pacebench.harness.verify.suite import Property, require

LONGEST = 600


def _converges(subject: Subject, problem: Problem) -> None:
    """With values well above the threshold throughout, p arrives at ψ and stays."""
    within = subject.capabilities.converges_within or 0.0
    c = subject.make(problem, threshold=0.0)
    rng = problem.rng(7)
    limit = LONGEST if subject.exact_arithmetic else 150

    def update() -> float:
        contexts = c.sample(60, rng)
        # All near 1 with V₋ = 0: the slack exceeds what any step within the budget can cost.
        record = c.update(contexts, 1.0 + 0.05 * rng.standard_normal(60))
        return record.kl_target_reverse

    for _ in range(limit):
        if update() <= within:
            break
    else:
        left = Normal.of(c.distribution)
        raise_left = oracle.kl(left, Normal.of(problem.target))
        require(False, f"after {limit} updates it is still {raise_left:.6g} nats from the target")
    for _ in range(5):
        update()
        p = c.distribution
        if within == 0.0:
            same = np.array_equal(p.mean, problem.target.mean) and np.array_equal(
                np.asarray(p.covariance), np.asarray(problem.target.covariance)
            )
            require(same, "it reached the target and left it again, or is not exactly there")
        else:
            away = oracle.kl(Normal.of(p), Normal.of(problem.target))
            require(away <= within, f"it reached the target and is {away:.6g} nats away again")


def _never_diverges(subject: Subject, problem: Problem) -> None:
    """With a threshold out of reach, p stays as near its start as the budget spent implies."""
    updates = 12 if subject.exact_arithmetic else 4
    c = subject.make(problem, threshold=float(np.abs(problem.values).max()) * 10 + 1.0)
    start, rng = Normal.of(c.distribution), problem.rng(8)
    for _ in range(updates):
        contexts = c.sample(problem.samples, rng)
        record = c.update(contexts, problem.value_of(contexts))
        p = Normal.of(c.distribution)
        finite = np.isfinite(p.mean).all() and np.isfinite(p.covariance).all()
        require(bool(finite), "the distribution is not finite")
        require(bool((p.covariance.diagonal() > 0).all()), "a variance is not positive")
        require(math.isfinite(record.kl_step), "the KL of a step is not finite")
        require(bool((np.asarray(getattr(c, "theta", 1.0)) > 0).all()), "θ is not positive")
    spent = oracle.kl(Normal.of(c.distribution), start)
    allowed = _reach(subject.capabilities, problem, updates)
    require(
        spent <= allowed, f"KL to the start is {spent:.6g}, and the budget allows {allowed:.6g}"
    )


def _reach(claims: Capabilities, problem: Problem, updates: int) -> float:
    """Bounds KL(p_n‖p_0) by what n updates within their budgets can add up to.

    A budget bounds every variance ratio ρ of a step through ½(ρ − 1 − ln ρ), and ratios multiply;
    it bounds the mean's step in the metric of the moment, which the ratios relate to the first.
    """
    epsilon = problem.epsilon
    budget = epsilon * (oracle.kappa(epsilon) if claims.trust_region == "block" else 1.0)
    low, high = oracle.spread_range(budget)
    if claims.trust_region == "reverse":
        low, high = 1.0 / high, 1.0 / low
    step = math.sqrt(2.0 * epsilon * (high if claims.trust_region == "reverse" else 1.0))
    way: float = sum(step * high ** (i / 2.0) for i in range(updates))
    worst = max(_bulge(low**updates), _bulge(high**updates))
    return 0.5 * (problem.dim * worst + way**2) * (1.0 + 1e-6)


def _bulge(ratio: float) -> float:
    return ratio - 1.0 - math.log(ratio)


def _raises_value(subject: Subject, problem: Problem) -> None:
    """With V linear in the context and samples in mirrored pairs, E[V] under p_new is higher."""
    c = subject.make(problem, threshold=1e6)
    p, rng = c.distribution, problem.rng(8)
    half = p.sample(60, rng)
    contexts = np.concatenate([half, 2.0 * p.mean - half])
    direction = rng.normal(size=problem.dim) / p.std
    record = c.update(contexts, (contexts - p.mean) @ direction + problem.offset)
    require(record.step == "performance", f"{record.step} is not a performance step")
    gain = float((c.distribution.mean - p.mean) @ direction)
    require(gain > 0.0 or not record.accepted, f"the expected value changed by {gain:.6g}")


def _converging(subject: Subject) -> st.SearchStrategy[Problem]:
    if subject.exact_arithmetic:
        return subject.problems(dim=st.integers(1, 4), epsilon=st.sampled_from([0.05, 0.2, 0.02]))
    return subject.problems(
        dim=st.integers(1, 2),
        epsilon=st.sampled_from([0.1, 0.2]),
        distance=st.sampled_from([1.0, 2.0]),
        decades=st.sampled_from([0.0, 0.5]),
    )


PROPERTIES = [
    Property(
        "convergence",
        "with the threshold satisfied it reaches the target and stays",
        lambda c: c.converges_within is not None,
        _converging,
        _converges,
        cost=5,
    ),
    Property(
        "no-divergence",
        "with a threshold out of reach it stays within the budget spent",
        lambda c: c.trust_region is not None,
        lambda s: s.problems(dim=st.integers(1, 4 if s.exact_arithmetic else 2)),
        _never_diverges,
        cost=2,
    ),
    Property(
        "raises-value",
        "where the value is linear in the context, a performance step raises its expectation",
        lambda c: c.raises_value,
        lambda s: s.problems(samples=120),
        _raises_value,
    ),
]
