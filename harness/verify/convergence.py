"""Where repeated updates lead."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import Capabilities
from pacebench.curricula.distributions import divergence
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import Violation, promise, require

# After how many updates a curriculum must have arrived: with a closed form, and with a solver.
LONGEST, LONGEST_NUMERICAL = 600, 150


def _quickly_solved(subject: Subject) -> st.SearchStrategy[UpdateProblem]:
    if subject.exact_arithmetic:
        return subject.problems(dim=st.integers(1, 4), epsilon=st.sampled_from([0.05, 0.2, 0.02]))
    return subject.problems(
        dim=st.integers(1, 2),
        epsilon=st.sampled_from([0.1, 0.2]),
        distance=st.sampled_from([1.0, 2.0]),
        decades=st.sampled_from([0.0, 0.5]),
    )


@promise(
    "convergence",
    claimed=lambda c: c.converges_within is not None,
    examples=_quickly_solved,
    cost=5,
)
def converges(subject: Subject, problem: UpdateProblem) -> None:
    """With the threshold satisfied it reaches the target and stays."""
    within = subject.capabilities.converges_within or 0.0
    c, rng, target = subject.make(problem, threshold=0.0), problem.rng(7), problem.target
    limit = LONGEST if subject.exact_arithmetic else LONGEST_NUMERICAL

    def update() -> float:
        contexts = c.sample(60, rng)
        # All near 1 with V₋ = 0: the slack exceeds what any step within the budget can cost.
        c.update(contexts, 1.0 + 0.05 * rng.standard_normal(60))
        return divergence(c.distribution, target)[0] or 0.0

    if not any(update() <= within for _ in range(limit)):
        left = oracle.kl(Normal.of(c.distribution), Normal.of(target))
        raise Violation(f"after {limit} updates it is still {left:.6g} nats from the target")
    for _ in range(5):
        update()
        p = c.distribution
        if within == 0.0:
            same = np.array_equal(p.mean, target.mean)
            same = same and np.array_equal(p.covariance, target.covariance)
            require(same, "it reached the target and left it again, or is not exactly there")
        else:
            away = oracle.kl(Normal.of(p), Normal.of(target))
            require(away <= within, f"it reached the target and is {away:.6g} nats away again")


@promise(
    "no-divergence",
    claimed=lambda c: c.trust_region is not None,
    examples=lambda s: s.problems(dim=st.integers(1, 4 if s.exact_arithmetic else 2)),
    cost=2,
)
def never_diverges(subject: Subject, problem: UpdateProblem) -> None:
    """With a threshold out of reach it stays within the budget spent."""
    updates = 12 if subject.exact_arithmetic else 4
    c = subject.make(problem, threshold=float(np.abs(problem.values).max()) * 10 + 1.0)
    start, rng = Normal.of(c.distribution), problem.rng(8)
    for _ in range(updates):
        contexts = c.sample(problem.samples, rng)
        c.update(contexts, problem.value_of(contexts))
        p = Normal.of(c.distribution)
        finite = np.isfinite(p.mean).all() and np.isfinite(p.covariance).all()
        require(finite, "the distribution is not finite")
        require((p.covariance.diagonal() > 0).all(), "a variance is not positive")
        require((np.asarray(getattr(c, "theta", 1.0)) > 0).all(), "θ is not positive")
    spent = oracle.kl(Normal.of(c.distribution), start)
    allowed = _reach(subject.capabilities, problem, updates)
    said = f"KL to the start is {spent:.6g}, and the budget allows {allowed:.6g}"
    require(spent <= allowed, said)


def _reach(claims: Capabilities, problem: UpdateProblem, updates: int) -> float:
    """Returns an upper bound of KL(p_n‖p_0) after n updates, each within its budget.

    The budget bounds every variance ratio ρ of a step through ½(ρ − 1 − ln ρ), and the ratios of
    successive steps multiply. It bounds a step of the mean in units of the current standard
    deviation, which these ratios relate to the initial one.
    """
    epsilon = problem.epsilon
    budget = epsilon * (oracle.kappa(epsilon) if claims.trust_region == "block" else 1.0)
    low, high = oracle.spread_range(budget)
    if claims.trust_region == "reverse":
        low, high = 1.0 / high, 1.0 / low
    step = math.sqrt(2.0 * epsilon * (high if claims.trust_region == "reverse" else 1.0))
    way: float = sum(step * high ** (i / 2.0) for i in range(updates))
    worst = max(ratio - 1.0 - math.log(ratio) for ratio in (low**updates, high**updates))
    return 0.5 * (problem.dim * worst + way**2) * (1.0 + 1e-6)


@promise(
    "raises-value", claimed=lambda c: c.raises_value, examples=lambda s: s.problems(samples=120)
)
def raises_value(subject: Subject, problem: UpdateProblem) -> None:
    """Where the value is linear in the context, a performance step raises its expectation."""
    c = subject.make(problem, threshold=1e6)
    p, rng = c.distribution, problem.rng(8)
    half = p.sample(60, rng)
    contexts = np.concatenate([half, 2.0 * p.mean - half])
    direction = rng.normal(size=problem.dim) / p.std
    record = c.update(contexts, (contexts - p.mean) @ direction + problem.offset)
    require(record.step == "performance", f"{record.step} is not a performance step")
    gain = float((c.distribution.mean - p.mean) @ direction)
    require(gain > 0.0 or not record.accepted, f"the expected value changed by {gain:.6g}")
