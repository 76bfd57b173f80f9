"""Steps to threshold: right-censored, so Kaplan–Meier and the restricted mean.

All runs of a setup train for the same number of steps. A run that never reached the threshold is
censored there, and the restricted mean up to that horizon is the plain mean of min(steps, horizon).
Censoring before the horizon is handled as well, by the area under Kaplan–Meier's curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight

from harness.errors import UserError
from harness.statistics.scores import FloatArray


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """The share of runs that have not reached the threshold, over steps.

    Attributes:
        steps: Steps at which the curve falls, beginning with 0.
        share: Share not there yet from that step on.
        low: Lower pointwise limit.
        high: Upper pointwise limit.
        runs: Runs at the start.
        censored: Runs that never reached the threshold.
        horizon: Where training ended.
        level: Level of the limits, which hold at each step alone.
    """

    steps: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    runs: int
    censored: int
    horizon: float
    level: float


def restrict(steps: FloatArray, horizon: float) -> FloatArray:
    """Returns min(steps, horizon), with NaN (never reached) as the horizon."""
    values = np.asarray(steps, dtype=np.float64)
    if (values < 0).any() or not math.isfinite(horizon) or horizon <= 0:
        raise UserError("Steps to threshold must not be negative and the horizon must be positive.")
    return np.where(np.isnan(values), horizon, np.minimum(values, horizon))


def kaplan_meier(steps: FloatArray, horizon: float, level: float = 0.95) -> SurvivalCurve:
    """Returns Kaplan–Meier's curve of runs whose steps are NaN where censored at the horizon.

    The limits are log–log transformed, which keeps them inside [0, 1].
    """
    times = restrict(steps, horizon)
    reached = ~np.isnan(np.asarray(steps, dtype=np.float64)) & (np.asarray(steps) <= horizon)
    if not reached.any():
        edge = np.array([0.0])
        return SurvivalCurve(
            edge, np.ones(1), np.ones(1), np.ones(1), times.size, times.size, horizon, level
        )
    fit = SurvfuncRight(times, reached.astype(int))
    at, share = np.asarray(fit.surv_times), np.asarray(fit.surv_prob)
    low, high = _log_log_limits(share, np.asarray(fit.surv_prob_se), level)
    return SurvivalCurve(
        steps=np.concatenate([[0.0], at]),
        share=np.concatenate([[1.0], share]),
        low=np.concatenate([[1.0], low]),
        high=np.concatenate([[1.0], high]),
        runs=times.size,
        censored=int((~reached).sum()),
        horizon=horizon,
        level=level,
    )


def _log_log_limits(
    share: FloatArray, error: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    z = stats.norm.ppf(0.5 + level / 2)
    inside = (share > 0) & (share < 1)
    safe = np.where(inside, share, 0.5)
    theta = z * error / (safe * np.abs(np.log(safe)))
    low = np.where(inside, safe ** np.exp(theta), np.nan)
    high = np.where(inside, safe ** np.exp(-theta), np.nan)
    return low, high


def restricted_mean(
    times: FloatArray, reached: FloatArray, horizon: float
) -> tuple[float, float, int]:
    """Returns the restricted mean, its standard error and the degrees of freedom.

    The area under Kaplan–Meier's curve up to the horizon, with Greenwood's variance scaled by
    n/(n−1); where nothing is censored before the horizon this is the mean of min(steps, horizon)
    with the standard error of a mean.

    Args:
        times: Steps at which each run reached the threshold or was lost sight of.
        reached: Whether it reached it.
        horizon: Up to where the area is taken.
    """
    t = np.minimum(np.asarray(times, dtype=np.float64), horizon)
    event = np.asarray(reached, dtype=bool) & (np.asarray(times) <= horizon)
    runs = t.size
    early = (~event) & (t < horizon)
    if not early.any():
        return float(t.mean()), float(t.std(ddof=1) / math.sqrt(runs)), runs - 1
    if not event.any():
        return horizon, 0.0, runs - 1
    fit = SurvfuncRight(t, event.astype(int))
    at, share = np.asarray(fit.surv_times), np.asarray(fit.surv_prob)
    edges = np.concatenate([[0.0], at, [horizon]])
    levels = np.concatenate([[1.0], share])
    pieces = levels * np.diff(edges)
    area_after = pieces[::-1].cumsum()[::-1][1:]
    risk, falls = np.asarray(fit.n_risk), np.asarray(fit.n_events)
    # At the last fall of everyone at risk the area after it is zero, and so is its share.
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(risk > falls, area_after**2 * falls / (risk * (risk - falls)), 0.0)
    events = int(event.sum())
    factor = runs / (runs - 1)
    return float(pieces.sum()), float(math.sqrt(terms.sum() * factor)), max(events - 1, 1)
