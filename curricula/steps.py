"""The two lemmas of SPGL as pure functions of whitened vectors.

In whitened coordinates (see `curricula.family`) all norms are Euclidean, and the problems become
geometry: a ball (the KL budget), a half-space (the value constraint) and a point or direction to
approach. The closed forms are written so that no case divides by a difference of nearly equal
numbers; wherever the multipliers λ₁…λ₄ of `docs/curricula.md` are defined, they give the same step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacebench.curricula.checks import Array

# Directions whose sine is below this count as parallel: the rest is rounding error.
PARALLEL = 1e-12


class Step(NamedTuple):
    """A change of the distribution's parameters that a closed form or a solver chose.

    Attributes:
        delta: The whitened change of one block, mean or θ; or of both, the mean's d numbers first.
        case: Which constraints bind there. `free`: none, and the block lands on the target; `kl`:
            the budget; `value`: the value constraint; `both`. `ascent`: a performance step;
            `stationary`: no direction is better than another; `interior`: a solver's optimum away
            from the target where nothing binds; `rejected`: a solver found nothing usable. Where
            the blocks are moved one by one, `mean/theta`.
        iterations: Iterations of the solver, 0 for a closed form.
        accepted: Whether the step may be used.
        predicted_value: The value after the step by the exact model, where that is the one used.
    """

    delta: Array
    case: str
    iterations: int = 0
    accepted: bool = True
    predicted_value: float | None = None

    @property
    def lands(self) -> tuple[bool, bool]:
        """Whether the mean, and whether θ, lands on the target, of a step of both blocks."""
        mean, _, theta = self.case.partition("/")
        return mean == "free", (theta or mean) == "free"


def side_by_side(mean: Step, theta: Step) -> Step:
    """Returns the step of both blocks, of which each was chosen by itself."""
    return Step(
        np.concatenate([mean.delta, theta.delta]),
        f"{mean.case}/{theta.case}",
        mean.iterations + theta.iterations,
        mean.accepted and theta.accepted,
    )


def ascent(slope: Array, radius: float) -> Step:
    """Lemma 1: returns the step of length `radius` that raises the linearised value most."""
    norm = length(slope)
    if norm == 0.0:
        return Step(np.zeros_like(slope), "stationary")
    return Step(slope / norm * radius, "ascent")


def approach(slack: float, slope: Array, gap: Array, epsilon: float) -> Step:
    """Lemma 2, mean: minimises ½‖gap − δ‖² subject to slack + slope·δ ≥ 0 and ½‖δ‖² ≤ ε.

    Args:
        slack: a ≥ 0.
        slope: The gradient ū of the value.
        gap: x = μ̃ − μ.
        epsilon: The KL budget ε.
    """
    budget = 2.0 * epsilon
    distance2 = float(gap @ gap)
    gain = float(slope @ gap)
    if distance2 <= budget:
        if slack + gain >= 0.0:
            return Step(gap, "free")
    else:
        shrink = math.sqrt(budget / distance2)
        if slack + gain * shrink >= 0.0:
            return Step(gap * shrink, "kl")
    # Here the value constraint binds: δ lies in the plane slope·δ = −a, at its point nearest to the
    # gap (case `value`), or where that leaves the ball, on their circle (case `both`).
    unit, along = _direction(slope, slack)
    across = beside(gap, unit)
    across2, room2 = float(across @ across), budget - along * along
    if across2 <= room2:
        return Step(across - unit * along, "value")
    return Step(across * math.sqrt(max(0.0, room2) / across2) - unit * along, "both")


def descend(slack: float, slope: Array, pull: Array, gap: Array, epsilon: float) -> Step:
    """Lemma 2, θ: minimises pull·δ subject to slack + slope·δ ≥ 0 and ¼‖δ‖² ≤ ε.

    Args:
        slack: a ≥ 0.
        slope: The gradient ψ̄ of the value.
        pull: The gradient ω of KL(ψ‖p).
        gap: 1 − θ, the step that lands on the target.
        epsilon: The KL budget ε.
    """
    budget = 4.0 * epsilon
    if float(gap @ gap) <= budget and slack + float(slope @ gap) >= 0.0:
        return Step(gap, "free")
    strength = length(pull)
    if strength == 0.0:
        return Step(np.zeros_like(pull), "stationary")
    radius = math.sqrt(budget)
    if slack - float(slope @ pull) * (radius / strength) >= 0.0:
        return Step(pull * (-radius / strength), "kl")
    unit, along = _direction(slope, slack)
    across = beside(pull, unit)
    rest = length(across)
    if rest <= PARALLEL * strength:
        # The objective is constant on the plane slope·δ = −a; its shortest step is taken.
        return Step(unit * -along, "value")
    room = math.sqrt(max(0.0, budget - along * along))
    return Step(across * (-room / rest) - unit * along, "both")


def beside(vector: Array, unit: Array) -> Array:
    """Returns the part of `vector` orthogonal to `unit`.

    The projection is subtracted twice: if the two are nearly parallel, the first remainder is not
    orthogonal to `unit`, because of the rounding errors of the whole vector.
    """
    rest = vector - unit * float(unit @ vector)
    return rest - unit * float(unit @ rest)


def _direction(slope: Array, slack: float) -> tuple[Array, float]:
    """Returns the slope's unit vector, and the distance from 0 of the plane slope·δ = −slack."""
    norm = length(slope)
    return slope / norm, slack / norm


def length(vector: Array) -> float:
    """Returns the Euclidean norm, also of vectors whose squares underflow."""
    square = float(vector @ vector)
    if square > 1e-280:
        return math.sqrt(square)
    largest = float(np.abs(vector).max())
    return largest * math.sqrt(float(np.sum((vector / largest) ** 2))) if largest else 0.0
