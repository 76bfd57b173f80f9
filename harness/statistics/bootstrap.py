"""Stratified resampling of runs within tasks, all resamples at once.

A resample enters as how often each run was drawn, not as a copied table: with the runs ranked once,
the mean is a weighted sum and the IQM a difference of clipped cumulative counts, without sorting
any resample. The draws are those of `rng.integers(runs, size=(resamples, runs, tasks))`, whatever
the size of the blocks they are made in, so another implementation can be fed the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import estimands
from pacebench.harness.statistics.scores import FloatArray

Indices = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]
Counts = np.ndarray[tuple[int, ...], np.dtype[np.integer]]
_BLOCK = 1 << 17  # drawn runs per block: its arrays of 1 MiB stay in the cache, and 2 would not
MANY_RUNS = 200
_LEAST = 2_000  # draws that a quantile in the tails needs


def enough(usual: int, runs: int, least: int = _LEAST) -> int:
    """Returns how many draws to make: fewer of many runs, because each takes longer."""
    if runs <= MANY_RUNS:
        return usual
    return min(usual, max(least, usual * MANY_RUNS // (5 * runs)))


def draws(runs: int, tasks: int, resamples: int, rng: np.random.Generator) -> Iterator[Indices]:
    """Yields blocks (resamples in the block, runs, tasks) of run indices."""
    rows = max(1, _BLOCK // (runs * tasks))
    for start in range(0, resamples, rows):
        yield rng.integers(runs, size=(min(rows, resamples - start), runs, tasks))


def resample(
    values: FloatArray,
    functionals: Sequence[str],
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, FloatArray]:
    """Returns each functional's value on each resample, all functionals on the same resamples.

    Args:
        values: Scores, runs × tasks.
        functionals: Names from `estimands.FUNCTIONALS`.
        resamples: How many.
        rng: The generator that is drawn from; nothing else is.
    """
    unknown = set(functionals) - set(estimands.FUNCTIONALS)
    if unknown:
        raise UserError(
            f"Unknown functional {sorted(unknown)[0]!r}; known are "
            f"{', '.join(sorted(estimands.FUNCTIONALS))}."
        )
    runs, tasks = values.shape
    size = runs * tasks
    order = np.argsort(values, axis=None, kind="stable")
    ordered = values.ravel()[order]
    ranks = np.empty(size, dtype=np.int64)
    ranks[order] = np.arange(size)
    offsets = np.arange(tasks)
    collected: dict[str, list[FloatArray]] = {name: [] for name in functionals}
    for indices in draws(runs, tasks, resamples, rng):
        rows = indices.shape[0]
        indices *= tasks
        indices += offsets
        counts = _counts(ranks[indices.reshape(rows, size)], size)
        for name in functionals:
            collected[name].append(_from_counts(name, counts, ordered, order, tasks))
    return {name: np.concatenate(parts) for name, parts in collected.items()}


def resample_pair(
    x: FloatArray, y: FloatArray, resamples: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Returns the difference of means and P(x beats y) on resamples of both methods' runs.

    Both are averages over pairs of runs, so how often each run was drawn is all that is needed. The
    draws are those of `rng.integers(runs, size=(resamples, runs, tasks))`, of `x` and then of `y`.

    Args:
        x: Scores of the one, runs × tasks.
        y: Scores of the other on the same tasks.
        resamples: How many.
        rng: The generator that is drawn from; nothing else is.
    """
    tasks = x.shape[1]
    difference, improvement = np.zeros(resamples), np.zeros(resamples)
    # All of the one are drawn before the other's. Counts take a quarter of what the draws would.
    first, second = (_task_counts(values, resamples, rng) for values in (x, y))
    for task in range(tasks):
        a, b = x[:, task], y[:, task]
        order = np.argsort(b, kind="stable")
        # Run i of the one beats whatever of the other ranks below it, and half beats its equals.
        below, equal = (np.searchsorted(b[order], a, side) for side in ("left", "right"))
        rows = max(1, _BLOCK // (a.size + b.size))
        for start in range(0, resamples, rows):
            block = slice(start, start + rows)
            m, n = first[task, block].astype(np.int64), second[task, block].astype(np.int64)
            ranked = np.zeros((len(n), b.size + 1), dtype=np.int64)
            np.cumsum(n[:, order], axis=1, out=ranked[:, 1:])
            wins = (m * (ranked[:, below] + ranked[:, equal])).sum(axis=1)
            improvement[block] += wins / (2 * a.size * b.size * tasks)
            difference[block] += (m @ a / a.size - n @ b / b.size) / tasks
    return {"difference": difference, "improvement": improvement}


def _task_counts(values: FloatArray, resamples: int, rng: np.random.Generator) -> Counts:
    """Returns how often each run is in each resample, (tasks, resamples, runs)."""
    runs, tasks = values.shape
    found = np.empty((tasks, resamples, runs), dtype=np.uint16)
    start = 0
    for indices in draws(runs, tasks, resamples, rng):
        for task in range(tasks):
            found[task, start : start + len(indices)] = _counts(indices[:, :, task], runs)
        start += len(indices)
    return found


def _counts(drawn: Counts, bins: int) -> Counts:
    """Returns how often each of `bins` items occurs in each row."""
    rows = len(drawn)
    shifted = drawn + np.arange(rows)[:, None] * bins
    return np.bincount(shifted.ravel(), minlength=rows * bins).reshape(rows, bins)


def _from_counts(
    name: str,
    counts: Counts,
    ordered: FloatArray,
    order: np.ndarray[tuple[int], np.dtype[np.int64]],
    tasks: int,
) -> FloatArray:
    size = ordered.size
    if name == "mean":
        return np.asarray(counts @ ordered / size)
    if name == "optimality_gap":
        return np.asarray(1.0 - counts @ np.minimum(ordered, 1.0) / size)
    if name == "iqm":
        # The middle half of a resample is what its cumulative counts add between the two cuts.
        cut = size // 4
        inside = np.clip(np.cumsum(counts, axis=1), cut, size - cut)
        # Abel summation: Σ v_k (c_k − c_{k−1}) = v_K c_K − v_1 c_0 − Σ c_k (v_{k+1} − v_k).
        total = ordered[-1] * (size - cut) - ordered[0] * cut
        return np.asarray(
            (total - inside[:, :-1].astype(np.float64) @ np.diff(ordered)) / (size - 2 * cut)
        )
    by_task = np.zeros((size, tasks))
    by_task[np.arange(size), order % tasks] = ordered * tasks / size
    return np.asarray(np.median(counts @ by_task, axis=1))


def percentile_tail(level: float) -> float:
    """Returns the tail probability of the plain percentile interval."""
    return (1 - level) / 2


def expanded_tail(level: float, runs: int, df: float) -> float:
    """Returns the tail probability of Hesterberg's expanded percentile interval.

    Resampling n runs sees a spread √((n−1)/n) of the true one and a normal quantile instead of a
    t quantile; the tail is moved out until both are made good.
    """
    quantile = special.stdtrit(df, 0.5 + level / 2)
    return float(special.ndtr(-math.sqrt(runs / (runs - 1)) * quantile))


def quantiles(distribution: FloatArray, tail: float) -> tuple[float, float]:
    """Returns the two quantiles of a resampling distribution."""
    low, high = np.quantile(distribution, [tail, 1 - tail])
    return float(low), float(high)
