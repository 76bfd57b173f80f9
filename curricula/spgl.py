"""Self-paced Gaussian curriculum learning: the closed form, and the frame of its ablations."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from pacebench.curricula import steps
from pacebench.curricula.base import Common, Proposal, effective_samples
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.family import THETA_LIMITS, ScaledFamily, Statistics
from pacebench.curricula.gaussian import Array, Gaussian, as_vector
from pacebench.curricula.registry import register
from pacebench.curricula.selfpaced import SelfPaced


class Move(NamedTuple):
    """A step of the scaled family, whitened, before it is applied.

    Attributes:
        mean_step: Whitened δμ.
        theta_step: Whitened δθ.
        case: The case taken, `mean/theta` for steps in blocks.
        lands: Whether the mean and whether θ land on the target exactly.
        iterations: Of a numerical solver.
        accepted: False where a solver failed and the step is zero for that reason.
        predicted: The predicted value where the linear model is not the one used.
    """

    mean_step: Array
    theta_step: Array
    case: str
    lands: tuple[bool, bool]
    iterations: int = 0
    accepted: bool = True
    predicted: float | None = None


class ScaledSelfPaced(SelfPaced):
    """Self-paced curricula over p = N(μ, Θ^½ Σ̃ Θ^½); a subclass decides the move.

    Attributes:
        family: The distributions to choose from.
        theta: The current θ.
    """

    def __init__(self, *, on_shortfall: str = "recover", **common: Unpack[Common]) -> None:
        super().__init__(on_shortfall=on_shortfall, **common)
        self.family = ScaledFamily(self.target)
        self.theta: Array = self.family.theta_of(self.initial)
        self._place(self.initial.mean, self.theta)

    def _move(self, stats: Statistics, theta: Array, *, converge: bool) -> Move:
        """Returns the step that the statistics of the current iterate call for."""
        raise NotImplementedError

    def _step(
        self, contexts: Array, values: Array, mean_value: float, slack: float, *, converge: bool
    ) -> Proposal:
        p, theta = self._gaussian(), self.theta
        stats = self.family.statistics(p, theta, contexts, values, slack)
        move = self._move(stats, theta, converge=converge)
        step = "convergence" if converge else "performance"
        if not move.accepted:
            return self._stay(step, move.case, mean_value, move.iterations, accepted=False)
        relative = self.family.relative(move.theta_step)
        new_theta = self.family.ones if move.lands[1] else theta * (1.0 + relative)
        mean = self.target.mean if move.lands[0] else p.mean + p.unwhiten(move.mean_step)
        low, high = THETA_LIMITS
        smallest, largest = float(new_theta.min()), float(new_theta.max())
        if not (low < smallest and largest < high and math.isfinite(float(mean.sum()))):
            return self._stay(step, "limit", mean_value, move.iterations, accepted=False)
        predicted = move.predicted
        if predicted is None:
            linear = float(stats.mean_slope @ move.mean_step)
            linear += float(stats.theta_slope @ move.theta_step)
            predicted = mean_value + stats.unit * linear
        return Proposal(
            step,
            move.case,
            self.family.at(mean, new_theta),
            new_theta,
            predicted,
            move.iterations,
            relative=relative,
        )

    def _effective_samples(self, contexts: Array, old: Any, proposal: Proposal) -> float:
        new, relative = proposal.distribution, proposal.relative
        assert isinstance(new, Gaussian)
        assert relative is not None
        return effective_samples(self.family.log_weights(contexts, old, new, relative))

    def _gaussian(self) -> Gaussian:
        assert isinstance(self._distribution, Gaussian)
        return self._distribution

    def _place(self, mean: Array, theta: Array) -> None:
        self.theta = theta
        self.theta.setflags(write=False)
        self._distribution = self.family.at(mean, theta)

    def _commit(self, proposal: Proposal, slack: float | None) -> None:
        super()._commit(proposal, slack)
        if proposal.theta is not None:
            self.theta = proposal.theta
            self.theta.setflags(write=False)

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        return {**state, "mean": self._gaussian().mean.tolist(), "theta": self.theta.tolist()}

    def _load_state(self, state: dict[str, Any]) -> None:
        mean = as_vector(state["mean"], "saved mean")
        theta = as_vector(state["theta"], "saved theta")
        if len(mean) != self.dim or len(theta) != self.dim or not (theta > 0).all():
            raise CurriculumError(
                f"the saved mean and theta must be {self.dim} numbers, theta positive."
            )
        super()._load_state(state)
        self._place(mean, theta)


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
        scaled_family=True,
        trust_region="block",
        value_constraint="linear-block",
        optimal="block-linear",
        converges_within=0.0,
        equivariant=True,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = 0.25

    def _move(self, stats: Statistics, theta: Array, *, converge: bool) -> Move:
        mean = self._mean_step(stats, self.epsilon, converge=converge)
        spread = self._theta_step(stats, theta, self.epsilon, converge=converge)
        return Move(
            mean.delta,
            spread.delta,
            f"{mean.case}/{spread.case}",
            (mean.case == "free", spread.case == "free"),
            mean.iterations + spread.iterations,
            mean.accepted and spread.accepted,
        )

    def _mean_step(self, stats: Statistics, epsilon: float, *, converge: bool) -> steps.Step:
        if not converge:
            return steps.ascent(stats.mean_slope, math.sqrt(2.0 * epsilon))
        return steps.approach(stats.slack, stats.mean_slope, stats.mean_gap, epsilon)

    def _theta_step(
        self, stats: Statistics, theta: Array, epsilon: float, *, converge: bool
    ) -> steps.Step:
        if not converge:
            return steps.ascent(stats.theta_slope, 2.0 * math.sqrt(epsilon))
        return steps.descend(
            stats.slack, stats.theta_slope, stats.theta_pull, stats.theta_gap, epsilon
        )


def taylor_bound(epsilon: float) -> float:
    """Returns κ(ε), the largest exact KL(p_new‖p) of one θ-step in units of its budget ε.

    The bound is attained by a one-dimensional step that shrinks the variance; see
    `docs/curricula.md`.
    """
    if not 0.0 < epsilon < 0.25:
        raise CurriculumError(f"κ(ε) is finite for 0 < ε < ¼ only, not {epsilon!r}.")
    y = 2.0 * math.sqrt(epsilon)
    return (-y - float(np.log1p(-y))) / (2.0 * epsilon)
