"""The family p = N(μ, Θ^½ Σ̃ Θ^½) and the statistics of one batch of samples in it.

Everything here is *whitened*. A mean displacement v is represented by L⁻¹v with LLᵀ = Σ(θ), so that
⟨·,·⟩_P becomes the plain dot product. A change of θ is represented by Gᵀ(δθ/θ), where
GGᵀ = ½(I + M) and M = Σ̃ ∘ Σ̃⁻¹, so that ‖δθ‖_H becomes the plain norm; gradients in θ are
represented by G⁻¹(θ ∘ gradient), so that ⟨·,·⟩_{H⁻¹} does. Neither map depends on the units of the
contexts, which is why nothing below over- or underflows where the contexts are large or tiny.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from pacebench.curricula.checks import Array
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian, solve_lower
from pacebench.curricula.steps import Step

# A step that would take θ out of this range is refused: no useful context distribution lies there,
# and the squares in the formulas would leave the range of floating point.
THETA_LIMITS = (1e-100, 1e100)

# How many numbers a block of rows holds: half a megabyte, which stays in the cache.
BLOCK = 65_536


class WhitenedStatistics(NamedTuple):
    """What a step needs to know about one batch: whitened vectors, values in units of `unit`.

    Attributes:
        slack: a = V̄ − V₋.
        mean_gap: x = μ̃ − μ.
        mean_slope: ū, the gradient of the importance-weighted value in μ.
        theta_gap: 1 − θ.
        theta_slope: ψ̄, its gradient in θ.
        theta_pull: ω, the gradient of KL(ψ‖p) in θ.
        weights: Each value divided by K and by `unit`.
        unit: The largest absolute value, 1 if all are zero.
        contexts: The contexts of the batch.
    """

    slack: float
    mean_gap: Array
    mean_slope: Array
    theta_gap: Array
    theta_slope: Array
    theta_pull: Array
    weights: Array
    unit: float
    contexts: Array

    def gain(self, step: Step) -> float:
        """Returns by how much a step raises the linearised value."""
        d = len(self.mean_slope)
        mean_step, theta_step = step.delta[:d], step.delta[d:]
        return float(self.mean_slope @ mean_step) + float(self.theta_slope @ theta_step)


class ScaledFamily:
    """The Gaussians N(μ, Θ^½ Σ̃ Θ^½) around the target N(μ̃, Σ̃).

    Args:
        target: The target; a diagonal one makes every operation elementwise, O(K d).

    Attributes:
        ones: θ at the target.
        precision: The inverse of the target's correlation matrix; like `coupling` and `root` only
            where the target is not diagonal.
        coupling: M = Σ̃ ∘ Σ̃⁻¹.
        root: The Cholesky factor G of ½(I + M).
    """

    def __init__(self, target: Gaussian) -> None:
        self.target = target
        self.diagonal = target.is_diagonal
        self.ones = np.ones(target.dim)
        self.ones.setflags(write=False)
        if target.factor is not None:
            inverse = solve_lower(target.factor, np.eye(target.dim)).T
            self.precision = inverse.T @ inverse
            correlation = target.factor @ target.factor.T
            self.coupling = correlation * self.precision
            curvature = 0.5 * (np.eye(target.dim) + self.coupling)
            root, info = lapack.dpotrf(curvature, lower=1, clean=1)
            if info != 0:  # pragma: no cover - its eigenvalues are at least one
                raise CurriculumError("the target covariance is singular.")
            self.root = np.ascontiguousarray(root)

    def theta_of(self, initial: Gaussian) -> Array:
        """Returns the θ of a distribution of the family.

        The correlations of the family are the target's: an initial distribution given by its
        variances alone gets them, a full covariance must have them.

        Raises:
            CurriculumError: It has other correlations, or variances of another order of magnitude.
        """
        theta = initial.variance / self.target.variance
        low, high = THETA_LIMITS
        if not ((theta > low) & (theta < high)).all():
            raise CurriculumError(
                "the initial variances lie more than a hundred decades from the target's; "
                "give both on one scale."
            )
        if not initial.is_diagonal:
            scale = np.sqrt(theta)
            mine = self.target.covariance_matrix * scale[:, None] * scale
            off = np.abs(initial.covariance - mine) / initial.std[:, None] / initial.std
            if off.max() > 1e-6:
                raise CurriculumError(
                    "the initial covariance has other correlations than the target, and the family "
                    "Θ^½ Σ̃ Θ^½ cannot represent it; give the initial variances as a vector."
                )
        return theta

    def at(self, mean: Array, theta: Array) -> Gaussian:
        """Returns the member of the family with these parameters."""
        return self.target.rescaled(mean, theta)

    def statistics(
        self, p: Gaussian, theta: Array, contexts: Array, values: Array, slack: float
    ) -> WhitenedStatistics:
        """Returns the statistics of a batch sampled from `p`, the member at `theta`."""
        # Dividing by the largest value makes the step independent of the values' scale.
        unit = float(np.abs(values).max()) or 1.0
        weights = values / (unit * len(values))
        std = p.std
        gap = (self.target.mean - p.mean) / std
        mean_weight = float(weights.sum())
        if self.diagonal:
            first, second = _moments(contexts, p.mean, weights)
            slope = first / std
            theta_slope = 0.5 * (second / p.variance - mean_weight)
            pull = 0.5 * (1.0 - 1.0 / theta - gap * gap)
            theta_gap = 1.0 / theta - 1.0
        else:
            y = (contexts - p.mean) / std
            theta_slope = 0.5 * (weights @ ((y @ self.precision) * y) - mean_weight)
            t = 1.0 / np.sqrt(theta)
            pull = 0.5 * (1.0 - t * (self.coupling @ t) - (self.precision @ gap) * gap)
            gap, slope = self.target.decorrelate(gap), self.target.decorrelate(weights @ y)
            theta_slope, pull = solve_lower(self.root, theta_slope), solve_lower(self.root, pull)
            theta_gap = (1.0 / theta - 1.0) @ self.root
        return WhitenedStatistics(
            slack / unit, gap, slope, theta_gap, theta_slope, pull, weights, unit, contexts
        )

    def moved(self, p: Gaussian, theta: Array, step: Step) -> tuple[Gaussian, Array, Array] | None:
        """Returns the member a step leads to from `p` at `theta`, its θ, and δθ/θ.

        None where that lies beyond `THETA_LIMITS`.
        """
        d = self.target.dim
        mean_lands, theta_lands = step.lands
        relative = self.relative(step.delta[d:])
        new_theta = self.ones if theta_lands else theta * (1.0 + relative)
        mean = self.target.mean if mean_lands else p.mean + p.unwhiten(step.delta[:d])
        low, high = THETA_LIMITS
        within = low < float(new_theta.min()) and float(new_theta.max()) < high
        if not (within and math.isfinite(float(mean.sum()))):
            return None
        new_theta.setflags(write=False)
        return self.at(mean, new_theta), new_theta, relative

    def relative(self, theta_step: Array) -> Array:
        """Returns δθ/θ of a whitened θ-step."""
        if self.diagonal:
            return theta_step
        solution, _ = lapack.dtrtrs(self.root, theta_step, lower=1, trans=1)
        return np.asarray(solution, dtype=np.float64)

    def theta_kl(self, relative: Array) -> float:
        """Returns the exact KL(p_new‖p) of the θ-step δθ = relative ∘ θ taken alone."""
        if self.diagonal:
            return 0.5 * max(0.0, float((relative - np.log1p(relative)).sum()))
        # tr(C⁻¹ D C D) − d = Σ M_ij (s_i s_j − 1), because the rows of M sum to one.
        growth = _sqrt1pm1(relative)
        trace = 2.0 * float(growth.sum()) + float(growth @ self.coupling @ growth)
        return 0.5 * max(0.0, trace - float(np.log1p(relative).sum()))

    def log_weights(self, contexts: Array, old: Gaussian, new: Gaussian, relative: Array) -> Array:
        """Returns ln p_new/p_old at each context, for the θ-step δθ = relative ∘ θ."""
        step = new.mean - old.mean
        constant = float(np.log1p(relative).sum())
        if self.diagonal:
            # ½(1/v − 1/v') = ½ relative/v', and the cross term is r·δμ/v'.
            shift = step / new.variance
            constant += float(shift @ step)
            logs = _quadratic(contexts, old.mean, shift, 0.5 * relative / new.variance)
        else:
            r = contexts - old.mean
            before, after = old.whiten(r), new.whiten(r - step)
            logs = np.einsum("ij,ij->i", before, before) - np.einsum("ij,ij->i", after, after)
            logs *= 0.5
        return np.asarray(logs - 0.5 * constant)


def _moments(contexts: Array, mean: Array, weights: Array) -> tuple[Array, Array]:
    """Returns Σ w r and Σ w r² of the displacements r, elementwise."""
    first = second = np.zeros(())
    for rows, r in _displacements(contexts, mean):
        w = weights[rows]
        first = first + w @ r
        np.multiply(r, r, out=r)
        second = second + w @ r
    return first, second


def _quadratic(contexts: Array, mean: Array, linear: Array, square: Array) -> Array:
    """Returns linear·r + square·r² of each displacement r."""
    result = np.empty(len(contexts))
    for rows, r in _displacements(contexts, mean):
        result[rows] = r @ linear
        np.multiply(r, r, out=r)
        result[rows] += r @ square
    return result


def _displacements(contexts: Array, mean: Array) -> Iterator[tuple[slice, Array]]:
    """Yields contexts less mean in blocks of rows that stay in the cache.

    One buffer serves all blocks: with many dimensions, a fresh K × d temporary would cost more in
    page faults than the arithmetic does.
    """
    count, d = contexts.shape
    height = min(count, max(1, BLOCK // d))
    buffer = np.empty((height, d))
    for start in range(0, count, height):
        rows = slice(start, min(start + height, count))
        r = buffer[: rows.stop - start]
        np.subtract(contexts[rows], mean, out=r)
        yield rows, r


def _sqrt1pm1(x: Array) -> Array:
    """Returns √(1 + x) − 1 without cancellation near zero."""
    return np.asarray(x / (np.sqrt(1.0 + x) + 1.0))
