"""The exact quantities of one update in the scaled family, with gradients.

The variables are z = (m, ζ): the whitened mean step, δμ = L m, and the logarithmic change of θ,
θ' = θ ∘ exp ζ. Both are of size √ε for a step within the budget, whatever the units, and θ' is
positive for every ζ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacebench.curricula.family import ScaledFamily, Statistics
from pacebench.curricula.gaussian import Array, Gaussian
from pacebench.curricula.sqp import Smooth

Evaluation = tuple[float, Array, Array]


class ScaledProblem:
    """Value, trust region and distance to the target as functions of (m, ζ).

    Args:
        family: The family of distributions.
        p: The current member.
        theta: Its θ.
        stats: The statistics of the batch.
    """

    def __init__(self, family: ScaledFamily, p: Gaussian, theta: Array, stats: Statistics) -> None:
        self.family, self.stats = family, stats
        self.dim = p.dim
        self._samples = (stats.contexts - p.mean) / p.std
        self._gap = (family.target.mean - p.mean) / p.std
        self._target_scale = 1.0 / np.sqrt(theta)
        self._theta = theta

    def trust(self, m: Array, zeta: Array) -> Evaluation:
        """Returns the exact KL(p_new‖p) with its gradients in m and ζ."""
        growth = np.expm1(0.5 * zeta)
        coupled = self._coupled(growth)
        # sᵀMs − d with s = 1 + growth; the rows of M sum to one.
        trace = 2.0 * float(growth.sum()) + float(growth @ coupled)
        kl = 0.5 * (float(m @ m) + trace - float(zeta.sum()))
        return kl, m, 0.5 * ((1.0 + growth) * (1.0 + coupled) - 1.0)

    def gain(self, m: Array, zeta: Array) -> Evaluation:
        """Returns the importance-weighted value less V̄, in units of `stats.unit`."""
        inverse = np.exp(-0.5 * zeta)
        scaled = (self._samples - self._coloured(m)) * inverse
        solved = self._precise(scaled)
        before = np.einsum("ij,ij->i", self._samples, self._precise(self._samples))
        logs = 0.5 * (before - np.einsum("ij,ij->i", scaled, solved) - float(zeta.sum()))
        gain = float(self.stats.weights @ np.expm1(logs))
        weights = self.stats.weights * np.exp(logs)
        mean = self._white((weights @ solved) * inverse)
        spread = 0.5 * (weights @ (scaled * solved) - float(weights.sum()))
        return gain, mean, spread

    def distance(self, m: Array, zeta: Array) -> Evaluation:
        """Returns the exact KL(ψ‖p_new)."""
        inverse = np.exp(-0.5 * zeta)
        scaled = (self._gap - self._coloured(m)) * inverse
        solved = self._precise(scaled)
        t = self._target_scale * inverse
        coupled = self._coupled(t)
        logs = float(np.log(self._theta).sum()) + float(zeta.sum())
        kl = 0.5 * (float(scaled @ solved) + float(t @ coupled) - self.dim + logs)
        spread = 0.5 * (1.0 - t * coupled - scaled * solved)
        return kl, -self._white(solved * inverse), spread

    def linear(self, gradient: Array) -> Callable[[Array, Array], Evaluation]:
        """Returns ⟨gradient, δθ⟩ for a whitened gradient in θ, as a function of (m, ζ)."""
        g = gradient if self.family.diagonal else self.family.root @ gradient

        def evaluate(m: Array, zeta: Array) -> Evaluation:
            return float(g @ np.expm1(zeta)), np.zeros_like(m), g * np.exp(zeta)

        return evaluate

    def relative_step(self, zeta: Array) -> Array:
        """Returns the whitened θ-step of a logarithmic one."""
        relative = np.expm1(zeta)
        return relative if self.family.diagonal else relative @ self.family.root

    def log_step(self, theta_step: Array) -> Array:
        """Returns the logarithmic step of a whitened θ-step that keeps θ positive."""
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


def restricted(
    function: Callable[[Array, Array], Evaluation],
    blocks: tuple[str, ...],
    dim: int,
    scale: float = 1.0,
    offset: float = 0.0,
) -> Smooth:
    """Returns offset + scale · function as one of the blocks that are to be moved alone."""
    moves_mean, moves_theta = "mean" in blocks, "theta" in blocks

    def evaluate(z: Array) -> tuple[float, Array]:
        m, zeta = split(z, blocks, dim)
        value, mean, spread = function(m, zeta)
        parts = [g for g, used in ((mean, moves_mean), (spread, moves_theta)) if used]
        return offset + scale * value, scale * np.concatenate(parts)

    return evaluate


def split(z: Array, blocks: tuple[str, ...], dim: int) -> tuple[Array, Array]:
    """Returns (m, ζ) of the variables of `blocks`, zero for a block that is not among them."""
    zero = np.zeros(dim)
    m = z[:dim] if "mean" in blocks else zero
    zeta = z[-dim:] if "theta" in blocks else zero
    return m, zeta
