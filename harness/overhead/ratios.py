"""Ratios of times from paired blocks, and what they show.

In one block all curricula replay the same instances in one process, so the logarithm of a ratio is
one number per block and its mean has a paired t interval. The A/A, one curriculum under two names,
gives the noise floor: the largest ratio that its interval cannot exclude although nothing differs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.settings import MINIMUM_BLOCKS
from pacebench.harness.statistics import welch

LEVEL = 0.95


class Speed(StrEnum):
    """What a ratio shows."""

    SLOWER = "slower"
    FASTER = "faster"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Ratio:
    """A time ratio with its interval.

    Attributes:
        estimate: Geometric mean over blocks of time(a) / time(b).
        low: Lower end of the paired t interval.
        high: Upper end.
        blocks: Number of blocks.
        floor: The noise floor as a factor ≥ 1; 1 where none was given.
        outcome: Slower or faster only if the interval excludes 1 and the estimate is beyond the
            noise floor.
    """

    estimate: float
    low: float
    high: float
    blocks: int
    floor: float
    outcome: Speed

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return {**asdict(self), "outcome": self.outcome.value}


@dataclass(frozen=True)
class Seconds:
    """Time per update: geometric mean over blocks with its t interval."""

    estimate: float
    low: float
    high: float
    blocks: int

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)


def ratio(a: Floats, b: Floats, floor: float = 1.0, level: float = LEVEL) -> Ratio:
    """Returns the ratio a/b of times measured in the same blocks.

    Args:
        a: Seconds per block.
        b: Seconds per block, in the same order.
        floor: The noise floor as a factor.
        level: Nominal level of the interval.

    Raises:
        UserError: There are too few blocks or times that are not positive.
    """
    if a.shape != b.shape:
        raise UserError(f"times of {len(a)} and {len(b)} blocks are no pairs; measure both again.")
    estimate, low, high = _log_interval(_logs(a) - _logs(b), level)
    outcome = Speed.INCONCLUSIVE
    if abs(math.log(estimate)) > math.log(floor):
        outcome = Speed.SLOWER if low > 1.0 else Speed.FASTER if high < 1.0 else outcome
    return Ratio(estimate, low, high, len(a), floor, outcome)


def noise_floor(a: Floats, twin: Floats) -> float:
    """Returns the factor ≥ 1 that the A/A of one curriculum under two names cannot exclude."""
    same = ratio(twin, a)
    return max(1.0 / same.low, same.high)


def seconds(times: Floats, level: float = LEVEL) -> Seconds:
    """Returns the time per update with its interval over blocks."""
    return Seconds(*_log_interval(_logs(times), level), len(times))


def _logs(times: Floats) -> Floats:
    if len(times) < MINIMUM_BLOCKS:
        raise UserError(
            f"{len(times)} blocks are too few for an interval; measure at least {MINIMUM_BLOCKS}."
        )
    if not (np.isfinite(times) & (times > 0)).all():
        raise UserError("a time is not positive; measure again.")
    return np.log(times)


def _log_interval(logs: Floats, level: float) -> tuple[float, float, float]:
    moments = welch.mean_moments(logs[:, None])
    low, high = welch.bounds(moments, level)
    return float(np.exp(moments.estimate)), float(np.exp(low)), float(np.exp(high))


def unpaired_ratio(a: Floats, b: Floats, level: float = LEVEL) -> Ratio:
    """Returns the ratio as if all of `a` had been measured before all of `b`, by Welch's t.

    This is what timing two programs one after the other amounts to. It is here for the
    self-validation, which shows that it finds differences where there are none.
    """
    moments = welch.difference_moments(_logs(a)[:, None], _logs(b)[:, None])
    low, high = welch.bounds(moments, level)
    estimate, first, last = (float(np.exp(x)) for x in (moments.estimate, low, high))
    outcome = Speed.SLOWER if first > 1 else Speed.FASTER if last < 1 else Speed.INCONCLUSIVE
    return Ratio(estimate, first, last, len(a), 1.0, outcome)
