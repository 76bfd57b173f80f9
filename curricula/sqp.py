"""Sequential quadratic programming with the safeguards that a curriculum needs.

A solver may stop early, wander off or return a point a little outside. None of that may reach the
sampling distribution: what comes back from here is feasible and no worse than staying, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from pacebench.curricula.gaussian import Array

Smooth = Callable[[Array], tuple[float, Array]]

# Constraints are scaled so that one is their natural size; a point this far outside is feasible.
FEASIBLE = 1e-9


class Solution(NamedTuple):
    """Where a solver ended.

    Attributes:
        x: The point; the origin where `accepted` is False.
        iterations: Iterations of the solver.
        accepted: Whether the point is feasible and no worse than the origin.
    """

    x: Array
    iterations: int
    accepted: bool


def solve(
    objective: Smooth,
    constraints: Sequence[Smooth],
    guess: Array,
    *,
    radius: float,
    origin: Array | None = None,
    lower: Array | None = None,
) -> Solution:
    """Minimises `objective` subject to every constraint being ≥ 0.

    Args:
        objective: Returns the value and the gradient.
        constraints: Each returns a value, of natural size one, and its gradient.
        guess: Where the solver starts; it need not be feasible.
        radius: The natural length of a step.
        origin: The point to fall back towards, zero unless given: staying where one is.
        lower: Lower bounds of the coordinates.
    """
    start = np.zeros_like(guess) if origin is None else origin
    slope = float(np.linalg.norm(objective(guess)[1])) * radius
    unit = slope if np.isfinite(slope) and slope > 0.0 else 1.0
    goal = Remembered(lambda x: _scaled(objective(x), unit), radius)
    limits = [Remembered(c, radius) for c in constraints]
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            result = minimize(
                goal.value,
                guess / radius,
                jac=goal.gradient,
                method="SLSQP",
                bounds=None if lower is None else Bounds(lb=lower / radius),
                constraints=[{"type": "ineq", "fun": c.value, "jac": c.gradient} for c in limits],
                # Of what a step can change, a billionth; below, the line search meets rounding.
                options={"ftol": 1e-9, "maxiter": 200},
            )
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            # A trial point so far out that it has no distribution: refused like any failure.
            return Solution(start, 0, False)
        iterations = int(result.nit)
        x = np.asarray(result.x, dtype=np.float64) * radius
        if not np.isfinite(x).all():
            return Solution(start, iterations, False)
        feasible, x = _feasible_part(constraints, start, x)
        before, after = objective(start)[0], objective(x)[0]
    if not feasible or not after <= before + 1e-12 * max(abs(before), unit):
        return Solution(start, iterations, False)
    return Solution(x, iterations, True)


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


def _scaled(pair: tuple[float, Array], unit: float) -> tuple[float, Array]:
    return pair[0] / unit, pair[1] / unit


class Remembered:
    """A smooth function of x/radius that evaluates value and gradient once per point."""

    def __init__(self, function: Smooth, radius: float = 1.0) -> None:
        self._function, self._radius = function, radius
        self._at: bytes | None = None
        self._pair: tuple[float, Array] = (0.0, np.zeros(0))

    def _evaluate(self, x: Array) -> tuple[float, Array]:
        key = x.tobytes()
        if key != self._at:
            value, gradient = self._function(x * self._radius)
            self._at, self._pair = key, (value, gradient * self._radius)
        return self._pair

    def value(self, x: Array) -> float:
        """Returns the value at x."""
        return self._evaluate(x)[0]

    def gradient(self, x: Array) -> Array:
        """Returns the gradient at x."""
        return self._evaluate(x)[1]
