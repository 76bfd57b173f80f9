"""The uniform distribution over a box of contexts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacebench.curricula.checks import Array
from pacebench.curricula.gaussian import Gaussian


class Uniform:
    """The uniform distribution over lower ≤ c ≤ upper, used like a `Gaussian`.

    Args:
        lower: Lower bounds, (d,).
        upper: Upper bounds, (d,), each above its lower one.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower = np.array(lower, dtype=np.float64)
        self.upper = np.array(upper, dtype=np.float64)

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

    def kl(self, other: Gaussian | Uniform) -> float:
        """Returns KL(self‖other) in nats."""
        if isinstance(other, Uniform):
            contained = (other.lower <= self.lower).all() and (self.upper <= other.upper).all()
            return other._log_volume() - self._log_volume() if contained else math.inf
        # The mean of −ln N(c) over the box: −ln N at its centre plus ½ tr(Σ⁻¹ Var).
        if other.factor is None:
            trace = float((self.variance / other.variance).sum())
        else:
            trace = float((other.whiten(np.diag(self.std)) ** 2).sum())
        return -self._log_volume() - float(other.log_prob(self.mean)) + 0.5 * trace

    def _log_volume(self) -> float:
        return float(np.log(self.upper - self.lower).sum())

    def __repr__(self) -> str:
        return f"Uniform(lower={self.lower.tolist()}, upper={self.upper.tolist()})"


Distribution = Gaussian | Uniform


def divergence(p: Distribution, q: Distribution) -> float:
    """Returns KL(p‖q) in nats; it is infinite for a Gaussian p and a bounded q."""
    if isinstance(p, Uniform):
        return p.kl(q)
    return math.inf if isinstance(q, Uniform) else p.kl(q)
