"""SPGL with one trust region over mean and spread together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq

from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.family import Statistics
from pacebench.curricula.gaussian import Array
from pacebench.curricula.registry import register
from pacebench.curricula.spgl import Move, ScaledSelfPaced
from pacebench.curricula.steps import PARALLEL, beside


class JointStep(NamedTuple):
    """A whitened step of both blocks and its case, as in `curricula.steps.Step`."""

    mean: Array
    theta: Array
    case: str


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
        scaled_family=True,
        trust_region="joint",
        value_constraint="linear",
        optimal="joint-linear",
        converges_within=0.0,
        equivariant=True,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = 0.25

    def _move(self, stats: Statistics, theta: Array, *, converge: bool) -> Move:
        if not converge:
            step = joint_ascent(stats.mean_slope, stats.theta_slope, self.epsilon)
        else:
            if self._target_is_free(stats):
                return Move(stats.mean_gap, stats.theta_gap, "free", (True, True))
            step = joint_approach(stats, self.epsilon)
        mean, spread = self._shorten(step)
        return Move(mean, spread, step.case, (False, False))

    def _target_is_free(self, stats: Statistics) -> bool:
        gain = float(stats.mean_slope @ stats.mean_gap)
        gain += float(stats.theta_slope @ stats.theta_gap)
        return stats.slack + gain >= 0.0 and self.target.kl(self._gaussian()) <= self.epsilon

    def _shorten(self, step: JointStep) -> tuple[Array, Array]:
        """Returns the step times the largest s ≤ 1 with exact KL ≤ ε."""
        relative = self.family.relative(step.theta)
        half = 0.5 * float(step.mean @ step.mean)

        def excess(s: float) -> float:
            return s * s * half + self.family.theta_kl(s * relative) - self.epsilon

        if excess(1.0) <= 0.0:
            return step.mean, step.theta
        s = float(brentq(excess, 0.0, 1.0, xtol=1e-13)) * (1.0 - 1e-12)
        return s * step.mean, s * step.theta


def joint_ascent(mean_slope: Array, theta_slope: Array, epsilon: float) -> JointStep:
    """The step within the shared budget that raises the linearised value most."""
    total = 0.5 * float(mean_slope @ mean_slope) + float(theta_slope @ theta_slope)
    if total == 0.0:
        return JointStep(np.zeros_like(mean_slope), np.zeros_like(theta_slope), "stationary")
    scale = math.sqrt(epsilon / total)
    return JointStep(scale * mean_slope, 2.0 * scale * theta_slope, "ascent")


def joint_approach(stats: Statistics, epsilon: float) -> JointStep:
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
        if not strength2 and not distance2:
            return JointStep(mean, theta, "stationary")
        return JointStep(mean, theta, "kl" if lam > 0.0 else "interior")
    return _both(stats, epsilon)


def _both(stats: Statistics, epsilon: float) -> JointStep:
    """The same where the value constraint binds: solves for λ with λ₁ eliminated.

    With u, w the unit slopes and D = 2N + nλh, the components along them are
    [2(bN + cn) − nλa]h/(D√n) and −2[(cn + bN)h + Na]/(D√N); across, x keeps the factor h and ω
    gets −2/λ. Written so, no term is a difference of nearly equal ones as λ → 0.
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

    # With N = 0 and λ = 0 the denominator D vanishes, but then the value constraint is the mean's.
    lam = _multiplier(spent, rest2 == 0.0 and N > 0.0, epsilon)
    h, mean_along, theta_along = components(lam)
    theta = theta_along * w
    if rest2:
        theta = theta - across_pull * (2.0 / lam)
    return JointStep(h * across_x + mean_along * u, theta, "both" if lam > 0.0 else "value")


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
