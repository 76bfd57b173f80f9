"""Performance profiles: the share of runs above a score, with a band that holds everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacebench.harness.statistics import rliable_adapter
from pacebench.harness.statistics.interval import Coverage, level_words
from pacebench.harness.statistics.scores import FloatArray, Scores

_KINDS = {"kolmogorov": "Kolmogorov"}


@dataclass(frozen=True, eq=False)
class Band:
    """A curve with a band.

    Attributes:
        grid: Where it is evaluated.
        centre: The curve; NaN nowhere.
        low: Lower edge; NaN where no band can be given.
        high: Upper edge; NaN where no band can be given.
        level: Nominal coverage of the whole band.
        kind: What made it.
        runs: Training runs per task.
        tasks: Tasks.
        simultaneous: Whether the level holds for the whole curve rather than at each point.
        coverage: Simulated coverage of the whole band.
    """

    grid: FloatArray
    centre: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    kind: str
    runs: int
    tasks: int
    simultaneous: bool
    coverage: Coverage | None = None

    @property
    def caption(self) -> str:
        """The phrase that belongs under the figure."""
        scope = "simultaneous" if self.simultaneous else "pointwise"
        level = level_words(self.level)
        text = f"{scope} {level} % band ({_KINDS.get(self.kind, self.kind)}), n = {self.runs} runs"
        return f"{text}; {self.coverage.sentence()}" if self.coverage else text


def profile(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Returns the share of all runs of all tasks whose score exceeds each threshold.

    rliable's score distribution, fast enough for simulations.
    """
    ordered = np.sort(values, axis=None)
    above = ordered.size - np.searchsorted(ordered, thresholds, side="right")
    return np.asarray(above / ordered.size)


def half_width(runs: int, tasks: int, level: float) -> float:
    """Returns how far the whole profile may lie from the truth.

    The exact quantile of Kolmogorov's statistic for all runs together, which is below DKW's bound.
    On one task it is exact. Over tasks that differ the pooled runs vary less than runs drawn from
    one mixture would, so it errs on the safe side; the coverage table shows by how much.
    """
    # Not above: most commands would wait in vain for it.
    from scipy import stats

    return float(stats.kstwo.ppf(level, runs * tasks))


def performance_profile(
    scores: Scores, thresholds: FloatArray, level: float = 0.95, coverage: Coverage | None = None
) -> Band:
    """Returns the profile of one method with its simultaneous band."""
    grid = np.asarray(thresholds, dtype=np.float64)
    centre = rliable_adapter.profile(scores.matrix, grid)
    half = half_width(scores.runs, len(scores.tasks), level)
    return Band(
        grid=grid,
        centre=centre,
        low=np.clip(centre - half, 0.0, 1.0),
        high=np.clip(centre + half, 0.0, 1.0),
        level=level,
        kind="kolmogorov",
        runs=scores.runs,
        tasks=len(scores.tasks),
        simultaneous=True,
        coverage=coverage,
    )
