"""Gaussian mixtures fitted to points by expectation maximisation, in NumPy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from pacebench.curricula.checks import Array

# As in scikit-learn: added to every variance, when to stop, and after how long.
_FLOOR, _TOLERANCE, _LONGEST = 1e-6, 1e-3, 100


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
    return min((fit(points, k, rng) for k in sizes), key=lambda mixture: mixture.aic)


def fit(points: Array, k: int, rng: np.random.Generator) -> FittedMixture:
    """Returns a mixture of k full Gaussians that is a local maximum of the likelihood."""
    nearest = _clusters(points, k, rng)
    shares = (nearest[:, None] == np.arange(k)).astype(np.float64)
    before = -math.inf
    for _ in range(_LONGEST):
        weights, means, covariances = _maximised(points, shares)
        logs = _log_densities(points, means, covariances) + np.log(weights)
        total = np.logaddexp.reduce(logs, axis=1)
        found = FittedMixture(weights, means, covariances, float(total.sum()))
        if abs(found.log_likelihood - before) < _TOLERANCE * len(points):
            break
        before = found.log_likelihood
        shares = np.exp(logs - total[:, None])
    return found


def _clusters(points: Array, k: int, rng: np.random.Generator) -> Array:
    """Returns the number of the cluster of each point: k-means++ and a few rounds of Lloyd's."""
    centres = points[rng.integers(len(points))][None]
    for _ in range(k - 1):
        gaps = ((points[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        total = float(gaps.sum())
        chosen = rng.choice(len(points), p=gaps / total if total > 0.0 else None)
        centres = np.concatenate([centres, points[chosen][None]])
    for _ in range(10):
        nearest = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        members = nearest[:, None] == np.arange(k)
        sizes = members.sum(axis=0)
        sums = members.T.astype(np.float64) @ points
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return np.asarray(nearest)


def _maximised(points: Array, shares: Array) -> tuple[Array, Array, Array]:
    counts = shares.sum(axis=0) + 1e-15
    means = (shares.T @ points) / counts[:, None]
    gaps = points[None] - means[:, None]
    covariances = np.einsum("nk,knd,kne->kde", shares, gaps, gaps, optimize=True)
    covariances /= counts[:, None, None]
    diagonal = np.arange(points.shape[1])
    covariances[:, diagonal, diagonal] += _FLOOR
    return counts / counts.sum(), means, covariances


def _log_densities(points: Array, means: Array, covariances: Array) -> Array:
    """Returns ln N(point; component) as (points, components)."""
    columns = []
    for mean, factor in zip(means, np.linalg.cholesky(covariances), strict=True):
        white = solve_triangular(factor, (points - mean).T, lower=True, check_finite=False)
        half = np.log(factor.diagonal()).sum() + 0.5 * len(mean) * math.log(2.0 * math.pi)
        columns.append(-0.5 * np.einsum("ij,ij->j", white, white) - half)
    return np.stack(columns, axis=1)
