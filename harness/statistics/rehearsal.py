"""Simulated studies: the analysis that will be made, on runs drawn from a pilot.

The pilot lends its residuals, task by task, not its differences: an observed effect is no guide to
the true one. Simulated are the whole declared family with Holm, difference and equivalence both,
pairs where they are declared, and every declared look at the level that it may spend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacebench.harness.statistics import welch
from pacebench.harness.statistics.multiplicity import holm
from pacebench.harness.statistics.scores import FloatArray, Scores
from pacebench.harness.statistics.sequential import Schedule, schedule

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Design:
    """What will be analysed, and how.

    Attributes:
        family: The declared comparisons: (method, what it is compared with).
        effect: Smallest effect of interest, of the mean over tasks.
        alpha: Family-wise level.
        paired: Whether runs with equal seeds form declared pairs.
        looks: Runs per cell at which the data are looked at before the end.
    """

    family: Pairs
    effect: float
    alpha: float = 0.05
    paired: bool = False
    looks: tuple[int, ...] = ()

    def schedule(self, runs: int) -> Schedule:
        """Returns the looks of a study of so many runs, and the level of each."""
        return schedule(runs, [look for look in self.looks if look < runs], self.alpha)


class _Evidence(NamedTuple):
    """p-values (comparisons × simulated studies) of difference and equivalence."""

    difference: FloatArray
    equivalence: FloatArray


def simulate_power(
    pilot: Mapping[str, Scores],
    design: Design,
    runs: int,
    rng: np.random.Generator,
    *,
    inflate: float = 1.0,
    simulations: int = 2_000,
) -> float:
    """Returns the power for one comparison that truly differs by the effect, the others equal.

    Args:
        pilot: Pilot scores by method, all on the same tasks, and the same seeds if paired.
        design: What will be analysed.
        runs: Runs per cell of the study to be.
        rng: Source of the simulated studies.
        inflate: Factor on the pilot's spread.
        simulations: Simulated studies; the power is averaged over which comparison differs.
    """
    found = np.zeros((len(design.family), simulations), dtype=bool)
    rows = np.arange(len(found))[:, None]
    for level, moments in _looks(pilot, design, runs, simulations, inflate, rng):
        null = _weigh(moments, 0.0, design.effect)
        shifted = _weigh(moments, design.effect, design.effect)
        for row in range(len(found)):
            different, equivalent = (
                holm(np.where(rows == row, there, not_there))[row] <= level
                for there, not_there in zip(shifted, null, strict=True)
            )
            # As in a verdict: what is surely smaller than the effect is not called different.
            found[row] |= different & ~equivalent
    return float(found.mean())


def simulate_equivalence(
    pilot: Mapping[str, Scores],
    design: Design,
    runs: int,
    rng: np.random.Generator,
    *,
    simulations: int = 2_000,
) -> float:
    """Returns the share of equivalences that are found when all methods are in truth equal.

    Args:
        pilot: Pilot scores by method, all on the same tasks, and the same seeds if paired.
        design: What will be analysed.
        runs: Runs per cell of the study to be.
        rng: Source of the simulated studies.
        simulations: Simulated studies.
    """
    found = np.zeros((len(design.family), simulations), dtype=bool)
    for level, moments in _looks(pilot, design, runs, simulations, 1.0, rng):
        found |= holm(_weigh(moments, 0.0, design.effect).equivalence) <= level
    return float(found.mean())


def _weigh(moments: Sequence[welch.Moments], shift: float, margin: float) -> _Evidence:
    """Tests every comparison as if its true difference were larger by `shift`."""
    return _Evidence(
        np.array([welch.p_value(item, -shift) for item in moments]),
        np.array([welch.equivalence(item, margin, -shift) for item in moments]),
    )


def _looks(
    pilot: Mapping[str, Scores],
    design: Design,
    runs: int,
    simulations: int,
    inflate: float,
    rng: np.random.Generator,
) -> list[tuple[float, list[welch.Moments]]]:
    """Returns level and every comparison's difference at each look at studies of equal methods."""
    plan = design.schedule(runs)
    # Comparisons of one method share its runs, as they will in the study.
    names = list(dict.fromkeys([b for _, b in design.family] + [a for a, _ in design.family]))
    if design.paired:
        drawn = _draw([pilot[name] for name in names], runs, simulations, rng)
    else:
        drawn = [_draw([pilot[name]], runs, simulations, rng)[0] for name in names]
    values = {name: inflate * item for name, item in zip(names, drawn, strict=True)}
    found = []
    for look, level in zip(plan.looks, plan.alphas, strict=True):
        seen = {name: item[:, :look] for name, item in values.items()}
        differences = [
            welch.difference_moments(seen[a], seen[b], paired=design.paired)
            for a, b in design.family
        ]
        found.append((level, differences))
    return found


def _draw(
    methods: Sequence[Scores], runs: int, simulations: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Draws runs (simulations × runs × tasks) of methods whose pilot runs belong together by row.

    A drawn run is a pilot run of all methods plus noise with their covariance, so that few pilot
    runs do not repeat and pairs stay as alike as they were.
    """
    count, tasks = methods[0].matrix.shape
    stacked = np.stack([scores.matrix for scores in methods], axis=-1)  # runs × tasks × methods
    residuals = stacked - stacked.mean(axis=0)
    picked = rng.integers(count, size=(simulations, runs, tasks))
    values = residuals[picked, np.arange(tasks)]
    _, scale, axes = np.linalg.svd(residuals.swapaxes(0, 1), full_matrices=False)
    roots = scale[..., None] * axes / math.sqrt(count - 1)  # tasks × rank × methods
    noise = rng.standard_normal((simulations, runs, tasks, roots.shape[1]))
    # Silverman's bandwidth; the sum is rescaled so that the variance is the pilot's unbiased one.
    bandwidth = 1.06 * count**-0.2
    values += bandwidth * np.einsum("srtk,tkm->srtm", noise, roots)
    values /= math.sqrt((count - 1) / count + bandwidth**2)
    return [np.asarray(values[..., method]) for method in range(len(methods))]
