"""The exact quantities of one SPDL update over all Gaussians, with gradients.

The variables are x = (m, a, b): the new mean, the logarithms of the diagonal of the new Cholesky
factor A, and its entries below the diagonal, row by row.
"""

from __future__ import annotations

import numpy as np

from pacebench.curricula.checks import Array
from pacebench.curricula.gaussian import solve_lower


class CholeskyProblem:
    """Value, trust region and distance to the target as functions of x = (m, a, b), with gradients.

    Args:
        old: Mean and Cholesky factor of the current distribution.
        target: Mean and Cholesky factor of the target.
        contexts: The samples, (K, d).
        weights: Their values divided by K.
    """

    def __init__(
        self,
        old: tuple[Array, Array],
        target: tuple[Array, Array],
        contexts: Array,
        weights: Array,
    ) -> None:
        self._old, self._target = old, target
        self._contexts, self._weights = contexts, weights
        self.dim = len(old[0])
        self._below = np.tril_indices(self.dim, -1)
        self._old_logs = _log_density(contexts, *old)

    @property
    def size(self) -> int:
        """The number of variables, d + d(d + 1)/2."""
        return self.dim + self.dim * (self.dim + 1) // 2

    def pack(self, mean: Array, factor: Array) -> Array:
        """Returns x of a mean and a Cholesky factor."""
        return np.concatenate([mean, np.log(factor.diagonal()), factor[self._below]])

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """Returns mean and Cholesky factor of x."""
        d = self.dim
        factor = np.diag(np.exp(x[d : 2 * d]))
        factor[self._below] = x[2 * d :]
        return x[:d], factor

    def distance(self, x: Array) -> tuple[float, Array]:
        """Returns KL(p_new‖ψ) and its gradient."""
        m, A = self.unpack(x)
        mean, factor = self._target
        W, w = solve_lower(factor, A.T).T, solve_lower(factor, m - mean)
        logs = float(np.log(factor.diagonal()).sum()) - float(x[self.dim : 2 * self.dim].sum())
        kl = 0.5 * (float((W * W).sum()) + float(w @ w) - self.dim) + logs
        inverse = _inverse(factor)
        return kl, self._gradient(inverse.T @ w, inverse.T @ W, A, -1.0)

    def trust(self, x: Array) -> tuple[float, Array]:
        """Returns KL(p_old‖p_new) and its gradient."""
        m, A = self.unpack(x)
        mean, factor = self._old
        inverse = _inverse(A)
        U, e = inverse @ factor, inverse @ (mean - m)
        logs = float(x[self.dim : 2 * self.dim].sum()) - float(np.log(factor.diagonal()).sum())
        kl = 0.5 * (float((U * U).sum()) + float(e @ e) - self.dim) + logs
        outer = U @ U.T + np.outer(e, e)
        return kl, self._gradient(-inverse.T @ e, -inverse.T @ outer, A, 1.0)

    def value(self, x: Array) -> tuple[float, Array]:
        """Returns the importance-weighted value mean[V p_new/p_old] and its gradient."""
        m, A = self.unpack(x)
        inverse = _inverse(A)
        E = (self._contexts - m) @ inverse.T
        logs = -0.5 * np.einsum("ij,ij->i", E, E) - float(x[self.dim : 2 * self.dim].sum())
        weights = self._weights * np.exp(logs - self._old_logs)
        total = float(weights.sum())
        weighted = weights[:, None] * E
        mean = inverse.T @ weighted.sum(axis=0)
        return total, self._gradient(mean, inverse.T @ (weighted.T @ E), A, -total)

    def _gradient(self, mean: Array, factor: Array, A: Array, log_det: float) -> Array:
        """Returns the gradient in x, given those in mean and factor and of the factor's ln|A|."""
        diagonal = factor.diagonal() * A.diagonal() + log_det
        return np.concatenate([mean, diagonal, factor[self._below]])


def _inverse(factor: Array) -> Array:
    return solve_lower(factor, np.eye(len(factor))).T


def _log_density(contexts: Array, mean: Array, factor: Array) -> Array:
    """Returns the log density up to the constant −½d ln 2π."""
    E = solve_lower(factor, contexts - mean)
    logs = -0.5 * np.einsum("ij,ij->i", E, E) - float(np.log(factor.diagonal()).sum())
    return np.asarray(logs)
