"""The probability that a run of one method beats a run of another (ties count half).

Brunner and Munzel's variance of the relative effect, averaged over tasks, on the logit scale so
that the interval stays inside (0, 1). Arrays are (…, runs, tasks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from pacebench.harness.statistics.scores import FloatArray
from pacebench.harness.statistics.welch import Moments, pool


class Wins(NamedTuple):
    """Placements of the two methods' runs among each other's."""

    first: FloatArray
    second: FloatArray


def placements(a: FloatArray, b: FloatArray) -> Wins:
    """Returns the share of `b` that each run of `a` beats, and of `a` that beats each of `b`."""
    x, y = np.swapaxes(a, -2, -1)[..., :, None], np.swapaxes(b, -2, -1)[..., None, :]
    wins = (x > y) + 0.5 * (x == y)
    return Wins(wins.mean(axis=-1), wins.mean(axis=-2))


def moments(a: FloatArray, b: FloatArray) -> Moments:
    """Returns the relative effect P(a > b) + ½ P(a = b), its error and degrees of freedom."""
    first, second = placements(a, b)
    tasks = a.shape[-1]
    variances = np.concatenate(
        [
            first.var(axis=-1, ddof=1) / a.shape[-2] / tasks**2,
            second.var(axis=-1, ddof=1) / b.shape[-2] / tasks**2,
        ],
        axis=-1,
    )
    dfs = np.repeat([a.shape[-2] - 1.0, b.shape[-2] - 1.0], tasks)
    return pool(first.mean(axis=(-2, -1)), variances, dfs)


def logit_bounds(effect: Moments, level: float) -> tuple[FloatArray, FloatArray]:
    """Returns the ends of the t interval on the logit scale, mapped back.

    Where every run of one method beats every run of the other there is no spread and both ends are
    NaN: use `separated_bounds`.
    """
    p = effect.estimate
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.log(p / (1 - p))
        half = special.stdtrit(effect.df, 0.5 + level / 2) * effect.error / (p * (1 - p))
        usable = (effect.error > 0) & (p > 0) & (p < 1)
        low = np.where(usable, 1 / (1 + np.exp(half - centre)), np.nan)
        high = np.where(usable, 1 / (1 + np.exp(-half - centre)), np.nan)
    return low, high


def separated_bounds(wins: bool, pairs: int, level: float) -> tuple[float, float]:
    """Returns exact bounds where the methods do not overlap on any task.

    Matching run i of one method with run i of the other gives `pairs` independent comparisons, all
    won or all lost, and so an exact binomial interval; it needs no estimate of spread.
    """
    tail = ((1 - level) / 2) ** (1 / pairs)
    return (tail, 1.0) if wins else (0.0, 1 - tail)
