"""Gaussian distributions over contexts, accurate for contexts of any scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from pacebench.curricula.checks import Array, as_vector
from pacebench.curricula.errors import CurriculumError

_LOG_2PI = math.log(2.0 * math.pi)


class Gaussian:
    """The normal distribution N(mean, covariance), immutable.

    A full covariance is kept as standard deviations and the Cholesky factor of the *correlation*
    matrix, so that axes of very different scale (metres beside micrometres) cost no accuracy.

    Args:
        mean: Vector of length d.
        covariance: Symmetric positive definite matrix (d, d), or the vector (d,) of variances of a
            diagonal one. Nothing of size d × d is ever allocated for the latter.

    Attributes:
        mean: Vector of length d, read-only.

    Raises:
        CurriculumError: A shape does not fit, a number is not finite, or the covariance is
            asymmetric or singular.
    """

    __slots__ = ("_base", "_factor", "_scale", "_std", "_variance", "mean")

    mean: Array

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        self.mean = as_vector(mean, "mean of a Gaussian")
        try:
            base = np.array(covariance, dtype=np.float64)
        except (TypeError, ValueError):
            raise CurriculumError(
                "the covariance is not an array of numbers; give (d, d) or, for a diagonal, (d,)."
            ) from None
        d = len(self.mean)
        if base.shape not in ((d,), (d, d)):
            raise CurriculumError(
                f"a mean of length {d} needs a covariance of shape ({d}, {d}) or, for a diagonal, "
                f"({d},), not {base.shape}."
            )
        variance = base if base.ndim == 1 else base.diagonal().copy()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            usable = (variance > 0) & np.isfinite(variance) & np.isfinite(1.0 / variance)
        if not usable.all():
            raise CurriculumError(
                "the covariance is singular or not finite: every variance must be positive."
            )
        factor: Array | None = None
        if base.ndim == 2:
            base, factor = _factorise(base, np.sqrt(variance))
        self._assign(base, None, variance, factor)

    def _assign(
        self, base: Array, scale: Array | None, variance: Array, factor: Array | None
    ) -> None:
        # covariance = diag(scale) base diag(scale). The two are kept apart so that rescaling costs
        # O(d), and so that a scale of one gives the base back bit by bit.
        self._base, self._scale, self._factor = base, scale, factor
        self._variance, self._std = variance, np.sqrt(variance)
        for array in (self.mean, variance, self._std):
            array.setflags(write=False)

    @classmethod
    def from_cholesky(cls, mean: Array, cholesky: Array) -> Gaussian:
        """Returns the Gaussian with the covariance LLᵀ of a lower triangular L.

        Raises:
            CurriculumError: A number is not finite, or the diagonal of L is not positive.
        """
        if not (np.isfinite(mean).all() and np.isfinite(cholesky).all()):
            raise CurriculumError("mean and Cholesky factor must be finite.")
        variance = np.einsum("ij,ij->i", cholesky, cholesky)
        usable = (cholesky.diagonal() > 0.0).all() and np.isfinite(1.0 / variance).all()
        if not usable:
            raise CurriculumError("the diagonal of a Cholesky factor must be positive.")
        gaussian = object.__new__(cls)
        gaussian.mean = np.array(mean)
        factor = np.tril(cholesky) / np.sqrt(variance)[:, None]
        gaussian._assign(cholesky @ cholesky.T, None, variance, factor)
        return gaussian

    def rescaled(self, mean: Array, theta: Array) -> Gaussian:
        """Returns N(mean, Θ^½ Σ Θ^½) with Θ = diag(theta), sharing this one's factorisation."""
        other = object.__new__(Gaussian)
        other.mean = mean
        scale = np.sqrt(theta)
        if self._scale is not None:
            scale = scale * self._scale
        base = theta * self._base if self.is_diagonal else self._base
        other._assign(base, scale, theta * self._variance, self._factor)
        return other

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return len(self.mean)

    @property
    def is_diagonal(self) -> bool:
        """Whether the covariance was given as the vector of a diagonal."""
        return self._factor is None

    @property
    def covariance(self) -> Array:
        """The covariance in the shape it was given: (d, d), or (d,) for a diagonal."""
        if self._factor is None:
            return self._variance
        if self._scale is None:
            return self._base.copy()
        return self._base * self._scale[:, None] * self._scale

    @property
    def covariance_matrix(self) -> Array:
        """The covariance as a (d, d) matrix, also where it was given as a diagonal."""
        return np.diag(self._variance) if self.is_diagonal else self.covariance

    @property
    def variance(self) -> Array:
        """The marginal variances (d,), read-only."""
        return self._variance

    @property
    def std(self) -> Array:
        """The marginal standard deviations (d,), read-only."""
        return self._std

    @property
    def factor(self) -> Array | None:
        """The lower Cholesky factor of the correlation matrix, None for a diagonal."""
        return self._factor

    def cholesky(self) -> Array:
        """Returns the lower Cholesky factor L of the covariance, (d, d)."""
        if self._factor is None:
            return np.diag(self._std)
        return self._std[:, None] * self._factor

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        noise = rng.standard_normal((n, self.dim))
        if self._factor is not None:
            noise = noise @ self._factor.T
        noise *= self._std
        noise += self.mean
        return noise

    def whiten(self, displacement: Array) -> Array:
        """Returns L⁻¹v for one displacement (d,) or for each row of (n, d)."""
        return self.decorrelate(displacement / self._std)

    def decorrelate(self, scaled: Array) -> Array:
        """Returns F⁻¹v with F the Cholesky factor of the correlation matrix."""
        return scaled if self._factor is None else solve_lower(self._factor, scaled)

    def unwhiten(self, white: Array) -> Array:
        """Returns L v, the inverse of `whiten`."""
        if self._factor is not None:
            white = white @ self._factor.T
        return white * self._std

    def log_prob(self, x: ArrayLike) -> Any:
        """Returns the log density at one context (d,) as a float or at each row of (n, d)."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise CurriculumError(
                f"log_prob of a {self.dim}-dimensional Gaussian needs contexts of shape "
                f"({self.dim},) or (n, {self.dim}), not {points.shape}."
            )
        white = self.whiten(points - self.mean)
        log_density = -0.5 * (np.einsum("...j,...j->...", white, white) + self.dim * _LOG_2PI)
        log_density = log_density - self._half_log_det()
        return float(log_density) if points.ndim == 1 else log_density

    def kl(self, other: Gaussian) -> float:
        """Returns KL(self‖other) in nats, exact to rounding also where the two nearly agree."""
        if other.dim != self.dim:
            raise CurriculumError(
                f"KL needs two Gaussians of one dimension, not {self.dim} and {other.dim}."
            )
        white = other.whiten(self.mean - other.mean)
        quadratic = float(white @ white)
        if self._factor is None and other._factor is None:
            return 0.5 * (quadratic + _spread(self._variance, other._variance))
        # L_o⁻¹L_s is triangular: its diagonal carries the determinant, and summing ρ − 1 − ln ρ
        # there avoids the cancellation of tr(…) − d − ln|…| where the two nearly agree.
        if self._factor is other._factor and self._factor is not None:
            # One correlation matrix: below the diagonal only F⁻¹(D − I)F remains, D the ratio of
            # the deviations.
            growth = (self._std - other._std) / other._std
            below = solve_lower(self._factor, (growth[:, None] * self._factor).T).T
            spread = _spread(self._variance, other._variance)
        else:
            mine = self.cholesky()
            below = (mine / other._std[:, None]).T
            scale = other._std
            if other._factor is not None:
                below = solve_lower(other._factor, below)
                scale = scale * other._factor.diagonal()
            below = below.T
            spread = _spread(mine.diagonal() ** 2, scale**2)
        return 0.5 * (quadratic + float(np.sum(np.tril(below, -1) ** 2)) + spread)

    def _half_log_det(self) -> float:
        half = float(np.log(self._std).sum())
        if self._factor is not None:
            half += float(np.log(self._factor.diagonal()).sum())
        return half

    def __repr__(self) -> str:
        return f"Gaussian(mean={self.mean.tolist()}, covariance={self.covariance.tolist()})"


def _spread(numerator: Array, denominator: Array) -> float:
    """Returns Σ (ρ − 1 − ln ρ) with ρ = numerator/denominator, at least zero."""
    excess = (numerator - denominator) / denominator
    # Near one, log1p keeps all digits; far below one, ρ − 1 no longer has those of ρ.
    near = float(excess.min()) >= -0.5
    logs = np.log1p(excess) if near else np.log(numerator / denominator)
    return max(0.0, float((excess - logs).sum()))


def solve_lower(lower: Array, rows: Array) -> Array:
    """Solves lower · y = v for one vector (d,) or for each row of (n, d).

    LAPACK is called directly: on matrices as small as those of an update, the checks of SciPy's
    wrapper would take many times longer than the solution.
    """
    solution, info = lapack.dtrtrs(lower, rows.T, lower=1)
    if info != 0:  # pragma: no cover - the factor was checked when it was made
        raise CurriculumError("a covariance is singular; give a positive definite one.")
    return np.asarray(solution, dtype=np.float64).T


def _factorise(matrix: Array, std: Array) -> tuple[Array, Array]:
    """Checks a full covariance; returns it symmetrised, and its correlation's Cholesky factor."""
    correlation = matrix / std[:, None] / std
    if not np.isfinite(correlation).all():
        raise CurriculumError("the covariance contains NaN or infinite numbers; give finite ones.")
    if np.abs(correlation - correlation.T).max() > 1e-8:
        raise CurriculumError("the covariance is asymmetric; give a symmetric matrix.")
    symmetric = 0.5 * (matrix + matrix.T)
    correlation = 0.5 * (correlation + correlation.T)
    np.fill_diagonal(correlation, 1.0)
    factor, info = lapack.dpotrf(correlation, lower=1, clean=1)
    # Rounding may let the factorisation of a singular matrix succeed; its eigenvalues show it.
    eigenvalues = np.linalg.eigvalsh(correlation)
    floor = 10.0 * len(std) * np.finfo(np.float64).eps * float(eigenvalues[-1])
    if info != 0 or float(eigenvalues[0]) <= floor:
        raise CurriculumError(
            "the covariance is singular or indefinite; give a positive definite matrix."
        )
    return symmetric, np.ascontiguousarray(factor)
