"""Gaussian mixtures fitted to points by expectation maximisation, several at once, in NumPy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacebench.curricula.checks import Array

# As in scikit-learn: added to every variance, when to stop, and after how long.
_FLOOR, _TOLERANCE, _LONGEST = 1e-6, 1e-3, 100
# Rounds of Lloyd's algorithm that a fit begins with.
_ROUNDS = 10


class FittedMixture(NamedTuple):
    """A mixture of k Gaussians in D dimensions.

    Attributes:
        weights: (k,).
        means: (k, D).
        covariances: (k, D, D).
        log_likelihood: Of the points that it was fitted to, in all.
    """

    weights: Array
    means: Array
    covariances: Array
    log_likelihood: float

    @property
    def aic(self) -> float:
        """Akaike's criterion: twice the free parameters less twice the log likelihood."""
        k, D = self.means.shape
        free = k * (D + D * (D + 1) / 2 + 1) - 1
        return float(2.0 * free - 2.0 * self.log_likelihood)


def best_mixture(points: Array, sizes: range, rng: np.random.Generator) -> FittedMixture:
    """Returns the mixture with the lowest AIC among those with so many components."""
    sizes = range(sizes.start, min(sizes.stop, len(points) + 1))
    return min(fit(points, sizes, rng), key=lambda mixture: mixture.aic)


def fit(points: Array, sizes: range, rng: np.random.Generator) -> list[FittedMixture]:
    """Returns a mixture of full Gaussians for each size, a local maximum of the likelihood.

    All m mixtures take their steps together, as if each had the most components, K; those beyond
    its own have no weight. With the points' products as features, every sum over points is one
    product of matrices.
    """
    n, D = points.shape
    # Products of numbers far from the origin would lose digits.
    origin = points.mean(axis=0)
    x = points - origin
    features = np.concatenate([x, (x[:, :, None] * x[:, None, :]).reshape(n, D * D)], axis=1)
    real = np.arange(max(sizes)) < np.array(sizes)[:, None]
    shares = _clusters(x, real, rng)
    found: list[FittedMixture | None] = [None] * len(sizes)
    running, before = np.arange(len(sizes)), np.full(len(sizes), -math.inf)
    for step in range(1, _LONGEST + 1):
        weights, means, covariances = _maximised(features, D, shares, real[running])
        shares, totals = _expected(features, weights, means, covariances)
        done = (np.abs(totals - before) < _TOLERANCE * n) | (step == _LONGEST)
        for i in np.flatnonzero(done).tolist():
            k = sizes[running[i]]
            parts = weights[i, :k], means[i, :k] + origin, covariances[i, :k]
            found[running[i]] = FittedMixture(*parts, float(totals[i]))
        running, before, shares = running[~done], totals[~done], shares[~done]
        if not len(running):
            break
    return [mixture for mixture in found if mixture is not None]


def _clusters(x: Array, real: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Returns which cluster each point belongs to, (m, n, K): k-means++ and some Lloyd rounds.

    The seeds of k-means++ are drawn one after the other, so the first k serve a mixture of k.
    """
    chosen = [int(rng.integers(len(x)))]
    gaps = np.full(len(x), math.inf)
    while len(chosen) < real.shape[1]:
        gaps = np.minimum(gaps, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
        total = float(gaps.sum())
        chosen.append(int(rng.choice(len(x), p=gaps / total if total > 0.0 else None)))
    centres = np.broadcast_to(x[chosen], (len(real), *x[chosen].shape))
    absent = np.where(real, 0.0, math.inf)
    numbers = np.arange(real.shape[1])
    for _ in range(_ROUNDS):
        # Less ‖x‖², which is the same for all clusters.
        distances = (centres**2).sum(axis=2) + absent
        nearest = (distances[:, None] - 2.0 * (x @ centres.swapaxes(1, 2))).argmin(axis=2)
        members = (nearest[:, :, None] == numbers).astype(np.float64)
        counts = members.sum(axis=1)[:, :, None]
        sums = members.swapaxes(1, 2) @ x
        centres = np.where(counts > 0, sums / np.maximum(counts, 1.0), centres)
    return np.asarray(members)


def _maximised(
    features: Array, D: int, shares: Array, real: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """Returns weights (m, K), means (m, K, D) and covariances (m, K, D, D)."""
    m, _, K = shares.shape
    counts = shares.sum(axis=1) + 1e-15
    moments = (shares.swapaxes(1, 2) @ features) / counts[:, :, None]
    means = moments[:, :, :D]
    covariances = moments[:, :, D:].reshape(m, K, D, D) - means[..., None] * means[..., None, :]
    diagonal = np.arange(D)
    covariances[:, :, diagonal, diagonal] += _FLOOR
    weights = np.where(real, counts, 0.0)
    return weights / weights.sum(axis=1, keepdims=True), means, covariances


def _expected(
    features: Array, weights: Array, means: Array, covariances: Array
) -> tuple[Array, Array]:
    """Returns the responsibilities (m, n, K) and the log likelihoods (m,).

    ln N = −½ xᵀPx + xᵀPμ − ½ (μᵀPμ + ln |Σ| + D ln 2π) with P = Σ⁻¹ is linear in the features.
    """
    D = means.shape[2]
    precisions = np.linalg.inv(covariances)
    linear = (precisions @ means[..., None])[..., 0]
    constants = np.linalg.slogdet(covariances)[1] + D * math.log(2.0 * math.pi)
    constants += (means * linear).sum(axis=2)
    with np.errstate(divide="ignore"):
        offsets = np.log(weights) - 0.5 * constants
    flat = -0.5 * precisions.reshape(*means.shape[:2], D * D)
    logs = features @ np.concatenate([linear, flat], axis=2).swapaxes(1, 2)
    logs += offsets[:, None]
    peaks = logs.max(axis=2, keepdims=True)
    shares = np.exp(logs - peaks)
    sums = shares.sum(axis=2, keepdims=True)
    shares /= sums
    return shares, np.asarray((np.log(sums) + peaks).sum(axis=(1, 2)))
