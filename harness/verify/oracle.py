"""Textbook formulas, simple and slow, against which curricula are checked.

No formula is shared with `curricula`: these use dense matrices, no whitening beyond a change of
units, and the statistics as `docs/curricula.md` prints them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from pacebench.curricula.checks import Array


@dataclass(frozen=True)
class Normal:
    """A normal distribution as mean and dense covariance."""

    mean: Array
    covariance: Array

    @classmethod
    def of(cls, distribution: Any) -> Normal:
        """Reads a curriculum's distribution through its public attributes."""
        covariance = np.asarray(distribution.covariance, dtype=np.float64)
        dense = np.diag(covariance) if covariance.ndim == 1 else covariance
        return cls(np.array(distribution.mean, dtype=np.float64), np.array(dense))

    def rescaled(self, mean: Array, theta: Array) -> Normal:
        """Returns N(mean, Θ^½ Σ Θ^½)."""
        scale = np.sqrt(theta)
        return Normal(mean, self.covariance * np.outer(scale, scale))


def kl(p: Normal, q: Normal) -> float:
    """Returns KL(p‖q) from determinant, trace and quadratic form."""
    unit = np.sqrt(q.covariance.diagonal())
    P, Q = p.covariance / np.outer(unit, unit), q.covariance / np.outer(unit, unit)
    gap = (p.mean - q.mean) / unit
    ratio = np.linalg.solve(Q, P)
    log_det = np.linalg.slogdet(P)[1] - np.linalg.slogdet(Q)[1]
    quadratic = float(gap @ np.linalg.solve(Q, gap))
    return 0.5 * (float(np.trace(ratio)) + quadratic - len(gap) - float(log_det))


def log_density(p: Normal, contexts: Array) -> Array:
    """Returns the log density up to its constant."""
    unit = np.sqrt(p.covariance.diagonal())
    C = p.covariance / np.outer(unit, unit)
    z = (contexts - p.mean) / unit
    quadratic = np.einsum("ij,ij->i", z, np.linalg.solve(C, z.T).T)
    log_det = np.linalg.slogdet(C)[1] + 2.0 * np.log(unit).sum()
    return np.asarray(-0.5 * (quadratic + log_det))


def weighted_value(new: Normal, old: Normal, contexts: Array, values: Array) -> float:
    """Returns mean[V p_new/p_old]."""
    return float(np.mean(values * np.exp(log_density(new, contexts) - log_density(old, contexts))))


@dataclass(frozen=True)
class SampleStatistics:
    """ū, ψ̄, ω and H of one batch as printed in `docs/curricula.md`, in the contexts' own units."""

    slack: float
    gap: Array
    P: Array
    u: Array
    psi: Array
    omega: Array
    H: Array

    @classmethod
    def of(
        cls,
        target: Normal,
        mean: Array,
        theta: Array,
        contexts: Array,
        values: Array,
        threshold: float,
    ) -> SampleStatistics:
        """Evaluates the definitions."""
        S = np.linalg.inv(target.covariance)
        M = target.covariance * S
        d = len(theta)
        x, r = target.mean - mean, contexts - mean
        left, right = theta**-1.5, theta**-0.5
        B = left[:, None] * S * right
        outer = 0.5 * ((r @ B.T) * r - 1.0 / theta)
        return cls(
            slack=float(values.mean()) - threshold,
            gap=x,
            P=right[:, None] * S * right,
            u=(values[:, None] * r).mean(axis=0),
            psi=(values[:, None] * outer).mean(axis=0),
            omega=0.5 * (1.0 / theta - left * (M @ right) - (B @ x) * x),
            H=0.5 * (np.eye(d) + M) / np.outer(theta, theta),
        )


def kappa(epsilon: float) -> float:
    """Returns κ(ε) = (−y − ln(1 − y))/(2ε) with y = 2√ε."""
    y = 2.0 * math.sqrt(epsilon)
    return (-y - math.log(1.0 - y)) / (2.0 * epsilon)


def spread_range(budget: float) -> tuple[float, float]:
    """Returns the variance ratios ρ with ½(ρ − 1 − ln ρ) ≤ budget."""

    def excess(t: float) -> float:
        return 0.5 * (math.expm1(t) - t) - budget

    return (
        math.exp(brentq(excess, -2.0 * budget - 2.0, 0.0)),
        math.exp(brentq(excess, 0.0, 2.0 * budget + 5.0)),
    )
