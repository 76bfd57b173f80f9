"""Intervals for the mean of bounded scores that hold for any distribution, at every look at once.

A gambler bets on each seed that the mean exceeds m, another that it is below. At the true mean
neither bet is favourable, so by Ville's inequality the wealth of one of them ever reaches 2/α with
probability at most α, whatever the scores look like and however often one looks. The interval holds
the means that neither gambler has made untenable so far. The bets are a universal portfolio: the
wealth is the average of 64 gamblers who each stake a fixed fraction of what they have. Waudby-Smith
and Ramdas (2024), Estimating means of bounded random variables by betting; Orabona and Jun (2023),
Tight concentrations and confidence sequences from the regret of universal portfolio.

Seeds are the last axis, in the order of their index (never in the order in which runs finish);
leading axes are comparisons or simulated replicates. All functions are pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import BoolArray, FloatArray

NODES = 64
LARGEST_FRACTION = 0.999  # below 1, so that no single seed can ruin a gambler
_TOLERANCE = 1e-12  # of the logarithm of an end's distance from the bound


# Up to so many seeds every look is cheaper than the last alone; more are taken in such blocks.
_FEW = 256


class ConfidenceSequence(NamedTuple):
    """The interval after every seed, each inside the one before it.

    Seeds that share one mean contradict every value of it with probability at most α. If that
    happens, the interval stays where it last was not empty, and `contradiction` says so.

    Attributes:
        low: Lower ends, (…, seeds).
        high: Upper ends, (…, seeds).
        contradiction: Whether no mean agrees with all looks so far, (…, seeds).
    """

    low: FloatArray
    high: FloatArray
    contradiction: BoolArray


class Ends(NamedTuple):
    """The interval after the last seed; see `ConfidenceSequence`."""

    low: float
    high: float
    contradiction: bool


class Wealth(NamedTuple):
    """Logarithms of the wealth after every seed; the exponential is an e-value.

    Attributes:
        above: Of the gambler who bets that the mean exceeds the null value, (…, seeds).
        below: Of the gambler who bets that it is smaller, (…, seeds).
    """

    above: FloatArray
    below: FloatArray


def difference_interval(z: npt.ArrayLike, half_range: float, alpha: float) -> tuple[float, float]:
    """Returns the interval for a mean difference after all seeds: the intersection of all looks.

    Args:
        z: Differences in the order of the seed index, each in [−half_range, half_range].
        half_range: Width of the range of the scores that are subtracted; 1 for solved or not.
        alpha: Probability that the interval misses the mean at any look.

    Raises:
        UserError: If a difference, the range or alpha is not possible.
    """
    return mean_interval(z, -half_range, half_range, alpha)


def difference_ends(z: npt.ArrayLike, half_range: float, alpha: float) -> Ends:
    """Returns `difference_interval`, and whether the seeds contradict each other."""
    return mean_ends(z, -half_range, half_range, alpha)


def difference_sequence(z: npt.ArrayLike, half_range: float, alpha: float) -> ConfidenceSequence:
    """Returns the interval for a mean difference after every seed; see `difference_interval`."""
    return mean_sequence(z, -half_range, half_range, alpha)


def difference_log_wealth(z: npt.ArrayLike, half_range: float, null: float = 0.0) -> Wealth:
    """Returns the log-wealth against a mean difference of `null`; see `mean_log_wealth`."""
    return mean_log_wealth(z, -half_range, half_range, null)


def mean_interval(x: npt.ArrayLike, low: float, high: float, alpha: float) -> tuple[float, float]:
    """Returns the interval for the mean of scores in [low, high] after all seeds.

    Without a seed it is [low, high].

    Args:
        x: Scores in the order of the seed index.
        low: Smallest possible score.
        high: Largest possible score.
        alpha: Probability that the interval misses the mean at any look.

    Raises:
        UserError: If a score, the range or alpha is not possible.
    """
    return mean_ends(x, low, high, alpha)[:2]


def mean_ends(x: npt.ArrayLike, low: float, high: float, alpha: float) -> Ends:
    """Returns `mean_interval`, and whether the seeds contradict each other."""
    rise, fall = _shares(x, low, high)
    threshold, seeds = log_threshold(alpha), len(rise)
    if rise.ndim != 1:
        raise UserError(f"An interval is of one sequence of seeds; got shape {rise.shape}.")
    if seeds <= _FEW:
        found = mean_sequence(x, low, high, alpha)
        ends = (float(low), float(high), False)
        return Ends(*(path[-1].item() for path in found) if seeds else ends)

    @cache
    def after(n: int) -> tuple[float, float]:
        ends = [_last_end(side[:n], threshold) for side in (rise, fall)]
        return low + (high - low) * ends[0], high - (high - low) * ends[1]

    # The ends only ever move towards each other, so the last look before they cross is soon found.
    if after(seeds)[0] <= after(seeds)[1]:
        return Ends(*after(seeds), contradiction=False)
    last = bisect_left(range(1, seeds), True, key=lambda n: after(n)[0] > after(n)[1])
    return Ends(*after(last), contradiction=True)


def mean_sequence(x: npt.ArrayLike, low: float, high: float, alpha: float) -> ConfidenceSequence:
    """Returns the interval for the mean of scores in [low, high] after every seed.

    Args:
        x: Scores, (…, seeds).
        low: Smallest possible score.
        high: Largest possible score.
        alpha: Probability that any interval of a sequence misses the mean.

    Raises:
        UserError: If a score, the range or alpha is not possible.
    """
    rise, fall = _shares(x, low, high)
    # The lower gambler's wealth is the upper one's on mirrored scores, so one root finder does.
    seeds = rise.shape[-1]
    sides = np.stack([rise, fall]).reshape(2 * math.prod(rise.shape[:-1]), seeds)
    ends = _running_ends(sides, log_threshold(alpha)).reshape(2, *rise.shape)
    bottom, top = low + (high - low) * ends[0], high - (high - low) * ends[1]
    contradiction = bottom > top
    last = seeds - 1 - contradiction.sum(axis=-1, keepdims=True)
    kept = np.minimum(np.arange(seeds), last)
    return ConfidenceSequence(
        np.take_along_axis(bottom, kept, axis=-1),
        np.take_along_axis(top, kept, axis=-1),
        contradiction,
    )


def mean_log_wealth(x: npt.ArrayLike, low: float, high: float, null: float) -> Wealth:
    """Returns the log-wealth against a mean of `null` after every seed.

    The value leaves the interval, and stays outside, when one of the two first reaches
    `log_threshold(alpha)`; asking that of one value is far cheaper than the interval.

    Args:
        x: Scores, (…, seeds).
        low: Smallest possible score.
        high: Largest possible score.
        null: The mean bet against, strictly between `low` and `high`.

    Raises:
        UserError: If a score, the range or the null value is not possible.
    """
    rise, fall = _shares(x, low, high)
    _check_null(null, low, high)
    return Wealth(
        _log_wealth(rise, (null - low) / (high - low)),
        _log_wealth(fall, (high - null) / (high - low)),
    )


def log_wealth_above(z: npt.ArrayLike, half_range: float, null: float = 0.0) -> FloatArray:
    """Returns `difference_log_wealth(z, half_range, null).above` at half the cost.

    The gambler below is the one above on −z against −`null`.
    """
    rise, _ = _shares(z, -half_range, half_range)
    _check_null(null, -half_range, half_range)
    return _log_wealth(rise, (null + half_range) / (2 * half_range))


def _check_null(null: float, low: float, high: float) -> None:
    if not low < null < high:
        raise UserError(
            f"Wealth is defined against a mean strictly between {low:g} and {high:g}; got {null:g}."
        )


def log_threshold(alpha: float) -> float:
    """Returns the log-wealth at which a mean is excluded: each of the two gamblers gets α/2."""
    if not 0 < alpha < 1:
        raise UserError(f"alpha must lie strictly between 0 and 1; got {alpha:g}.")
    return math.log(2 / alpha)


def seeds_until(log_wealth: FloatArray, alpha: float) -> FloatArray:
    """Returns after how many seeds each wealth first reached the threshold, infinity if never.

    Args:
        log_wealth: One side of a `Wealth`, (…, seeds).
        alpha: The level whose threshold counts.
    """
    reached = log_wealth >= log_threshold(alpha)
    seeds = np.arange(1, log_wealth.shape[-1] + 1)
    return np.asarray(np.where(reached, seeds, np.inf).min(axis=-1, initial=np.inf))


def _shares(x: npt.ArrayLike, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Returns how far scores lie above `low` and below `high`, as shares of the range.

    Rounding may carry an average of bounded values over the bound; more than that is refused.
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        raise UserError(f"The range of a score must be finite and ordered; got {low:g}, {high:g}.")
    values = np.asarray(x, dtype=np.float64)
    slack = 1e-9 * width
    outside = ~((values >= low - slack) & (values <= high + slack))  # so written, NaN is outside
    if outside.any():
        raise UserError(
            f"{int(outside.sum())} of {values.size} values, the first of them "
            f"{values[outside][0]:g}, lie outside the declared range [{low:g}, {high:g}]; correct "
            f"the range, or clip the scores and say so."
        )
    return np.clip((values - low) / width, 0, 1), np.clip((high - values) / width, 0, 1)


def _fractions() -> FloatArray:
    """Returns which share of its wealth each gambler of the portfolio stakes."""
    quantiles = (np.arange(NODES) + 0.5) / NODES
    return LARGEST_FRACTION * np.sin(np.pi * quantiles / 2) ** 2


def _log_wealth(u: FloatArray, m: float) -> FloatArray:
    """Returns log K⁺ₙ(m) for n = 1, 2, …: the log-mean-exp over gamblers of Σ log(1 + λⱼ(uᵢ − m)).

    Args:
        u: Scores as shares of the range, (…, seeds).
        m: The mean bet against, as a share of the range.
    """
    stakes = _fractions() / m
    paths = np.empty(u.shape)
    logs = np.zeros((*u.shape[:-1], NODES))
    for seed in range(u.shape[-1]):
        logs += np.log1p(stakes * (u[..., seed, None] - m))
        paths[..., seed] = _log_sum_exp(logs) - math.log(NODES)
    return paths


def _last_end(u: FloatArray, threshold: float) -> float:
    """Returns the largest m that any look excludes from below, in time proportional to the seeds.

    As the largest of convex functions of t = log 1/m, the highest wealth of all looks is convex,
    so Newton's method on whichever look it is approaches the root from above; see `_lowered`.

    Args:
        u: Scores as shares of the range, (seeds,).
        threshold: The log-wealth at which a mean is excluded.
    """
    fractions, looks = _fractions(), np.arange(len(u))[:, None]
    blocks = [looks[i : i + _FEW] for i in range(0, len(u), _FEW)]
    rooms = [_log_sum_exp(np.log(fractions) + block * np.log1p(-fractions)) for block in blocks]
    with np.errstate(divide="ignore"):
        first = np.log(np.cumsum(u)) + np.concatenate(rooms)
    t, step = float((threshold + math.log(NODES) - first).min()), math.inf
    while math.isfinite(t) and step > _TOLERANCE:
        wealth, slope = _highest(u, t)
        step = (wealth - threshold) / slope
        t -= max(step, 0.0)
    return math.exp(-t)


def _highest(u: FloatArray, t: float) -> tuple[float, float]:
    """Returns the highest log-wealth of all looks at t, and its derivative.

    In blocks of seeds, which stay in the processor's cache.
    """
    fractions = _fractions()
    highest, slope = -math.inf, math.nan
    logs, slopes = np.zeros(NODES), np.zeros(NODES)
    for start in range(0, len(u), _FEW):
        gains = fractions * u[start : start + _FEW, None] * math.exp(t)
        paths = logs + np.cumsum(np.log1p(gains - fractions), axis=0)
        rises = gains / (1 - fractions + gains)
        wealth = _log_sum_exp(paths) - math.log(NODES)
        best = int(wealth.argmax())
        if wealth[best] > highest:
            highest = float(wealth[best])
            shares = np.exp(paths[best] - highest) / NODES
            slope = float(shares @ (slopes + rises[: best + 1].sum(axis=0)))
        logs, slopes = paths[-1], slopes + rises.sum(axis=0)
    return highest, slope


def _running_ends(u: FloatArray, threshold: float) -> FloatArray:
    """Returns after every seed the largest m that any look so far excludes from below.

    With x = 1/m the product over seeds of 1 − fⱼ + fⱼ uᵢ x is a polynomial in x, so the wealth is

        K⁺ₙ = Σₖ Eₖ(u₁ … uₙ) Mₙₖ xᵏ,   Mₙₖ = mean over j of fⱼᵏ (1 − fⱼ)ⁿ⁻ᵏ,

    with Eₖ the elementary symmetric polynomials, which a new seed updates in n additions. All terms
    are positive: nothing cancels, and log K⁺ is convex and rising in t = log x.

    Args:
        u: Scores as shares of the range, (sequences, seeds).
        threshold: The log-wealth at which a mean is excluded.
    """
    sequences, seeds = u.shape
    with np.errstate(divide="ignore"):
        log_u = np.log(u)
    symmetric = np.full((sequences, seeds + 1), -np.inf)
    symmetric[:, 0] = 0
    t = np.full(sequences, np.inf)  # no end yet: nothing above the lower bound is excluded
    ends = np.empty(u.shape)
    for n in range(1, seeds + 1):
        symmetric[:, 1 : n + 1] = np.logaddexp(
            symmetric[:, 1 : n + 1], symmetric[:, :n] + log_u[:, n - 1, None]
        )
        t = _lowered(t, symmetric[:, : n + 1] + _log_moments(n), threshold)
        ends[:, n - 1] = np.exp(-t)
    return ends


def _lowered(t: FloatArray, coefficients: FloatArray, threshold: float) -> FloatArray:
    """Returns t, lowered to the root of log K⁺(t) = threshold where the wealth exceeds it at t.

    A t at which the wealth falls short stays as it is: an earlier look has excluded more, and this
    is what makes the interval the intersection of all looks. Newton's method needs no bracket:
    from the side of the larger wealth it approaches the root of a convex function monotonically.

    Args:
        t: One value per sequence, infinite before the first score above the lower bound.
        coefficients: Logarithms of the polynomial's coefficients, (sequences, powers).
        threshold: The log-wealth at which a mean is excluded.
    """
    powers = np.arange(coefficients.shape[1])
    # Where the term of the first power alone reaches the threshold, so does the sum.
    t = np.minimum(t, threshold - coefficients[:, 1])
    active = np.flatnonzero(np.isfinite(t))
    while active.size:
        terms = coefficients[active] + powers * t[active, None]
        total = _log_sum_exp(terms)
        slope = np.exp(terms - total[:, None]) @ powers
        step = (total - threshold) / slope
        moving = step > _TOLERANCE
        active = active[moving]
        t[active] -= step[moving]
    return t


@lru_cache(maxsize=_FEW)
def _log_moments(n: int) -> FloatArray:
    """Returns the logarithms of Mₙₖ for k = 0 … n."""
    fractions = _fractions()
    powers = np.arange(n + 1.0)[:, None]
    logs = powers * np.log(fractions) + (n - powers) * np.log1p(-fractions)
    moments = _log_sum_exp(logs) - math.log(NODES)
    moments.flags.writeable = False  # the cached array is shared
    return moments


def _log_sum_exp(logs: FloatArray) -> FloatArray:
    """Returns the logarithm of the sum of exponentials over the last axis, finite throughout."""
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top).sum(axis=-1)))
