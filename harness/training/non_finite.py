"""Numbers that are not finite end the seed they belong to, and no other."""

from __future__ import annotations

import numpy as np

from pacebench.envs.arrays import Floats


def zero_non_finite(array: Floats) -> list[int]:
    """Sets the entries that are not finite to zero, in place; returns the rows they were in."""
    # A sum is finite only if all its terms are, and costs less than asking each of them.
    if np.isfinite(array.sum()):
        return []
    bad = ~np.isfinite(array)
    array[bad] = 0.0
    rows: list[int] = np.flatnonzero(bad.reshape(len(array), -1).any(axis=1)).tolist()
    return rows
