"""SPGL for targets with several modes: one scaled Gaussian for each component of the target."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np

from pacebench.curricula.base import Common, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import Distribution, Mixture, fitted_gaussian
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.family import ScaledFamily, WhitenedStatistics
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.registry import register
from pacebench.curricula.selfpaced import SelfPaced
from pacebench.curricula.shared import joint_step
from pacebench.curricula.spgl import Spgl, mean_step, theta_step
from pacebench.curricula.steps import Step, side_by_side


@register("spgl-mixture")
class SpglMixture(SelfPaced):
    """SPGL towards a mixture ψ = Σ πₖ N(μ̃ₖ, Σ̃ₖ), with the same fixed weights in p (ours).

    p = Σ πₖ N(μₖ, Θₖ^½ Σ̃ₖ Θₖ^½). Each component takes SPGL's step from its own statistics, in which
    every episode counts with the weight rₖ/πₖ of its responsibility rₖ(c) = πₖ Nₖ(c)/p(c):

        V̄ₖ = mean Vrₖ/πₖ    ūₖ = mean Vrₖ/πₖ (c − μₖ)    ψ̄ₖ likewise

    so that no episode needs a label, and V̄ = Σ πₖ V̄ₖ. In a convergence step the slack a = V̄ − V₋
    is shared in proportion to what each component has above V₋: aₖ ∝ max(0, V̄ₖ − V₋) with
    Σ πₖ aₖ = a, so that the linearised value of the whole stays at or above V₋. KL is convex, so
    KL(p_new‖p) ≤ Σ πₖ KL(Nₖ,new‖Nₖ) ≤ (1 + κ(ε))ε. With one component this is `spgl`, bit for bit.

    Reference: the future work named by Sahraei Ardakani and Song; `docs/curricula.md`.

    Args:
        shared: Use the joint trust region of `spgl-shared` in each component, which keeps
            KL(p_new‖p) ≤ ε exactly.

    Attributes:
        families: The scaled family around each component of the target.
        thetas: The current θ of each component.
    """

    # On a target of one component every promise of `spgl` holds, and is tested there.
    capabilities: ClassVar[Capabilities] = replace(Spgl.capabilities, needs_gaussian=False)
    requires_epsilon_below: ClassVar[float | None] = 0.25

    target: Mixture  # type: ignore[assignment]
    initial: Any
    _distribution: Mixture  # type: ignore[assignment]

    def __init__(
        self, *, shared: bool = False, on_shortfall: str = "recover", **common: Unpack[Common]
    ) -> None:
        super().__init__(on_shortfall=on_shortfall, **common)
        self.shared = bool(shared)
        self.families = [ScaledFamily(component) for component in self.target.components]
        starts = self.initial.components if isinstance(self.initial, Mixture) else (self.initial,)
        if len(starts) not in (1, len(self.families)):
            raise CurriculumError(
                f"the target has {len(self.families)} components and the initial mixture "
                f"{len(starts)}; give as many, or one Gaussian that all of them start from."
            )
        starts = starts * len(self.families) if len(starts) == 1 else starts
        placed = zip(self.families, starts, strict=True)
        self.thetas = [family.theta_of(start) for family, start in placed]
        self._distribution = self._at([start.mean for start in starts], self.thetas)

    def _suited(self, given: Distribution, what: str, fit: str | None) -> Distribution:
        given = self._checked_distribution(given, what)
        if what == "target" and isinstance(given, Gaussian):
            return Mixture([given])
        if isinstance(given, Gaussian | Mixture):
            return given
        if fit == "gaussian":
            return Mixture([fitted_gaussian(given)])
        raise CurriculumError(
            f"{self._label} needs a Gaussian or a Mixture as its {what}, not a "
            f"{type(given).__name__}; fit='gaussian' takes the Gaussian with the same mean and "
            "covariance."
        )

    @property
    def theta(self) -> Array | None:
        """The θ of the only component, None where there are several."""
        return self.thetas[0] if len(self.thetas) == 1 else None

    def _at(self, means: list[Array], thetas: list[Array]) -> Mixture:
        for theta in thetas:
            theta.setflags(write=False)
        members = zip(self.families, means, thetas, strict=True)
        return self.target.moved([f.at(mean, theta) for f, mean, theta in members])

    def _solve(self, step: str, contexts: Array, values: Array, mean_value: float) -> Proposal:
        p, converge = self._distribution, step == "convergence"
        weighted = values * self._relative_responsibilities(contexts)
        slacks = self._shares(weighted, mean_value - self.threshold, converge=converge)
        news: list[Gaussian] = []
        thetas, cases, predicted = [], [], mean_value
        for k, family in enumerate(self.families):
            old, theta = p.components[k], self.thetas[k]
            stats = family.statistics(old, theta, contexts, weighted[k], slacks[k])
            found = self._step(family, old, stats, converge=converge)
            moved = family.moved(old, theta, found)
            if moved is None:
                return self._stay(step, "limit", accepted=False)
            new, new_theta, relative = moved
            news.append(new)
            thetas.append(new_theta)
            cases.append(found.case)
            predicted += float(p.weights[k]) * (stats.unit * stats.gain(found))
        proposal = Proposal(step, " + ".join(cases), p.moved(news), {"thetas": thetas}, predicted)
        if len(news) == 1:
            proposal.log_weights = partial(
                self.families[0].log_weights, contexts, p.components[0], news[0], relative
            )
        return proposal

    def _step(
        self, family: ScaledFamily, p: Gaussian, stats: WhitenedStatistics, *, converge: bool
    ) -> Step:
        if self.shared:
            return joint_step(family, p, stats, self.epsilon, converge=converge)
        return side_by_side(
            mean_step(stats, self.epsilon, converge=converge),
            theta_step(stats, self.epsilon, converge=converge),
        )

    def _relative_responsibilities(self, contexts: Array) -> Array:
        """Returns rₖ/πₖ = Nₖ(c)/p(c) of each component at each context, (components, K)."""
        if len(self.families) == 1:
            return np.ones((1, len(contexts)))
        parts = self._distribution.log_parts(contexts)
        logs = parts - np.logaddexp.reduce(parts, axis=0)
        return np.asarray(np.exp(logs) / self._distribution.weights[:, None])

    def _shares(self, weighted: Array, slack: float, *, converge: bool) -> Array:
        """Returns each component's share of the slack; a performance step needs none."""
        if not converge:
            return np.full(len(weighted), slack)
        means = np.array([float(row.sum()) / len(row) for row in weighted])
        surplus = np.maximum(0.0, means - self.threshold)
        total = float(self._distribution.weights @ surplus)
        return surplus * (slack / total) if total > 0.0 else np.zeros(len(weighted))

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "means": [component.mean.tolist() for component in self._distribution.components],
            "thetas": [theta.tolist() for theta in self.thetas],
        }

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        means, thetas = (np.array(state[key], dtype=np.float64) for key in ("means", "thetas"))
        shape = (len(self.families), self.dim)
        good = means.shape == thetas.shape == shape and bool((thetas > 0).all())
        if not (good and math.isfinite(float(means.sum() + thetas.sum()))):
            raise CurriculumError(
                f"the saved means and thetas must be {shape[0]} × {shape[1]} numbers, theta "
                "positive."
            )
        placed = list(thetas)
        p = self._at(list(means), placed)
        return {**super()._load_state(state), "_distribution": p, "thetas": placed}
