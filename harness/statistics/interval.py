"""What an interval is here: two ends, what made it, and how often such an interval is right."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UserError

PERCENTILE_MINIMUM_RUNS = 6  # a percentile-type 95 % on one task is refused below this


class RefusedIntervalError(UserError):
    """The interval asked for would mislead with the runs at hand."""


class ZeroWidthError(RefusedIntervalError):
    """The interval has no width: the runs do not vary, which says nothing about the next run."""


@dataclass(frozen=True)
class Coverage:
    """How often intervals of one kind held the truth when the truth was known.

    Attributes:
        share: The share of simulated data sets whose interval held the truth.
        error: Monte-Carlo standard error of `share`.
        runs: Runs per task in the simulated cell (the largest not above the data's).
        tasks: Tasks in the simulated cell.
        shape: The simulated shape most like the data.
        worst: The lowest share over all shapes at this number of runs and tasks.
        worst_shape: The shape that gave it.
    """

    share: float
    error: float
    runs: int
    tasks: int
    shape: str
    worst: float
    worst_shape: str

    def sentence(self) -> str:
        """Returns the phrase that stands beside the interval in print."""
        return (
            f"simulated coverage {self.share:.1%} ({self.shape}, n = {self.runs}, "
            f"{self.tasks} task{'s' if self.tasks > 1 else ''}; "
            f"worst shape {self.worst_shape} {self.worst:.1%})"
        )


@dataclass(frozen=True)
class Interval:
    """An interval estimate. It cannot be built without a width.

    Attributes:
        estimate: The point estimate.
        low: Lower end.
        high: Upper end.
        level: Nominal coverage.
        kind: What made it, e.g. `welch-t` or `expanded-percentile`.
        estimand: What it estimates, e.g. `mean` or `iqm`.
        runs: Training runs per task (the smaller number in a comparison).
        tasks: Tasks averaged over.
        coverage: Simulated coverage of this kind in the nearest cell, if there is one.
        note: Why this kind was used where another is the default.
    """

    estimate: float
    low: float
    high: float
    level: float
    kind: str
    estimand: str
    runs: int
    tasks: int
    coverage: Coverage | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high) or self.high < self.low:
            raise RefusedIntervalError(
                f"The {self.kind} interval of the {self.estimand} has ends {self.low} and "
                f"{self.high}: its input holds values that are not finite."
            )
        if self.high == self.low:
            raise ZeroWidthError(
                f"The {self.kind} interval of the {self.estimand} has zero width because all "
                f"{self.runs} runs gave the same value; run more seeds, or declare the bounds of "
                f"the score so that an interval for bounded scores can be used."
            )

    @property
    def width(self) -> float:
        """The distance between the ends."""
        return self.high - self.low

    @property
    def under_covers(self) -> bool:
        """Whether simulations put the coverage clearly below the nominal level."""
        if self.coverage is None:
            return False
        return self.coverage.share + 2 * self.coverage.error < self.level - 0.02

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, with the coverage phrase and the warning spelled out."""
        record = asdict(self)
        record["coverage_sentence"] = self.coverage.sentence() if self.coverage else ""
        record["under_covers"] = self.under_covers
        return record
