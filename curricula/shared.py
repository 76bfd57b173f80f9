"""SPGL with one trust region over mean and θ together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.family import ScaledFamily, WhitenedStatistics
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.registry import register
from pacebench.curricula.spgl import ScaledSelfPaced
from pacebench.curricula.steps import PARALLEL, Step, beside


@register("spgl-shared")
class SpglShared(ScaledSelfPaced):
    """SPGL with a single budget: the exact joint KL(p_new‖p) ≤ ε holds at every update.

    Where `spgl` gives each block a budget of its own, here ½‖δμ‖²_P + ¼‖δθ‖²_H ≤ ε binds both, and
    one value constraint a + ⟨ū, δμ⟩_P + ⟨ψ̄, δθ⟩ ≥ 0 too. The convergence step minimises
    ½‖x − δμ‖²_P + ⟨ω, δθ⟩, which leaves one scalar root; the step is then shortened to the length
    at which the exact KL is ε, and the value constraint survives because it holds at both ends.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        needs_gaussian=True,
        scaled_family=True,
        trust_region="joint",
        value_constraint="linear",
        optimal="joint-linear",
        converges_within=0.0,
        equivariant=True,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = 0.25

    def _step(self, stats: WhitenedStatistics, *, converge: bool) -> Step:
        return joint_step(self.family, self._distribution, stats, self.epsilon, converge=converge)


def joint_step(
    family: ScaledFamily,
    p: Gaussian,
    stats: WhitenedStatistics,
    epsilon: float,
    *,
    converge: bool,
) -> Step:
    """Returns the step of both blocks from `p` within one budget, exactly kept."""
    if not converge:
        return _shortened(family, joint_ascent(stats, epsilon), epsilon)
    gain = float(stats.mean_slope @ stats.mean_gap)
    gain += float(stats.theta_slope @ stats.theta_gap)
    if stats.slack + gain >= 0.0 and family.target.kl(p) <= epsilon:
        return Step(np.concatenate([stats.mean_gap, stats.theta_gap]), "free")
    return _shortened(family, joint_approach(stats, epsilon), epsilon)


def _shortened(family: ScaledFamily, step: Step, epsilon: float) -> Step:
    """Returns the step times the largest s ≤ 1 with exact KL ≤ ε."""
    d = family.target.dim
    mean_step, theta_step = step.delta[:d], step.delta[d:]
    relative = family.relative(theta_step)
    half = 0.5 * float(mean_step @ mean_step)

    def excess(s: float) -> float:
        return s * s * half + family.theta_kl(s * relative) - epsilon

    if excess(1.0) <= 0.0:
        return step
    s = float(brentq(excess, 0.0, 1.0, xtol=1e-13)) * (1.0 - 1e-12)
    return Step(s * step.delta, step.case)


def joint_ascent(stats: WhitenedStatistics, epsilon: float) -> Step:
    """Returns the step within the shared budget that raises the linearised value most."""
    u, psi = stats.mean_slope, stats.theta_slope
    total = 0.5 * float(u @ u) + float(psi @ psi)
    if total == 0.0:
        return Step(np.zeros(2 * len(u)), "stationary")
    scale = math.sqrt(epsilon / total)
    return Step(np.concatenate([scale * u, 2.0 * scale * psi]), "ascent")


