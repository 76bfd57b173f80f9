"""Looks at the data before the planned number of runs, paid for by spending alpha.

Lan and DeMets' spending function of O'Brien–Fleming type: early looks get almost nothing, the last
one nearly all. A look is a number of runs per cell. Looks must be declared before the runs start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import optimize, stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import FloatArray

_NODES = 160


def spent(fraction: float, alpha: float) -> float:
    """Returns the two-sided alpha spent when `fraction` of the runs have been seen."""
    if fraction <= 0:
        return 0.0
    quantile = stats.norm.isf(alpha / 4)
    return float(min(4 * stats.norm.sf(quantile / np.sqrt(min(fraction, 1.0))), alpha))


@dataclass(frozen=True)
class Schedule:
    """The declared looks and what each may claim.

    Attributes:
        looks: Runs per cell at each look, increasing; the last is the planned number.
        alphas: Nominal two-sided significance level of each look.
        alpha: What they add up to.
    """

    looks: tuple[int, ...]
    alphas: tuple[float, ...]
    alpha: float

    def nominal(self, runs: int) -> float | None:
        """Returns the level at which a test with so many runs is made; None if not declared."""
        return dict(zip(self.looks, self.alphas, strict=True)).get(runs)

    def undeclared(self, taken: Sequence[int]) -> tuple[int, ...]:
        """Returns the looks that were taken and never declared."""
        return tuple(sorted(set(taken) - set(self.looks)))


def schedule(planned: int, looks: Sequence[int] = (), alpha: float = 0.05) -> Schedule:
    """Computes the nominal levels of declared looks.

    Args:
        planned: Planned runs per cell: the last look.
        looks: Earlier looks, if any.
        alpha: Two-sided level of the whole.

    Raises:
        UserError: If a look is not below the planned number, or too early to be one.
    """
    stages = tuple(sorted({*looks, planned}))
    if stages[-1] != planned or stages[0] < 2 or not 0 < alpha < 1:
        raise UserError(
            f"Looks must lie between 2 and the planned {planned} runs, with alpha in (0, 1); got "
            f"looks {list(looks)} and alpha {alpha}."
        )
    if len(stages) == 1:
        return Schedule(stages, (alpha,), alpha)
    times = [look / planned for look in stages]
    return Schedule(stages, tuple(_boundaries(times, alpha)), alpha)


@cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return np.asarray(nodes), np.asarray(weights)


def _boundaries(times: Sequence[float], alpha: float) -> list[float]:
    """Recursion of Armitage, McPherson and Rowe on Brownian motion, exact up to quadrature."""
    nodes, weights = _quadrature()
    levels: list[float] = []
    previous, seen = 0.0, 0.0
    points: FloatArray = np.zeros(1)
    density: FloatArray = np.ones(1)  # times quadrature weight: the mass of not having stopped
    for time in times:
        spread = np.sqrt(time - previous)
        increment = spent(time, alpha) - seen

        def excess(
            bound: float,
            points: FloatArray = points,
            density: FloatArray = density,
            spread: float = spread,
            increment: float = increment,
        ) -> float:
            tails = stats.norm.sf((bound - points) / spread) + stats.norm.cdf(
                (-bound - points) / spread
            )
            return float(tails @ density) - increment

        bound = float(optimize.brentq(excess, 0.0, 40 * np.sqrt(time), xtol=1e-12))
        levels.append(float(2 * stats.norm.sf(bound / np.sqrt(time))))
        grid = bound * nodes
        kernel = stats.norm.pdf((grid[:, None] - points) / spread) / spread
        density = (kernel @ density) * weights * bound
        points, previous, seen = grid, time, seen + increment
    return levels
