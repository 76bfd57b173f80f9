"""Intervals for scores that have bounds: they keep a width where all runs agree.

Arrays are (…, runs, tasks) as everywhere.
"""

from __future__ import annotations

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import FloatArray


def uniform_order_statistics(
    runs: int, tasks: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Returns sorted uniform samples (draws, runs, tasks), which Learned-Miller–Thomas needs."""
    return np.sort(rng.random((draws, runs, tasks)), axis=1)


def learned_miller_thomas(
    values: FloatArray, lower: float, upper: float, level: float, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns the bounds of Learned-Miller and Thomas (2019) on the mean of bounded scores.

    With z the ordered scores and U ordered uniforms, the largest mean that agrees with the sample
    if U are its distribution function's values is b − Σ U_i (z_{i+1} − z_i), z_{n+1} = b; the upper
    bound is that quantity's quantile over U. The lower one is the same on mirrored scores. Over
    tasks the mean of independent such quantities is used.

    Args:
        values: Scores, (…, runs, tasks).
        lower: Smallest possible score.
        upper: Largest possible score.
        level: Two-sided level; each side gets half of the rest.
        uniforms: From `uniform_order_statistics`, for the same runs and tasks.
    """
    if not np.isfinite([lower, upper]).all() or lower >= upper:
        raise UserError(f"Bounds of a bounded score must be finite and ordered: {lower}, {upper}.")
    if values.min() < lower or values.max() > upper:
        raise UserError(
            f"Scores range over [{values.min():g}, {values.max():g}], outside the declared bounds "
            f"[{lower:g}, {upper:g}]; correct the bounds."
        )
    top = _upper(values, upper, (1 + level) / 2, uniforms)
    bottom = -_upper(-values, -lower, (1 + level) / 2, uniforms)
    return bottom, top


def _upper(values: FloatArray, upper: float, quantile: float, uniforms: FloatArray) -> FloatArray:
    runs, tasks = values.shape[-2:]
    ordered = np.sort(values, axis=-2)
    ceiling = np.full((*ordered.shape[:-2], 1, tasks), upper)
    gaps = np.diff(np.concatenate([ordered, ceiling], axis=-2), axis=-2)
    flat = gaps.reshape(*gaps.shape[:-2], runs * tasks)
    means = upper - flat @ uniforms.reshape(len(uniforms), runs * tasks).T / tasks
    return np.asarray(np.quantile(means, quantile, axis=-1))


def wilson(rate: FloatArray, trials: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Returns Wilson's score interval for a success rate.

    `trials` counts training runs. A run's share of successful episodes varies less than a coin
    with the same mean, and an average over tasks less than a pooled one, so both stay safe.
    """
    # Not above: most commands would wait in vain for it.
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(rate * trials, trials, alpha=1 - level, method="wilson")
    # At 0 and 1 the score equation has that end exactly; rounding must not push it past.
    low = np.where(rate <= 0, 0.0, np.clip(low, 0.0, 1.0))
    high = np.where(rate >= 1, 1.0, np.clip(high, 0.0, 1.0))
    return low, high
