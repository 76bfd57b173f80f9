"""Exact statements about runs that need no model: what could hide, and a permutation p-value."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import bootstrap
from pacebench.harness.statistics.scores import FloatArray

ALL_PERMUTATIONS_UP_TO = 12  # runs of each method
_BLOCK = 1 << 20


def hidden_failure_rate(runs: int, alpha: float) -> float:
    """Returns the largest failure rate that so many runs without a failure leave plausible.

    A method that fails more often shows no failure with probability below α: (1 − p)ⁿ = α. It is
    1 without any run.
    """
    return -math.expm1(math.log(alpha) / runs) if runs else 1.0


def permutation_p_value(
    x: npt.ArrayLike, y: npt.ArrayLike, rng: np.random.Generator, draws: int = 100_000
) -> float:
    """Returns the two-sided p-value of a difference in means under exchangeable runs.

    All permutations are counted while neither method has more than `ALL_PERMUTATIONS_UP_TO` runs.
    Otherwise they are drawn and the data themselves count as one of them, so that the p-value is
    never zero and keeps its promise at any number of draws.

    Args:
        x: Scores of the one method.
        y: Scores of the other.
        rng: Source of the permutations, where they are drawn.
        draws: How many are drawn; of many runs fewer.

    Raises:
        UserError: If a method has no run, or a score is not finite.
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    pooled = np.concatenate([first, second])
    if not (first.size and second.size and np.isfinite(pooled).all()):
        raise UserError("A permutation needs at least one run of each method, and finite scores.")
    pooled -= pooled[0]  # leaves exact zeros where all scores are equal
    pooled -= pooled.mean()
    # Of scores with mean zero the difference is a multiple of the first method's sum. Rounding
    # makes equal splits differ in the last bits; they count as equal.
    reached = abs(float(pooled[: first.size].sum())) - 1e-9 * float(np.abs(pooled).max())
    if reached <= 0:
        return 1.0
    if max(first.size, second.size) <= ALL_PERMUTATIONS_UP_TO:
        return _count_extreme(pooled, first.size, reached) / math.comb(pooled.size, first.size)
    extreme, draws = 0, bootstrap.enough(draws, first.size, least=20_000)
    rows = max(1, _BLOCK // pooled.size)
    for start in range(0, draws, rows):
        copies = np.tile(pooled, (min(rows, draws - start), 1))
        sums = rng.permuted(copies, axis=1, out=copies)[:, : first.size].sum(axis=1)
        extreme += int((np.abs(sums) >= reached).sum())
    return (1 + extreme) / (1 + draws)


def _count_extreme(values: FloatArray, size: int, reached: float) -> int:
    """Returns how many subsets of `size` values have a sum of at least `reached`, either sign.

    Each subset is one of the first half and one of the second, so sorting the sums of the second
    half's subsets counts millions of subsets with thousands of searches.
    """
    left, right = (_subset_sums(half) for half in np.array_split(values, 2))
    count = 0
    for taken in range(max(0, size - len(right) + 1), min(size, len(left) - 1) + 1):
        sums, others = left[taken], np.sort(right[size - taken])
        above = others.size - np.searchsorted(others, reached - sums, side="left")
        below = np.searchsorted(others, -reached - sums, side="right")
        count += int(above.sum() + below.sum())
    return count


def _subset_sums(values: FloatArray) -> list[FloatArray]:
    """Returns the sums of all subsets, one array per number of values in them."""
    chosen = np.arange(1 << values.size)[:, None] >> np.arange(values.size) & 1
    sums, sizes = chosen @ values, chosen.sum(axis=1)
    return [sums[sizes == size] for size in range(values.size + 1)]
