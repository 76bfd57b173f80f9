"""Distributions over contexts: what every one can do, and what some can do besides.

All that a curriculum or a target must have is `dim` and `sample(n, rng)`. A distribution may also
have `log_prob(x)`, `mean` and `std`, and `kl(other)`, which returns the exact KL(self‖other) or
None where it has no formula; whatever it lacks is estimated from samples or left out.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacebench.curricula.checks import Array, as_bounds, as_vector
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian

# Estimates are made from the same samples each time, and touch no stream of a run.
_ESTIMATION = 20_240_611
_MOMENT_SAMPLES, _KL_SAMPLES = 2048, 1024


@runtime_checkable
class Distribution(Protocol):
    """A distribution over contexts of `dim` dimensions."""

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""


class UniformBox:
    """The uniform distribution over lower ≤ c ≤ upper.

    Args:
        lower: Lower bounds, (d,).
        upper: Upper bounds, (d,), each above its lower one.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = as_bounds((lower, upper))

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return len(self.lower)

    @property
    def mean(self) -> Array:
        """The centre of the box."""
        return 0.5 * (self.lower + self.upper)

    @property
    def variance(self) -> Array:
        """The marginal variances, width²/12."""
        return (self.upper - self.lower) ** 2 / 12.0

    @property
    def covariance(self) -> Array:
        """The variances (d,), as of a diagonal Gaussian."""
        return self.variance

    @property
    def std(self) -> Array:
        """The marginal standard deviations."""
        return np.sqrt(self.variance)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        return rng.uniform(self.lower, self.upper, size=(n, self.dim))

    def log_prob(self, x: ArrayLike) -> Any:
        """Returns the log density at one context (d,) or at each row of (n, d); −∞ outside."""
        points = np.asarray(x, dtype=np.float64)
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=-1)
        density = np.where(inside, -self._log_volume(), -math.inf)
        return float(density) if points.ndim == 1 else density

    def kl(self, other: Distribution) -> float | None:
        """Returns KL(self‖other) in nats; None where `other` is neither a box nor Gaussian."""
        if isinstance(other, UniformBox):
            contained = (other.lower <= self.lower).all() and (self.upper <= other.upper).all()
            return other._log_volume() - self._log_volume() if contained else math.inf
        if not isinstance(other, Gaussian):
            return None
        # The mean of −ln N(c) over the box: −ln N at its centre plus ½ tr(Σ⁻¹ Var).
        if other.factor is None:
            trace = float((self.variance / other.variance).sum())
        else:
            trace = float((other.whiten(np.diag(self.std)) ** 2).sum())
        return -self._log_volume() - float(other.log_prob(self.mean)) + 0.5 * trace

    def _log_volume(self) -> float:
        return float(np.log(self.upper - self.lower).sum())

    def __repr__(self) -> str:
        return f"UniformBox(lower={self.lower.tolist()}, upper={self.upper.tolist()})"


