"""What is estimated: reductions of one run's episodes to a number, and of runs to an aggregate.

Aggregates take arrays (…, runs, tasks) and reduce the last two axes, so that simulations and
reports share one definition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import FloatArray


def mean_return(episodes: npt.ArrayLike) -> float:
    """Returns the mean target return of one run's evaluation episodes."""
    return float(np.mean(_one_run(episodes)))


def success_rate(successes: npt.ArrayLike) -> float:
    """Returns the share of one run's evaluation episodes that succeeded."""
    return float(np.mean(_one_run(successes)))


def cvar(episodes: npt.ArrayLike, share: float = 0.2) -> float:
    """Returns the mean of the worst `share` of one run's episodes.

    The boundary episode counts with the fraction of it that falls inside the share, so the value
    is continuous in `share` and equals the mean at `share` = 1.
    """
    if not 0 < share <= 1:
        raise UserError(f"The share of worst episodes is {share}; it must lie in (0, 1].")
    ordered = np.sort(_one_run(episodes))
    weights = np.clip(share * ordered.size - np.arange(ordered.size), 0.0, 1.0)
    return float(weights @ ordered / weights.sum())


def auc(steps: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """Returns the area under one run's target score over environment steps, per step.

    Dividing by the span keeps it on the scale of the score, so that floors carry over.
    """
    grid, curve = np.asarray(steps, dtype=np.float64), _one_run(scores)
    if grid.shape != curve.shape or grid.size < 2 or not (np.diff(grid) > 0).all():
        raise UserError(
            f"The area under a curve needs at least two increasing steps and as many scores; "
            f"got {grid.size} steps and {curve.size} scores."
        )
    return float(np.trapezoid(curve, grid) / (grid[-1] - grid[0]))


def steps_to_threshold(steps: npt.ArrayLike, scores: npt.ArrayLike, threshold: float) -> float:
    """Returns the first grid step at which a run reached the threshold, NaN if it never did.

    NaN means right-censored at the last step: hand it to `survival`, never average it away.
    """
    grid, curve = np.asarray(steps, dtype=np.float64), _one_run(scores)
    reached = np.flatnonzero(curve >= threshold)
    return float(grid[reached[0]]) if reached.size else float("nan")


def _one_run(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise UserError(
            f"A run is summarised from a non-empty vector of finite episode values; got shape "
            f"{array.shape}{'' if np.isfinite(array).all() else ' with values not finite'}."
        )
    return array


def mean(values: FloatArray) -> FloatArray:
    """Mean over runs, then over tasks with equal weights."""
    return np.asarray(values.mean(axis=-2).mean(axis=-1))


def median(values: FloatArray) -> FloatArray:
    """Median over tasks of the tasks' means (rliable's definition)."""
    return np.asarray(np.median(values.mean(axis=-2), axis=-1))


def iqm(values: FloatArray) -> FloatArray:
    """Mean of the middle half of all runs of all tasks (rliable's definition)."""
    flat = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def optimality_gap(values: FloatArray, gamma: float = 1.0) -> FloatArray:
    """Mean shortfall from `gamma`, scores above it counting as `gamma` (rliable's definition)."""
    return np.asarray(gamma - np.minimum(values, gamma).mean(axis=(-2, -1)))


Functional = Callable[[FloatArray], FloatArray]
FUNCTIONALS: dict[str, Functional] = {
    "mean": mean,
    "median": median,
    "iqm": iqm,
    "optimality_gap": optimality_gap,
}
