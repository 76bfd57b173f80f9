"""Self-paced Gaussian curriculum learning (SPGL): the closed form, and what its variants share."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np

from pacebench.curricula import steps
from pacebench.curricula.base import Common, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_vector
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.family import ScaledFamily, WhitenedStatistics
from pacebench.curricula.registry import register
from pacebench.curricula.selfpaced import SelfPaced
from pacebench.curricula.steps import Step


class ScaledSelfPaced(SelfPaced):
    """Self-paced curricula over the scaled family p = N(μ, Θ^½ Σ̃ Θ^½); a subclass chooses the step.

    Attributes:
        family: The scaled family around the target.
        theta: The current θ.
    """

    def __init__(self, *, on_shortfall: str = "recover", **common: Unpack[Common]) -> None:
        super().__init__(on_shortfall=on_shortfall, **common)
        self.family = ScaledFamily(self.target)
        self.theta = self.family.theta_of(self.initial)
        self.theta.setflags(write=False)
        self._distribution = self.family.at(self.initial.mean, self.theta)

    @abstractmethod
    def _step(self, stats: WhitenedStatistics, *, converge: bool) -> Step:
        """Returns the whitened step of mean and θ, to converge or to perform."""

    def _solve(self, step: str, contexts: Array, values: Array, mean_value: float) -> Proposal:
        p, family = self._distribution, self.family
        slack = mean_value - self.threshold
        stats = family.statistics(p, self.theta, contexts, values, slack)
        found = self._step(stats, converge=step == "convergence")
        if not found.accepted:
            return self._stay(step, found.case, found.iterations, accepted=False)
        moved = family.moved(p, self.theta, found)
        if moved is None:
            return self._stay(step, "limit", found.iterations, accepted=False)
        new, theta, relative = moved
        predicted = found.predicted_value
        if predicted is None:
            predicted = mean_value + stats.unit * stats.gain(found)
        return Proposal(
            step,
            found.case,
            new,
            {"theta": theta},
            predicted,
            found.iterations,
            log_weights=partial(family.log_weights, contexts, p, new, relative),
        )

    def _state(self) -> dict[str, Any]:
        parameters = {"mean": self._distribution.mean.tolist(), "theta": self.theta.tolist()}
        return {**super()._state(), **parameters}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        mean = as_vector(state["mean"], "saved mean")
        theta = as_vector(state["theta"], "saved theta")
        if len(mean) != self.dim or len(theta) != self.dim or not (theta > 0).all():
            raise CurriculumError(
                f"the saved mean and theta must be {self.dim} numbers, theta positive."
            )
        theta.setflags(write=False)
        p = self.family.at(mean, theta)
        return {**super()._load_state(state), "_distribution": p, "theta": theta}


@register("spgl")
class Spgl(ScaledSelfPaced):
    """Self-paced Gaussian curriculum learning (Sahraei Ardakani and Song), in closed form.

    Lemma 1, the performance step where V̄ < V₋: maximise the linearised value over μ subject to
    ½‖δμ‖²_P ≤ ε, and over θ subject to ¼‖δθ‖²_H ≤ ε. Lemma 2, the convergence step where V̄ ≥ V₋:
    minimise ½‖μ̃ − μ'‖²_P and ⟨ω, δθ⟩ subject to the same budgets and to a + ⟨ū, δμ⟩_P ≥ 0 and
    a + ⟨ψ̄, δθ⟩ ≥ 0. Each block has a budget ε of its own, as published, so that the joint step can
    spend up to (1 + κ(ε))ε; `docs/curricula.md` derives this and lists where the published formulas
    were corrected.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        needs_gaussian=True,
        scaled_family=True,
        trust_region="block",
        value_constraint="linear-block",
        optimal="block-linear",
        converges_within=0.0,
        equivariant=True,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = 0.25

    def _step(self, stats: WhitenedStatistics, *, converge: bool) -> Step:
        return steps.side_by_side(
            self._mean_step(stats, self.epsilon, converge=converge),
            self._theta_step(stats, self.epsilon, converge=converge),
        )

    def _mean_step(self, stats: WhitenedStatistics, epsilon: float, *, converge: bool) -> Step:
        return mean_step(stats, epsilon, converge=converge)

    def _theta_step(self, stats: WhitenedStatistics, epsilon: float, *, converge: bool) -> Step:
        return theta_step(stats, epsilon, converge=converge)


def mean_step(stats: WhitenedStatistics, epsilon: float, *, converge: bool) -> Step:
    """Returns the step of the mean: Lemma 2 to converge, Lemma 1 to perform."""
    if not converge:
        return steps.ascent(stats.mean_slope, math.sqrt(2.0 * epsilon))
    return steps.approach(stats.slack, stats.mean_slope, stats.mean_gap, epsilon)


def theta_step(stats: WhitenedStatistics, epsilon: float, *, converge: bool) -> Step:
    """Returns the step of θ: Lemma 2 to converge, Lemma 1 to perform."""
    if not converge:
        return steps.ascent(stats.theta_slope, 2.0 * math.sqrt(epsilon))
    return steps.descend(stats.slack, stats.theta_slope, stats.theta_pull, stats.theta_gap, epsilon)


def taylor_bound(epsilon: float) -> float:
    """Returns κ(ε), the largest exact KL(p_new‖p) of one θ-step in units of its budget ε.

    The bound is attained by a one-dimensional step that shrinks the variance; see
    `docs/curricula.md`.
    """
    if not 0.0 < epsilon < 0.25:
        raise CurriculumError(f"κ(ε) is finite for 0 < ε < ¼ only, not {epsilon!r}.")
    y = 2.0 * math.sqrt(epsilon)
    return (-y - float(np.log1p(-y))) / (2.0 * epsilon)
