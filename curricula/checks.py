"""Checks of what a curriculum is given: a mistake raises a `CurriculumError` that names it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacebench.curricula.errors import CurriculumError

Array = NDArray[np.float64]


def as_number(value: float, what: str) -> float:
    """Returns `value` as a float; `what` names it in the message."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CurriculumError(f"{what} must be a number, not {value!r}.") from None


def as_vector(value: ArrayLike, what: str) -> Array:
    """Returns `value` as a new vector of finite floats; `what` names it in the message."""
    try:
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise CurriculumError(f"the {what} is not an array of numbers; give a vector.") from None
    if vector.ndim != 1 or vector.size == 0:
        raise CurriculumError(
            f"the {what} has shape {vector.shape}; give a vector of length d ≥ 1."
        )
    if not np.isfinite(vector).all():
        raise CurriculumError(f"the {what} contains NaN or infinite numbers; give finite ones.")
    return vector


def as_bounds(bounds: tuple[ArrayLike, ArrayLike], dim: int | None = None) -> tuple[Array, Array]:
    """Returns the lower and the upper context bounds as vectors, of length `dim` if given."""
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise CurriculumError("bounds must be a pair (lower, upper) of vectors.") from None
    low, high = as_vector(lower, "lower bound"), as_vector(upper, "upper bound")
    dim = len(low) if dim is None else dim
    if len(low) != dim or len(high) != dim:
        raise CurriculumError(
            f"bounds must have {dim} numbers each, not {len(low)} and {len(high)}."
        )
    if not (low < high).all():
        raise CurriculumError("every lower bound must lie below its upper bound.")
    return low, high
