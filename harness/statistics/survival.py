"""Steps to threshold: right-censored, so Kaplan–Meier and the restricted mean.

All runs of a setup train for the same number of steps. A run that never reached the threshold is
censored there, and the restricted mean up to that horizon is the plain mean of min(steps, horizon).
A run that was lost before is not censored but unknown, which the policy for missing runs handles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.bounded import clopper_pearson
from pacebench.harness.statistics.scores import FloatArray


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

    The limits are log–log transformed, which keeps them inside [0, 1]. Where all runs are on one
    side that transformation has no width, and the exact limit of a proportion stands in.
    """
    times = restrict(steps, horizon)
    reached = ~np.isnan(np.asarray(steps, dtype=np.float64)) & (np.asarray(steps) <= horizon)
    certain, _ = clopper_pearson(times.size, times.size, level)
    if not reached.any():
        edge, floor = np.array([0.0]), np.array([certain])
        return SurvivalCurve(
            edge, np.ones(1), floor, np.ones(1), times.size, times.size, horizon, level
        )
    fit = SurvfuncRight(times, reached.astype(int))
    at, share = np.asarray(fit.surv_times), np.asarray(fit.surv_prob)
    low, high = _log_log_limits(share, np.asarray(fit.surv_prob_se), level)
    low = np.where(share == 0, 0.0, low)
    high = np.where(share == 0, 1 - certain, high)
    return SurvivalCurve(
        steps=np.concatenate([[0.0], at]),
        share=np.concatenate([[1.0], share]),
        low=np.concatenate([[certain], low]),
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
