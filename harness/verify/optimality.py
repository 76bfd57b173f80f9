"""Global optimality of closed forms, judged by an independent solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.problems import ObservedUpdate, Subject, UpdateProblem
from pacebench.harness.verify.suite import promise, require

# How much better an independent solution may be, relative to what a step can change.
TOLERANCE = 1e-6

Objective = Callable[[Array], tuple[float, Array]]


def best_in_ball(
    objective: Objective, value: tuple[float, Array] | None, rng: np.random.Generator, size: int
) -> float:
    """Returns the least objective that SLSQP finds in the unit ball where α + β·y ≥ 0, α ≥ 0.

    It starts from several points. Each result is pulled back until it is feasible.
    """
    constraints: list[Any] = [
        {"type": "ineq", "fun": lambda y: 1.0 - y @ y, "jac": lambda y: -2.0 * y}
    ]
    alpha, beta = value if value is not None else (0.0, np.zeros(size))
    if scale := max(alpha, float(np.linalg.norm(beta))):
        linear = {"fun": lambda y: (alpha + beta @ y) / scale, "jac": lambda y: beta / scale}
        constraints.append({"type": "ineq", **linear})
    downhill = -objective(np.zeros(size))[1]
    unit = float(np.linalg.norm(downhill)) or 1.0

    def scaled(y: Array) -> tuple[float, Array]:
        value, gradient = objective(y)
        return value / unit, gradient / unit

    best = math.inf
    for y0 in (np.zeros(size), rng.uniform(-1, 1, size) / math.sqrt(size), downhill / unit):
        result = minimize(
            scaled,
            y0,
            jac=True,
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


class _Whitened(NamedTuple):
    """The statistics and the step in coordinates where all norms are Euclidean.

    `u`, `psi`, `gap` and `omega` are those of `oracle.SampleStatistics`; `theta_gap` is 1 − θ.
    """

    u: Array
    psi: Array
    gap: Array
    omega: Array
    theta_gap: Array
    mean_step: Array
    theta_step: Array

    @classmethod
    def of(cls, update: ObservedUpdate) -> _Whitened:
        s = update.statistics
        L, G = np.linalg.cholesky(np.linalg.inv(s.P)), np.linalg.cholesky(s.H)
        mean_step, theta_step = update.new.mean - update.old.mean, update.new_theta - update.theta
        return cls(
            u=L.T @ s.P @ s.u,
            psi=np.linalg.solve(G, s.psi),
            gap=np.asarray(np.linalg.solve(L, s.gap), dtype=np.float64),
            omega=np.linalg.solve(G, s.omega),
            theta_gap=G.T @ (1.0 - update.theta),
            mean_step=np.asarray(np.linalg.solve(L, mean_step), dtype=np.float64),
            theta_step=G.T @ theta_step,
        )


def _distance(gap: Array) -> Objective:
    """Returns the objective ½‖gap − y‖²."""
    return lambda y: (0.5 * float((gap - y) @ (gap - y)), y - gap)


def _linear(gradient: Array) -> Objective:
    """Returns the objective gradient·y."""
    return lambda y: (float(gradient @ y), gradient)


_WIDE: dict[str, Any] = {
    "slack": st.sampled_from([1.0, 0.1, 0.4, 3.0, 0.0, -1.0, 0.02]),
    "distance": st.sampled_from([1.0, 0.2, 0.05, 3.0, 10.0, 0.0]),
}


@promise(
    "optimality",
    claimed=lambda c: c.optimal == "block-linear",
    examples=lambda s: s.problems(**_WIDE),
)
def block_optimal(subject: Subject, problem: UpdateProblem) -> str:
    """No feasible step that an independent solver finds is better, block by block."""
    update = subject.update(problem)
    w, converges, epsilon = _Whitened.of(update), update.converges, problem.epsilon
    slack, rng = update.statistics.slack, problem.rng(9)
    bound = slack if converges else None
    goal = _distance(w.gap) if converges else _linear(-w.u)
    _compare(goal, w.mean_step, bound, w.u, math.sqrt(2 * epsilon), rng, "μ")
    lands = (update.new_theta == 1.0).all()
    reachable = float(w.theta_gap @ w.theta_gap) <= 4 * epsilon * (1 - TOLERANCE)
    margin = TOLERANCE * (abs(slack) + float(np.linalg.norm(w.psi)))
    if converges and reachable and slack + float(w.psi @ w.theta_gap) >= margin:
        require(lands, "θ = 1 is within reach and is not taken")
    if not (converges and lands):
        goal = _linear(w.omega if converges else -w.psi)
        _compare(goal, w.theta_step, bound, w.psi, 2 * math.sqrt(epsilon), rng, "θ")
    return update.case


def _compare(
    objective: Objective,
    step: Array,
    slack: float | None,
    slope: Array,
    radius: float,
    rng: np.random.Generator,
    what: str,
) -> None:
    """Requires that a step keeps its constraints and that no step in the ball is better.

    They are ‖step‖ ≤ radius, which the budget allows, and slack + slope·step ≥ 0 unless there is no
    slack: the constraint on the value, whose gradient is the slope.
    """

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


@promise(
    "joint-optimality",
    claimed=lambda c: c.optimal == "joint-linear",
    examples=lambda s: s.problems(**_WIDE),
)
def joint_optimal(subject: Subject, problem: UpdateProblem) -> str:
    """No feasible joint step that an independent solver finds is better, up to the shortening."""
    update = subject.update(problem)
    if update.record.case == "free":
        landed = (update.new_theta == 1.0).all() and (update.new.mean == update.target.mean).all()
        require(landed, "case free did not land on the target")
        return update.case
    w, converges, d = _Whitened.of(update), update.converges, problem.dim
    # Coordinates in which the budget is ½‖y‖² ≤ ε: the θ-step counts with the factor 1/√2.
    slope = np.concatenate([w.u, math.sqrt(2) * w.psi])
    step = np.concatenate([w.mean_step, w.theta_step / math.sqrt(2)])
    distance, pull = _distance(w.gap), _linear(math.sqrt(2) * w.omega)

    def objective(y: Array) -> tuple[float, Array]:
        if not converges:
            return -float(slope @ y), -slope
        (near, by_mean), (along, by_theta) = distance(y[:d]), pull(y[d:])
        return near + along, np.concatenate([by_mean, by_theta])

    # The step was shortened if its exact KL is ε; lengthen it to the quadratic budget again.
    radius = math.sqrt(2 * problem.epsilon)
    length = float(np.linalg.norm(step))
    if oracle.kl(update.new, update.old) >= problem.epsilon * (1 - TOLERANCE) and length > 0.0:
        step = step * max(1.0, radius / length)
    slack = update.statistics.slack if converges else None
    _compare(objective, step, slack, slope, radius, problem.rng(9), "joint ")
    return update.case
