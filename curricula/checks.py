"""Checks of what a curriculum is given: a mistake raises a `CurriculumError` that names it."""

from __future__ import annotations

import math

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


def as_bounds(bounds: tuple[ArrayLike, ArrayLike], dim: int) -> tuple[Array, Array]:
    """Returns the lower and the upper context bounds as vectors."""
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise CurriculumError("bounds must be a pair (lower, upper) of vectors.") from None
    low, high = as_vector(lower, "lower bound"), as_vector(upper, "upper bound")
    if len(low) != dim or len(high) != dim:
        raise CurriculumError(
            f"bounds must have {dim} numbers each, not {len(low)} and {len(high)}."
        )
    if not (low < high).all():
        raise CurriculumError("every lower bound must lie below its upper bound.")
    return low, high


def as_samples(contexts: ArrayLike, values: ArrayLike, dim: int) -> tuple[Array, Array]:
    """Returns contexts (K, d) and values (K,) as finite arrays, without copying where possible."""
    try:
        c = np.asarray(contexts, dtype=np.float64)
        v = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise CurriculumError(
            "contexts and values must be arrays of numbers, (K, d) and (K,)."
        ) from None
    if c.ndim != 2 or c.shape[1] != dim or v.shape != c.shape[:1]:
        raise CurriculumError(
            f"an update needs contexts of shape (K, {dim}) and values of shape (K,), not "
            f"{c.shape} and {v.shape}."
        )
    if len(v) == 0:
        raise CurriculumError("an update needs at least one context; K is 0.")
    # A NaN or an infinity makes the sum not finite, and a sum needs no K × d temporary. Because it
    # may also overflow, the entries themselves are looked at before anything is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = math.isfinite(float(c.sum()) + float(v.sum()))
    if not finite:
        for what, array in (("contexts", c), ("values", v)):
            bad = np.argwhere(~np.isfinite(array))
            if len(bad):
                raise CurriculumError(
                    f"the {what} contain NaN or infinite numbers, first in row {bad[0][0]}; "
                    "drop or repair those episodes."
                )
    return c, v
