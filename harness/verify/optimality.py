"""No feasible point that an independent solver finds is better than the curriculum's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Array, Normal
from pacebench.harness.verify.problems import Problem, Subject
from pacebench.harness.verify.suite import Property, require

# How much better, relative to what a step can change, an independent solution may be.
TOLERANCE = 1e-6

Objective = Callable[[Array], tuple[float, Array]]


def best_in_ball(
    objective: Objective, value: tuple[float, Array] | None, rng: np.random.Generator, size: int
) -> float:
    """Returns the least objective SLSQP finds in the unit ball where α + β·y ≥ 0, α ≥ 0.

    Several starts; what it returns is pulled back until it is feasible, so that it counts.
    """
    constraints: list[Any] = [
        {"type": "ineq", "fun": lambda y: 1.0 - y @ y, "jac": lambda y: -2.0 * y}
    ]
    alpha, beta = value if value is not None else (0.0, np.zeros(size))
    scale = max(alpha, float(np.linalg.norm(beta)))
    if value is not None and scale > 0.0:
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda y: (alpha + beta @ y) / scale,
                "jac": lambda y: beta / scale,
            }
        )
    unit = float(np.linalg.norm(objective(np.zeros(size))[1])) or 1.0

    def goal(y: Array) -> float:
        return objective(y)[0] / unit

    def slope(y: Array) -> Array:
        return np.asarray(objective(y)[1] / unit)

    best = math.inf
    for start in (np.zeros(size), rng.uniform(-1, 1, size) / math.sqrt(size), None):
        gradient = objective(np.zeros(size))[1]
        y0 = -gradient / unit if start is None else start
        result = minimize(
            goal,
            y0,
            jac=slope,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-14, "maxiter": 300},
        )
        y = np.asarray(result.x) / max(1.0, float(np.linalg.norm(result.x)))
        for _ in range(60):
            if alpha + beta @ y >= 0.0:
                break
            y = y * (alpha / -(beta @ y)) if alpha > 0.0 else y * 0.0
        if np.isfinite(y).all():
            best = min(best, objective(y)[0])
    return best


def _block_optimal(subject: Subject, problem: Problem) -> str:
    c = subject.make(problem)
    old, theta = Normal.of(c.distribution), np.array(c.theta)  # type: ignore[attr-defined]
    record = c.update(problem.contexts, problem.values)
    new, after = Normal.of(c.distribution), np.array(c.theta)  # type: ignore[attr-defined]
    target = Normal.of(problem.target)
    s = oracle.SampleStatistics.of(
        target, old.mean, theta, problem.contexts, problem.values, problem.threshold
    )
    L, G = np.linalg.cholesky(np.linalg.inv(s.P)), np.linalg.cholesky(s.H)
    gap, u = np.linalg.solve(L, s.gap), L.T @ s.P @ s.u
    psi, omega = np.linalg.solve(G, s.psi), np.linalg.solve(G, s.omega)
    mean_step = np.asarray(np.linalg.solve(L, new.mean - old.mean), dtype=np.float64)
    theta_step = G.T @ (after - theta)
    converge = record.step == "convergence"
    value = s.slack if converge else None
    rng, epsilon = problem.rng(9), problem.epsilon

    def approach(e: Array) -> tuple[float, Array]:
        return 0.5 * float((gap - e) @ (gap - e)), e - gap

    def ascend_mean(e: Array) -> tuple[float, Array]:
        return -float(u @ e), -u

    _judge(
        approach if converge else ascend_mean, mean_step, value, u, math.sqrt(2 * epsilon), rng, "μ"
    )
    lands = (after == 1.0).all()
    to_target = G.T @ (1.0 - theta)
    reachable = float(to_target @ to_target) <= 4 * epsilon * (1 - TOLERANCE)
    margin = TOLERANCE * (abs(s.slack) + float(np.linalg.norm(psi)))
    if converge and reachable and s.slack + float(psi @ to_target) >= margin:
        require(bool(lands), "θ = 1 is within reach and is not taken")
    if not (converge and lands):
        pull = omega if converge else -psi

        def descend(f: Array) -> tuple[float, Array]:
            return float(pull @ f), pull

        _judge(descend, theta_step, value, psi, 2 * math.sqrt(epsilon), rng, "θ")
    return f"{record.step} {record.case}"


def _judge(
    objective: Objective,
    step: Array,
    slack: float | None,
    slope: Array,
    radius: float,
    rng: np.random.Generator,
    what: str,
) -> None:
    """Compares a step with the best of the ball, in the step's own units."""

    def scaled(y: Array) -> tuple[float, Array]:
        f, g = objective(radius * y)
        return f, radius * g

    size = float(np.linalg.norm(objective(np.zeros_like(step))[1])) * radius + radius**2
    require(float(np.linalg.norm(step)) <= radius * (1 + TOLERANCE), f"{what} leaves its budget")
    value = None if slack is None else (slack, radius * slope)
    if slack is not None:
        unit = abs(slack) + float(np.linalg.norm(slope)) * radius
        require(slack + float(slope @ step) >= -TOLERANCE * unit, f"{what} breaks the value bound")
    best, mine = best_in_ball(scaled, value, rng, len(step)), objective(step)[0]
    require(
        mine <= best + TOLERANCE * max(size, abs(best)),
        f"the {what}-step has objective {mine:.12g}, and {best:.12g} is feasible",
    )


