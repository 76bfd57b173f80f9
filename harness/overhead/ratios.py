"""Ratios of times from paired blocks, and what they show.

In one block all curricula replay the same instances in one process, so the logarithm of a ratio is
one number per block and its mean has a paired t interval. The A/A, one curriculum under two names,
gives the noise floor: the largest ratio that its interval cannot exclude although nothing differs.
"""

from __future__ import annotations

import math

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.findings import MeanInterval, Ratio, Speed
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.settings import MINIMUM_BLOCKS
from pacebench.harness.statistics import welch

LEVEL = 0.95


def mean(values: Floats) -> MeanInterval:
    """Returns the mean with its t interval."""
    moments = welch.mean_moments(np.asarray(values, dtype=np.float64)[:, None])
    low, high = welch.bounds(moments, LEVEL)
    return MeanInterval(estimate=float(moments.estimate), low=float(low), high=float(high))


def geometric_mean(values: Floats) -> MeanInterval:
    """Returns the geometric mean with its interval, which cannot fall below zero."""
    logs = mean(np.log(np.maximum(values, 1e-12)))
    return MeanInterval(**{name: math.exp(x) for name, x in logs})


def seconds(times: Floats) -> MeanInterval:
    """Returns the time per update with its interval over blocks.

    Raises:
        UserError: There are too few blocks or times that are not positive.
    """
    if len(times) < MINIMUM_BLOCKS:
        raise UserError(
            f"{len(times)} blocks are too few for an interval; measure at least {MINIMUM_BLOCKS}."
        )
    if not (np.isfinite(times) & (times > 0)).all():
        raise UserError("a time is not positive; measure again.")
    return geometric_mean(times)


def ratio(a: Floats, b: Floats, floor: float = 1.0) -> Ratio:
    """Returns the ratio a/b of times measured in the same blocks.

    Args:
        a: Seconds per block.
        b: Seconds per block, in the same order.
        floor: The noise floor as a factor.

    Raises:
        UserError: There are too few blocks or times that are not positive.
    """
    if a.shape != b.shape:
        raise UserError(f"times of {len(a)} and {len(b)} blocks are no pairs; measure both again.")
    found = seconds(a / b)
    outcome = Speed.INCONCLUSIVE
    if abs(math.log(found.estimate)) > math.log(floor):
        outcome = Speed.SLOWER if found.low > 1.0 else Speed.FASTER if found.high < 1.0 else outcome
    return Ratio(**dict(found), blocks=len(a), floor=floor, outcome=outcome)


def noise_floor(a: Floats, twin: Floats) -> float:
    """Returns the factor ≥ 1 that the A/A of one curriculum under two names cannot exclude."""
    same = ratio(twin, a)
    return max(1.0 / same.low, same.high)
