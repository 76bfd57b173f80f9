"""The KL budget and the value constraint, as each curriculum claims them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import promise, require

# How far a constraint may be exceeded, relative to its size.
TOLERANCE = 1e-6


@promise("trust-region", claimed=lambda c: c.trust_region is not None)
def keeps_budget(subject: Subject, problem: UpdateProblem) -> str:
    """The exact KL of every update stays within the budget claimed."""
    u, epsilon, kind = subject.update(problem), problem.epsilon, subject.capabilities.trust_region
    if kind == "joint":
        _within(oracle.kl(u.new, u.old), epsilon, "the step")
    elif kind == "reverse":
        _within(oracle.kl(u.old, u.new), epsilon, "the step")
    else:
        factor = oracle.kappa(epsilon) if kind == "block" else 1.0
        spread = u.target.rescaled(u.old.mean, u.new_theta)
        _within(oracle.kl(Normal(u.new.mean, u.old.covariance), u.old), epsilon, "the mean block")
        _within(oracle.kl(spread, u.old), factor * epsilon, "the θ-block")
        _within(oracle.kl(u.new, u.old), (1.0 + factor) * epsilon, "the joint step")
        require((u.new_theta > 0).all(), f"θ is not positive: {u.new_theta}")
    return u.case


def _within(spent: float, budget: float, what: str) -> None:
    said = f"{what} spends {spent:.9g} nats of {budget:.9g}"
    require(spent <= budget * (1.0 + TOLERANCE) + 1e-12, said)


@promise(
    "value-constraint",
    claimed=lambda c: c.value_constraint is not None,
    examples=lambda s: s.problems(slack=st.sampled_from([1.0, 0.1, 0.4, 3.0, 0.0])),
)
def keeps_value(subject: Subject, problem: UpdateProblem) -> str | None:
    """A convergence step keeps the predicted value at or above V₋."""
    u, kind = subject.update(problem), subject.capabilities.value_constraint
    if not u.converges:
        return None
    if kind == "weighted":
        after = {"the step": u.weighted_value(u.new)}
    elif kind == "weighted-block":
        after = {
            "the mean block": u.weighted_value(Normal(u.new.mean, u.old.covariance)),
            "the θ-block": u.weighted_value(u.target.rescaled(u.old.mean, u.new_theta)),
        }
    else:
        s, mean_value = u.statistics, float(problem.values.mean())
        by_mean = float(s.u @ s.P @ (u.new.mean - u.old.mean))
        by_theta = float(s.psi @ (u.new_theta - u.theta))
        after = {"the mean block": mean_value + by_mean, "the θ-block": mean_value + by_theta}
        if kind == "linear":
            after = {"the joint step": mean_value + by_mean + by_theta}
    unit = float(np.abs(problem.values).max()) + abs(problem.threshold)
    for what, value in after.items():
        said = f"after {what} the value is {value:.9g}, below V₋ = {problem.threshold:.9g}"
        require(value >= problem.threshold - TOLERANCE * unit, said)
    return u.record.case