def _joint_optimal(subject: Subject, problem: Problem) -> str:
    """The step solves the quadratic joint problem up to the shortening to the exact KL."""
    c = subject.make(problem)
    old, theta = Normal.of(c.distribution), np.array(c.theta)  # type: ignore[attr-defined]
    record = c.update(problem.contexts, problem.values)
    new, after = Normal.of(c.distribution), np.array(c.theta)  # type: ignore[attr-defined]
    target, epsilon = Normal.of(problem.target), problem.epsilon
    s = oracle.SampleStatistics.of(
        target, old.mean, theta, problem.contexts, problem.values, problem.threshold
    )
    L, G = np.linalg.cholesky(np.linalg.inv(s.P)), np.linalg.cholesky(s.H)
    gap, d = np.linalg.solve(L, s.gap), problem.dim
    slope = np.concatenate([L.T @ s.P @ s.u, math.sqrt(2) * np.linalg.solve(G, s.psi)])
    pull = math.sqrt(2) * np.linalg.solve(G, s.omega)
    # Coordinates in which the budget is ½‖y‖² ≤ ε: the θ-step counts with the factor 1/√2.
    step = np.concatenate(
        [np.linalg.solve(L, new.mean - old.mean), G.T @ (after - theta) / math.sqrt(2)]
    )
    if record.case == "free":
        require(bool((after == 1.0).all()) and bool((new.mean == target.mean).all()), "not landed")
        return f"{record.step} {record.case}"
    converge = record.step == "convergence"

    def objective(y: Array) -> tuple[float, Array]:
        if not converge:
            return -float(slope @ y), -slope
        e, f = y[:d], y[d:]
        return 0.5 * float((gap - e) @ (gap - e)) + float(pull @ f), np.concatenate([e - gap, pull])

    # Undo the shortening: the longest multiple within the quadratic budget, if that is what binds.
    radius = math.sqrt(2 * epsilon)
    length = float(np.linalg.norm(step))
    exact = oracle.kl(new, old)
    if exact >= epsilon * (1 - TOLERANCE) and length > 0.0:
        step = step * max(1.0, radius / length)
    _judge(objective, step, s.slack if converge else None, slope, radius, problem.rng(9), "joint ")
    return f"{record.step} {record.case}"


_WIDE = {
    "slack": st.sampled_from([1.0, 0.1, 0.4, 3.0, 0.0, -1.0, 0.02]),
    "distance": st.sampled_from([1.0, 0.2, 0.05, 3.0, 10.0, 0.0]),
}

PROPERTIES = [
    Property(
        "optimality",
        "no feasible step that an independent solver finds is better, block by block",
        lambda c: c.optimal == "block-linear",
        lambda s: s.problems(**_WIDE),
        _block_optimal,
    ),
    Property(
        "joint-optimality",
        "no feasible joint step that an independent solver finds is better, up to the shortening",
        lambda c: c.optimal == "joint-linear",
        lambda s: s.problems(**_WIDE),
        _joint_optimal,
    ),
]