def joint_approach(stats: WhitenedStatistics, epsilon: float) -> Step:
    """Minimises ½‖x − δμ‖² + ω·δθ subject to the shared budget and the joint value constraint.

    The multiplier λ of the budget is the one unknown: with h = 1/(1 + λ) and while the value
    constraint is slack, δμ = h x and δθ = −2ω/λ. Where that step loses more than the slack a, both
    constraints bind, and the components along the slopes follow from the value constraint alone.
    """
    x, pull, a = stats.mean_gap, stats.theta_pull, stats.slack
    distance2, strength2 = float(x @ x), float(pull @ pull)

    def spent(lam: float) -> float:
        h = 1.0 / (1.0 + lam)
        return 0.5 * h * h * distance2 + (strength2 / (lam * lam) if strength2 else 0.0)

    lam = _multiplier(spent, strength2 == 0.0, epsilon)
    mean, theta = x / (1.0 + lam), np.zeros_like(pull) if strength2 == 0.0 else pull * (-2.0 / lam)
    if a + float(stats.mean_slope @ mean) + float(stats.theta_slope @ theta) >= 0.0:
        case = "kl" if lam > 0.0 else "interior"
        if not strength2 and not distance2:
            case = "stationary"
        return Step(np.concatenate([mean, theta]), case)
    return _both(stats, epsilon)


def _both(stats: WhitenedStatistics, epsilon: float) -> Step:
    """Returns the step of `joint_approach` where the value constraint binds.

    Its multiplier λ₁ is eliminated. With u, w the unit slopes and D = 2N + nλh, the components
    along them are [2(bN + cn) − nλa]h/(D√n) and −2[(cn + bN)h + Na]/(D√N); orthogonal to them, x
    gets the factor h and ω the factor −2/λ. In this form no term is a difference of nearly equal
    ones as λ → 0.
    """
    x, pull, a = stats.mean_gap, stats.theta_pull, stats.slack
    u, root_n = _unit(stats.mean_slope)
    w, root_N = _unit(stats.theta_slope)
    along_x, along_pull = float(u @ x), float(w @ pull)
    n, N, b, c = root_n**2, root_N**2, along_x * root_n, along_pull * root_N
    across_x, across_pull = beside(x, u), beside(pull, w)
    rest_x2, rest2 = float(across_x @ across_x), float(across_pull @ across_pull)
    if rest2 <= (PARALLEL**2) * float(pull @ pull):
        rest2 = 0.0
    cross = b * N + c * n

    def components(lam: float) -> tuple[float, float, float]:
        h = 1.0 / (1.0 + lam)
        D = 2.0 * N + n * lam * h
        mean_along = (2.0 * cross - n * lam * a) * h / (D * root_n) if n else along_x * h
        theta_along = -2.0 * (cross * h + N * a) / (D * root_N) if N else 0.0
        return h, mean_along, theta_along

    def spent(lam: float) -> float:
        h, mean_along, theta_along = components(lam)
        used = 0.5 * (h * h * rest_x2 + mean_along**2) + 0.25 * theta_along**2
        return used + (rest2 / (lam * lam) if rest2 else 0.0)

    # At λ = 0 the denominator D vanishes if N = 0, so that λ = 0 is tried only for N > 0.
    lam = _multiplier(spent, rest2 == 0.0 and N > 0.0, epsilon)
    h, mean_along, theta_along = components(lam)
    theta = theta_along * w
    if rest2:
        theta = theta - across_pull * (2.0 / lam)
    delta = np.concatenate([h * across_x + mean_along * u, theta])
    return Step(delta, "both" if lam > 0.0 else "value")


def _multiplier(spent: Callable[[float], float], finite_at_zero: bool, epsilon: float) -> float:
    """Returns λ ≥ 0 at which the decreasing `spent` equals ε, or 0 where it never exceeds it."""
    if finite_at_zero and spent(0.0) <= epsilon:
        return 0.0
    low = high = 0.0
    while spent(math.exp(low)) < epsilon and low > -120.0:
        low -= 4.0
    while spent(math.exp(high)) > epsilon and high < 120.0:
        high += 4.0
    if low <= -120.0 or high >= 120.0:
        return math.exp(low if low <= -120.0 else high)
    root = brentq(lambda t: spent(math.exp(t)) - epsilon, low, high, xtol=1e-13, rtol=1e-13)
    return math.exp(float(root))


def _unit(slope: Array) -> tuple[Array, float]:
    norm = math.sqrt(float(slope @ slope))
    return (slope / norm, norm) if norm else (np.zeros_like(slope), 0.0)
