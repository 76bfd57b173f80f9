"""What an interval is here: two ends, what made it, and how often such an interval is right."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from pacebench.harness.errors import UserError

PERCENTILE_MINIMUM_RUNS = 6  # a percentile-type 95 % on one task is refused below this


class RefusedIntervalError(UserError):
    """The interval asked for would mislead with the runs at hand."""


class ZeroWidthError(RefusedIntervalError):
    """The interval has no width: the runs do not vary, which says nothing about the next run."""


SHAPES = {
    "gaussian": "Gaussian scores",
    "skewed": "skewed scores",
    "bimodal": "scores in two humps",
    "binary-37": "37 % of runs succeeding and the rest failing",
    "binary-90": "90 % of runs succeeding and the rest failing",
    "fractions": "shares of successes",
    "tight": "one tight heap",
}
# Shares of runs, in per cent, that end in the larger of two heaps in the simulated unequal pairs.
SUCCESSES = (60, 80, 90, 95)
SHAPES |= {f"{share}": f"one heap with {100 - share} % of runs far off" for share in SUCCESSES}


def shape_words(shape: str) -> str:
    """Returns how a simulated shape is called in print, or a pair of them."""
    return " against ".join(SHAPES.get(arm, arm) for arm in shape.split(" against "))


def level_words(level: float) -> str:
    """Returns a level in per cent, with as many digits as keep it below a hundred."""
    for digits in range(3, 12):
        text = f"{100 * level:.{digits}g}"
        if float(text) < 100:
            break
    return text


@dataclass(frozen=True)
class Coverage:
    """How often intervals of one kind held the truth when the truth was known.

    Attributes:
        share: The share of simulated data sets whose interval held the truth.
        level: The nominal level of the simulated intervals (the largest not above the interval's).
        error: Monte-Carlo standard error of `share`.
        runs: Runs per task in the simulated cell (the largest not above the data's).
        tasks: Tasks in the simulated cell.
        shape: The simulated shape that `share` is of.
        matched: Whether that is the shape most like the data; if it was not simulated, the worst
            of those that were stands in.
        worst: The lowest share over all shapes at this number of runs and tasks.
        worst_shape: The shape that gave it.
    """

    share: float
    level: float
    error: float
    runs: int
    tasks: int
    shape: str
    worst: float
    worst_shape: str
    matched: bool = True

    @property
    def cell(self) -> str:
        """The simulated cell in words: level, runs and setups."""
        level = f"{level_words(self.level)} % intervals, "
        return f"{level}n = {self.runs}, {self.tasks} setup{'s' if self.tasks > 1 else ''}"

    def sentence(self) -> str:
        """Returns the phrase that stands beside the interval in print."""
        worst = f"{100 * self.worst:.1f} % for the worst shape, {shape_words(self.worst_shape)}"
        if not self.matched:
            return f"simulated coverage {worst} ({self.cell}; data of this shape not simulated)"
        return (
            f"simulated coverage {100 * self.share:.1f} % for {shape_words(self.shape)}, {worst} "
            f"({self.cell})"
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
        return self.coverage.share + 2 * self.coverage.error < self.coverage.level - 0.02

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, with the coverage phrase and the warning spelled out."""
        record = asdict(self)
        record["coverage_sentence"] = self.coverage.sentence() if self.coverage else ""
        record["under_covers"] = self.under_covers
        return record
