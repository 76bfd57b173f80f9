"""Sequential quadratic programming with the safeguards that a curriculum needs.

A solver may stop early, diverge, or return a point slightly outside the constraints. None of that
may reach the sampling distribution: the result of `solve` is feasible and no worse than staying, or
it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import Bounds, minimize

from pacebench.curricula.checks import Array
from pacebench.curricula.steps import Step

Smooth = Callable[[Array], tuple[float, Array]]

# Constraints are scaled to be of size one; a point that violates one by this much is feasible.
FEASIBLE = 1e-9


def solve(
    objective: Smooth,
    constraints: Sequence[Smooth],
    guess: Array,
    *,
    radius: float,
    origin: Array | None = None,
    lower: Array | None = None,
) -> Step:
    """Minimises `objective` subject to every constraint being ≥ 0.

    The step's `delta` is the point found. It is accepted if it is feasible and no worse than the
    origin, whatever the solver says of itself; otherwise the case is `rejected` and the origin is
    returned. Which constraints bind, the caller has to say: the case is `solved` here.

    Args:
        objective: Returns its value and its gradient.
        constraints: Each returns a value, scaled to be of size one, and its gradient.
        guess: Where the solver starts; it need not be feasible.
        radius: The typical length of a step, which the variables are scaled by.
        origin: The point that stands for staying, zero unless given; a result that is not feasible
            is pulled back towards it.
        lower: Lower bounds of the coordinates.
    """
    start = np.zeros_like(guess) if origin is None else origin
    slope = float(np.linalg.norm(objective(guess)[1])) * radius
    unit = slope if np.isfinite(slope) and slope > 0.0 else 1.0
    goal, slope_of_goal = once_per_point(lambda x: _over(objective(x), unit), radius)
    limits = [once_per_point(constraint, radius) for constraint in constraints]
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            result = minimize(
                goal,
                guess / radius,
                jac=slope_of_goal,
                method="SLSQP",
                bounds=None if lower is None else Bounds(lb=lower / radius),
                constraints=[{"type": "ineq", "fun": f, "jac": jac} for f, jac in limits],
                # A billionth of what a step can gain; a smaller one is lost in rounding errors.
                options={"ftol": 1e-9, "maxiter": 200},
            )
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            # The solver tried a point that no distribution belongs to.
            return Step(start, "rejected", 0, False)
        refused = Step(start, "rejected", int(result.nit), False)
        x = np.asarray(result.x, dtype=np.float64) * radius
        if not np.isfinite(x).all():
            return refused
        feasible, x = _feasible_part(constraints, start, x)
        before, after = objective(start)[0], objective(x)[0]
    if not feasible or not after <= before + 1e-12 * max(abs(before), unit):
        return refused
    return Step(x, "solved", refused.iterations)


def affine(function: Smooth, scale: float, offset: float = 0.0) -> Smooth:
    """Returns the function offset + scale · function."""

    def evaluate(x: Array) -> tuple[float, Array]:
        value, gradient = function(x)
        return offset + scale * value, scale * gradient

    return evaluate


def _feasible_part(constraints: Sequence[Smooth], start: Array, x: Array) -> tuple[bool, Array]:
    """Returns whether part of the way from `start` to `x` is feasible, and the end of that part."""

    def at(s: float) -> Array:
        return x if s == 1.0 else start + s * (x - start)

    def feasible(s: float) -> bool:
        point = at(s)
        return all(c(point)[0] >= -FEASIBLE for c in constraints)

    if feasible(1.0):
        return True, x
    inside, outside = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if feasible(middle) else (inside, middle)
    return feasible(inside), at(inside)


def _over(pair: tuple[float, Array], unit: float) -> tuple[float, Array]:
    return pair[0] / unit, pair[1] / unit


def once_per_point(
    function: Smooth, radius: float = 1.0
) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """Returns value and gradient, as functions of x/radius, that are computed together.

    SciPy asks for the two separately at the same point.
    """

    @lru_cache(maxsize=1)
    def evaluate(point: bytes) -> tuple[float, Array]:
        value, gradient = function(np.frombuffer(point) * radius)
        return value, gradient * radius

    return lambda x: evaluate(x.tobytes())[0], lambda x: evaluate(x.tobytes())[1]