class Mixture:
    """A mixture Σ πₖ N(μₖ, Σₖ) of Gaussians, immutable.

    Args:
        components: The Gaussians, of one dimension.
        weights: Their weights πₖ > 0; equal if not given, divided by their sum.
    """

    def __init__(self, components: list[Gaussian], weights: ArrayLike | None = None) -> None:
        self.components = tuple(components)
        if not self.components or not all(isinstance(c, Gaussian) for c in self.components):
            raise CurriculumError("a Mixture needs a list of at least one curricula.Gaussian.")
        if len({c.dim for c in self.components}) > 1:
            raise CurriculumError("the components of a Mixture must have one dimension.")
        given = as_vector(np.ones(len(self.components)) if weights is None else weights, "weights")
        if len(given) != len(self.components) or not (given > 0).all():
            raise CurriculumError(
                f"{len(self.components)} components need as many positive weights, "
                f"not {given.tolist()}."
            )
        self.weights = given / given.sum()
        self.weights.setflags(write=False)

    def moved(self, components: list[Gaussian]) -> Mixture:
        """Returns the mixture of other components with the very same weights."""
        other = object.__new__(Mixture)
        other.components, other.weights = tuple(components), self.weights
        return other

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return self.components[0].dim

    @property
    def mean(self) -> Array:
        """The mean Σ πₖ μₖ."""
        return np.asarray(self.weights @ np.stack([c.mean for c in self.components]))

    @property
    def covariance(self) -> Array:
        """The covariance matrix (d, d), or the variances (d,) where nothing is correlated."""
        gaps = np.stack([c.mean for c in self.components]) - self.mean
        between = (gaps.T * self.weights) @ gaps
        diagonal = all(c.is_diagonal for c in self.components)
        if diagonal and not (between - np.diag(between.diagonal())).any():
            return self.variance
        within = (
            w * c.covariance_matrix for w, c in zip(self.weights, self.components, strict=True)
        )
        return np.asarray(between + sum(within))

    @property
    def variance(self) -> Array:
        """The marginal variances (d,)."""
        gaps = np.stack([c.mean for c in self.components]) - self.mean
        variances = np.stack([c.variance for c in self.components])
        return np.asarray(self.weights @ (variances + gaps**2))

    @property
    def std(self) -> Array:
        """The marginal standard deviations (d,)."""
        return np.sqrt(self.variance)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        if len(self.components) == 1:
            return self.components[0].sample(n, rng)
        which = rng.choice(len(self.components), size=n, p=self.weights)
        drawn = np.empty((n, self.dim))
        for k, component in enumerate(self.components):
            rows = np.flatnonzero(which == k)
            drawn[rows] = component.sample(len(rows), rng)
        return drawn

    def stratified(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, of each component as many as its weight says, up to rounding."""
        edges = np.floor(np.concatenate([[0.0], np.cumsum(self.weights)]) * n + rng.random())
        counts = np.diff(np.minimum(edges, n)).astype(int)
        counts[-1] += n - counts.sum()
        parts = zip(self.components, counts.tolist(), strict=True)
        return np.concatenate([component.sample(count, rng) for component, count in parts])

    def log_parts(self, x: Array) -> Array:
        """Returns ln πₖ + ln Nₖ(x) of each component at each row of (n, d), (K, n)."""
        parts = zip(self.weights, self.components, strict=True)
        return np.stack([math.log(w) + component.log_prob(x) for w, component in parts])

    def log_prob(self, x: ArrayLike) -> Any:
        """Returns the log density at one context (d,) as a float or at each row of (n, d)."""
        points = np.asarray(x, dtype=np.float64)
        if len(self.components) == 1:
            return self.components[0].log_prob(points)
        found = np.logaddexp.reduce(self.log_parts(np.atleast_2d(points)), axis=0)
        return float(found[0]) if points.ndim == 1 else found

    def __repr__(self) -> str:
        return f"Mixture({list(self.components)}, weights={self.weights.tolist()})"


def divergence(p: Distribution, q: Distribution) -> tuple[float | None, bool]:
    """Returns KL(p‖q) in nats and whether it is an estimate; None where a density is missing.

    It is exact where a formula is known. An estimate is the mean of ln p − ln q over samples of p.
    """
    p, q = _alone(p), _alone(q)
    if p is q:
        return 0.0, False
    if isinstance(p, Gaussian):
        if isinstance(q, Gaussian):
            return p.kl(q), False
        if isinstance(q, UniformBox):
            return math.inf, False
    elif hasattr(p, "kl") and (exact := p.kl(q)) is not None:
        return float(exact), False
    if not (hasattr(p, "log_prob") and hasattr(q, "log_prob")):
        return None, False
    drawn = p.sample(_KL_SAMPLES, np.random.default_rng(_ESTIMATION))
    with np.errstate(invalid="ignore"):
        found = float(np.mean(p.log_prob(drawn) - q.log_prob(drawn)))
    return max(0.0, found), True


def _alone(p: Distribution) -> Distribution:
    """Returns the component of a mixture of one: its divergences are exact."""
    return p.components[0] if isinstance(p, Mixture) and len(p.components) == 1 else p


def moments(p: Distribution) -> tuple[Array, Array]:
    """Returns mean and standard deviations, from samples where the distribution has none."""
    if hasattr(p, "mean") and hasattr(p, "std"):
        return np.asarray(p.mean), np.asarray(p.std)
    drawn = p.sample(_MOMENT_SAMPLES, np.random.default_rng(_ESTIMATION))
    return drawn.mean(axis=0), drawn.std(axis=0)


def fitted_gaussian(p: Distribution) -> Gaussian:
    """Returns the Gaussian with the mean and covariance of `p`, from samples where it has none."""
    if isinstance(p, Gaussian):
        return p
    if hasattr(p, "mean") and hasattr(p, "covariance"):
        return Gaussian(p.mean, p.covariance)
    drawn = p.sample(_MOMENT_SAMPLES, np.random.default_rng(_ESTIMATION))
    return Gaussian(drawn.mean(axis=0), np.cov(drawn, rowvar=False).reshape(p.dim, p.dim))
