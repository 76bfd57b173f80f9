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
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import estimands
from pacebench.harness.statistics.scores import FloatArray

Indices = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]
Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]
_BLOCK = 1 << 18  # drawn runs per block: the block's arrays stay in the cache


def draws(runs: int, tasks: int, resamples: int, rng: np.random.Generator) -> Iterator[Indices]:
    """Yields blocks (resamples in the block, runs, tasks) of run indices."""
    rows = max(1, _BLOCK // (runs * tasks))
    for start in range(0, resamples, rows):
        yield rng.integers(runs, size=(min(rows, resamples - start), runs, tasks))


def pair_draws(
    x: FloatArray, y: FloatArray, resamples: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Returns run indices (resamples, runs, tasks): all of the one method, then of the other."""
    first, second = (rng.integers(len(v), size=(resamples, *v.shape)) for v in (x, y))
    return first, second


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
    draws are those of `pair_draws`.

    Args:
        x: Scores of the one, runs × tasks.
        y: Scores of the other on the same tasks.
        resamples: How many.
        rng: The generator that is drawn from; nothing else is.
    """
    tasks = x.shape[1]
    difference, improvement = np.zeros(resamples), np.zeros(resamples)
    drawn = pair_draws(x, y, resamples, rng)
    for task in range(tasks):
        a, b = x[:, task], y[:, task]
        first, second = (
            _counts(indices[:, :, task], v.size) / v.size
            for v, indices in zip((a, b), drawn, strict=True)
        )
        wins = (a[:, None] > b) + 0.5 * (a[:, None] == b)
        difference += (first @ a - second @ b) / tasks
        improvement += ((first @ wins) * second).sum(axis=1) / tasks
    return {"difference": difference, "improvement": improvement}


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
    quantile = stats.t.ppf(0.5 + level / 2, df)
    return float(stats.norm.sf(math.sqrt(runs / (runs - 1)) * quantile))


def quantiles(distribution: FloatArray, tail: float) -> tuple[float, float]:
    """Returns the two quantiles of a resampling distribution."""
    low, high = np.quantile(distribution, [tail, 1 - tail])
    return float(low), float(high)
