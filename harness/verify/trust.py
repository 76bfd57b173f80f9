"""The KL budget and the value constraint, as each curriculum claims them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import Capabilities
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Problem, Subject
from pacebench.harness.verify.suite import Property, require

# What a constraint may be exceeded by, relative to its size.
TOLERANCE = 1e-6


def _keeps_budget(subject: Subject, problem: Problem) -> str:
    c = subject.make(problem)
    old, before = Normal.of(c.distribution), getattr(c, "theta", None)
    record = c.update(problem.contexts, problem.values)
    new = Normal.of(c.distribution)
    epsilon, kind = problem.epsilon, subject.capabilities.trust_region
    if kind in ("joint", "reverse"):
        spent = oracle.kl(new, old) if kind == "joint" else oracle.kl(old, new)
        _within(spent, epsilon, "the step")
    else:
        target = Normal.of(problem.target)
        after: Any = c.theta  # type: ignore[attr-defined]
        factor = oracle.kappa(epsilon) if kind == "block" else 1.0
        _within(oracle.kl(Normal(new.mean, old.covariance), old), epsilon, "the mean block")
        spread = target.rescaled(old.mean, after)
        _within(oracle.kl(spread, old), factor * epsilon, "the θ-block")
        _within(oracle.kl(new, old), (1.0 + factor) * epsilon, "the joint step")
        require(bool((np.asarray(after) > 0).all()), f"θ is not positive: {after}")
        require(before is not None, "a scaled family has θ")
    return f"{record.step} {record.case}"


def _within(spent: float, budget: float, what: str) -> None:
    require(
        spent <= budget * (1.0 + TOLERANCE) + 1e-12,
        f"{what} spends {spent:.9g} nats of {budget:.9g}",
    )


def _keeps_value(subject: Subject, problem: Problem) -> str | None:
    c = subject.make(problem)
    old = Normal.of(c.distribution)
    theta = np.array(getattr(c, "theta", np.ones(problem.dim)))
    record = c.update(problem.contexts, problem.values)
    if record.step != "convergence":
        return None
    new = Normal.of(c.distribution)
    after = np.array(getattr(c, "theta", np.ones(problem.dim)))
    kind = subject.capabilities.value_constraint
    target = Normal.of(problem.target)
    if kind in ("weighted", "weighted-block"):
        parts = {"the step": new}
        if kind == "weighted-block":
            parts = {
                "the mean block": Normal(new.mean, old.covariance),
                "the θ-block": target.rescaled(old.mean, after),
            }
        for what, p in parts.items():
            value = oracle.weighted_value(p, old, problem.contexts, problem.values)
            _at_least(value, problem, what)
        return record.case
    s = oracle.SampleStatistics.of(
        target, old.mean, theta, problem.contexts, problem.values, problem.threshold
    )
    by_mean = float(s.u @ s.P @ (new.mean - old.mean))
    by_theta = float(s.psi @ (after - theta))
    mean_value = float(problem.values.mean())
    if kind == "linear":
        _at_least(mean_value + by_mean + by_theta, problem, "the joint step")
    else:
        _at_least(mean_value + by_mean, problem, "the mean block")
        _at_least(mean_value + by_theta, problem, "the θ-block")
    return record.case


def _at_least(value: float, problem: Problem, what: str) -> None:
    unit = float(np.abs(problem.values).max()) + abs(problem.threshold)
    require(
        value >= problem.threshold - TOLERANCE * unit,
        f"after {what} the value is {value:.9g}, below V₋ = {problem.threshold:.9g}",
    )


_SLACKS = st.sampled_from([1.0, 0.1, 0.4, 3.0, 0.0])


def _has_budget(c: Capabilities) -> bool:
    return c.trust_region is not None


def _has_value(c: Capabilities) -> bool:
    return c.value_constraint is not None


PROPERTIES = [
    Property(
        "trust-region",
        "the exact KL of every update stays within the budget claimed",
        _has_budget,
        lambda s: s.problems(),
        _keeps_budget,
    ),
    Property(
        "value-constraint",
        "a convergence step keeps the predicted value at or above V₋",
        _has_value,
        lambda s: s.problems(slack=_SLACKS),
        _keeps_value,
    ),
]
