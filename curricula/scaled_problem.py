"""The exact quantities of one update in the scaled family, with gradients.

The variables are z = (m, ζ): the whitened mean step, δμ = L m, and the logarithmic change of θ,
θ' = θ ∘ exp ζ, d numbers each. Both are of size √ε for a step within the budget, whatever the units
of the contexts, and θ' is positive for every ζ.
"""

from __future__ import annotations

import numpy as np

from pacebench.curricula.checks import Array
from pacebench.curricula.family import ScaledFamily, WhitenedStatistics
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.sqp import Smooth, affine


class ScaledProblem:
    """Value, trust region and distance to the target as functions of z = (m, ζ).

    Args:
        family: The family of distributions.
        p: The current member.
        theta: Its θ.
        stats: The statistics of the batch.

    Attributes:
        blocks: The places in z of the `mean`, of `theta` and of `both`.
    """

    def __init__(
        self, family: ScaledFamily, p: Gaussian, theta: Array, stats: WhitenedStatistics
    ) -> None:
        self.family, self.stats = family, stats
        self.dim = d = p.dim
        self.blocks = {"mean": slice(0, d), "theta": slice(d, 2 * d), "both": slice(0, 2 * d)}
        self._samples = (stats.contexts - p.mean) / p.std
        self._before = np.einsum("ij,ij->i", self._samples, self._precise(self._samples))
        self._gap = (family.target.mean - p.mean) / p.std
        self._target_scale = 1.0 / np.sqrt(theta)
        self._theta = theta

    def trust(self, z: Array) -> tuple[float, Array]:
        """Returns the exact KL(p_new‖p) and its gradient."""
        m, zeta = z[: self.dim], z[self.dim :]
        growth = np.expm1(0.5 * zeta)
        coupled = self._coupled(growth)
        # sᵀMs − d with s = 1 + growth; the rows of M sum to one.
        trace = 2.0 * float(growth.sum()) + float(growth @ coupled)
        kl = 0.5 * (float(m @ m) + trace - float(zeta.sum()))
        return kl, np.concatenate([m, 0.5 * ((1.0 + growth) * (1.0 + coupled) - 1.0)])

    def gain(self, z: Array) -> tuple[float, Array]:
        """Returns the importance-weighted value minus V̄, in units of `stats.unit`."""
        m, zeta = z[: self.dim], z[self.dim :]
        inverse = np.exp(-0.5 * zeta)
        scaled = (self._samples - self._coloured(m)) * inverse
        solved = self._precise(scaled)
        logs = 0.5 * (self._before - np.einsum("ij,ij->i", scaled, solved) - float(zeta.sum()))
        gain = float(self.stats.weights @ np.expm1(logs))
        weights = self.stats.weights * np.exp(logs)
        mean = self._white((weights @ solved) * inverse)
        spread = 0.5 * (weights @ (scaled * solved) - float(weights.sum()))
        return gain, np.concatenate([mean, spread])

    def distance(self, z: Array) -> tuple[float, Array]:
        """Returns the exact KL(ψ‖p_new)."""
        m, zeta = z[: self.dim], z[self.dim :]
        inverse = np.exp(-0.5 * zeta)
        scaled = (self._gap - self._coloured(m)) * inverse
        solved = self._precise(scaled)
        t = self._target_scale * inverse
        coupled = self._coupled(t)
        logs = float(np.log(self._theta).sum()) + float(zeta.sum())
        kl = 0.5 * (float(scaled @ solved) + float(t @ coupled) - self.dim + logs)
        spread = 0.5 * (1.0 - t * coupled - scaled * solved)
        return kl, np.concatenate([-self._white(solved * inverse), spread])

    def linear(self, gradient: Array) -> Smooth:
        """Returns the function ⟨gradient, δθ⟩ of z, for a whitened gradient in θ."""
        g = gradient if self.family.diagonal else self.family.root @ gradient

        def evaluate(z: Array) -> tuple[float, Array]:
            zeta = z[self.dim :]
            by_theta = g * np.exp(zeta)
            return float(g @ np.expm1(zeta)), np.concatenate([np.zeros(self.dim), by_theta])

        return evaluate

    def within(
        self, block: slice, function: Smooth, scale: float = 1.0, offset: float = 0.0
    ) -> Smooth:
        """Returns offset + scale · function of one block of z, the rest of z held at zero."""

        def evaluate(y: Array) -> tuple[float, Array]:
            z = np.zeros(2 * self.dim)
            z[block] = y
            value, gradient = function(z)
            return value, gradient[block]

        return affine(evaluate, scale, offset)

    def relative_step(self, zeta: Array) -> Array:
        """Returns the whitened θ-step of a logarithmic step ζ."""
        relative = np.expm1(zeta)
        return relative if self.family.diagonal else relative @ self.family.root

    def log_step(self, theta_step: Array) -> Array:
        """Returns the logarithmic step ζ of a whitened θ-step that keeps θ positive."""
        return np.asarray(np.log1p(self.family.relative(theta_step)))

    def _coupled(self, v: Array) -> Array:
        return v if self.family.diagonal else self.family.coupling @ v

    def _precise(self, v: Array) -> Array:
        return v if self.family.diagonal else v @ self.family.precision

    def _coloured(self, m: Array) -> Array:
        factor = self.family.target.factor
        return m if factor is None else factor @ m

    def _white(self, v: Array) -> Array:
        factor = self.family.target.factor
        return v if factor is None else v @ factor
