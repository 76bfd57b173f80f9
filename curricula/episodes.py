"""The episodes that one update learns from."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacebench.curricula.checks import Array
from pacebench.curricula.errors import CurriculumError


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """K finished episodes in the order in which they *started*; what is not given is None.

    A curriculum says in `Curriculum.reads` which of these it needs.

    Attributes:
        contexts: The contexts as they were sampled, not clipped, (K, d).
        values: The declared value signal of each, (K,).
        returns: Sums of rewards.
        discounted_returns: Sums of discounted rewards.
        success: Whether the episode counts as solved.
        lengths: Steps.
        start_values: The critic at the first observation.
        value_errors: The mean over the episode's observations of max(0, R − V(s)), with R the best
            discounted return known of its context.

    Raises:
        CurriculumError: A shape does not fit, K is 0 or a number is not finite.
    """

    contexts: Array
    values: Array | None = None
    returns: Array | None = None
    discounted_returns: Array | None = None
    success: NDArray[np.bool_] | None = None
    lengths: NDArray[np.int64] | None = None
    start_values: Array | None = None
    value_errors: Array | None = None

    def __post_init__(self) -> None:
        contexts = _as_array("contexts", self.contexts, np.float64)
        if contexts.ndim != 2:
            raise CurriculumError(
                f"contexts must have shape (K, d), one row an episode, not {contexts.shape}."
            )
        if len(contexts) == 0:
            raise CurriculumError("an update needs at least one context; K is 0.")
        object.__setattr__(self, "contexts", contexts)
        for field in fields(self)[1:]:
            given = getattr(self, field.name)
            if given is None:
                continue
            column = _as_array(field.name, given, _TYPES.get(field.name, np.float64))
            if column.shape != contexts.shape[:1]:
                raise CurriculumError(
                    f"{len(contexts)} episodes need {field.name} of shape ({len(contexts)},), not "
                    f"{column.shape}."
                )
            object.__setattr__(self, field.name, column)

    @classmethod
    def standing_in(cls, contexts: ArrayLike, values: Any, reads: Collection[str]) -> Episodes:
        """Returns episodes of which nothing but contexts and values is known.

        Whatever else is to be read of them is taken from the values, success from their being
        above the mean: for trying out and timing curricula.
        """
        told: dict[str, Any] = dict.fromkeys({*reads} - {"contexts", "values"}, values)
        if told:
            numbers = _as_array("values", values, np.float64)
            made = {"success": numbers * len(numbers) > numbers.sum(), "value_errors": abs(numbers)}
            told |= {name: column for name, column in made.items() if name in told}
        return cls(contexts, values, **told)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.contexts)

    def require(self, dim: int, reads: Collection[str], reader: str) -> None:
        """Refuses contexts of another dimension, and episodes that lack what is to be read."""
        if self.contexts.shape[1] != dim:
            raise CurriculumError(
                f"an update needs contexts of shape (K, {dim}), not {self.contexts.shape}."
            )
        if lacking := sorted(name for name in reads if getattr(self, name) is None):
            raise CurriculumError(
                f"{reader} reads {', '.join(lacking)} of each episode; "
                f"give update(Episodes(contexts=…, {lacking[0]}=…))."
            )


FIELDS = tuple(field.name for field in fields(Episodes))
_TYPES: dict[str, type] = {"success": np.bool_, "lengths": np.int64}


def _as_array(what: str, given: ArrayLike, kind: type) -> NDArray[Any]:
    """Returns a finite array, without copying where possible."""
    try:
        array: NDArray[Any] = np.asarray(given, dtype=kind)
    except (TypeError, ValueError):
        raise CurriculumError(f"the {what} must be an array of numbers.") from None
    if kind is not np.float64:
        return array
    # A NaN or an infinity makes the sum not finite, and a sum needs no K × d temporary. Because it
    # may also overflow, the entries themselves are looked at before anything is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = math.isfinite(float(array.sum()))
    if not finite and len(bad := np.argwhere(~np.isfinite(array))):
        raise CurriculumError(
            f"the {what} contain NaN or infinite numbers, first in row {bad[0][0]}; "
            "drop or repair those episodes."
        )
    return array
