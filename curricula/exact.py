"""The ablations of SPGL, each of which removes one more of its approximations.

spgl            two blocks, everything to first order, KL to second
spgl-exact-kl   … but the KL of the θ-block exact          (overrides `_theta_step`)
spgl-exact      … and value and objective exact            (overrides `_step`)
spgl-joint      … and one block instead of two             (overrides `blocks`)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from pacebench.curricula import sqp
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.family import WhitenedStatistics
from pacebench.curricula.registry import register
from pacebench.curricula.scaled_problem import ScaledProblem
from pacebench.curricula.spgl import Spgl
from pacebench.curricula.sqp import Smooth
from pacebench.curricula.steps import Step

# The solver starts from the closed form, which needs ε < ¼: a larger budget starts from this one's.
_LARGEST_GUESS = 0.2

# The case of a solution, by whether the KL budget binds and, in a convergence step, the value.
_CASES = {
    (True,): "ascent",
    (False,): "interior",
    (True, True): "both",
    (True, False): "kl",
    (False, True): "value",
    (False, False): "interior",
}


@register("spgl-exact-kl")
class SpglExactKl(Spgl):
    """Ablation: `spgl` with the θ-block's exact KL in place of its Taylor polynomial ¼‖δθ‖²_H.

    Objective and value stay linear in θ, and the mean block is that of `spgl`, whose KL is exact
    already. The θ-block is solved numerically in ln θ, where it stays positive for every ε.
    """

    capabilities: ClassVar[Capabilities] = replace(
        Spgl.capabilities,
        trust_region="block-exact",
        optimal="block-exact-kl",
        solver_tolerance=1e-4,
    )
    requires_epsilon_below: ClassVar[float | None] = None

    def _theta_step(self, stats: WhitenedStatistics, epsilon: float, *, converge: bool) -> Step:
        closed_form = super()._theta_step(stats, min(epsilon, _LARGEST_GUESS), converge=converge)
        if closed_form.case == "stationary":
            return closed_form
        problem = ScaledProblem(self.family, self._distribution, self.theta, stats)
        theta, a = problem.blocks["theta"], stats.slack
        trust = problem.within(theta, problem.trust, -1.0 / epsilon, 1.0)
        constraints = [trust]
        if converge:
            gain = a + float(stats.theta_slope @ stats.theta_gap)
            if gain >= 0.0 and trust(-np.log(self.theta))[0] >= 0.0:
                return Step(stats.theta_gap, "free")
            objective = problem.within(theta, problem.linear(stats.theta_pull))
            scale = _value_scale(a, stats.theta_slope, epsilon)
            value = problem.linear(stats.theta_slope)
            constraints.append(problem.within(theta, value, 1.0 / scale, a / scale))
        else:
            objective = problem.within(theta, problem.linear(stats.theta_slope), -1.0)
        guess = problem.log_step(closed_form.delta)
        found = _minimise(objective, constraints, guess, epsilon)
        return found._replace(delta=problem.relative_step(found.delta))


@register("spgl-exact")
class SpglExact(Spgl):
    """Ablation without Taylor: exact importance-weighted value, exact KL, exact objective.

    Each block, moved alone, minimises KL(ψ‖p_new) subject to mean[V p_new/p] ≥ V₋ and
    KL(p_new‖p) ≤ ε, or maximises that weighted value subject to the budget, by sequential quadratic
    programming from the closed form's step. A result that no part of is feasible, or that is worse
    than staying, is refused and counted.
    """

    capabilities: ClassVar[Capabilities] = replace(
        SpglExactKl.capabilities,
        value_constraint="weighted-block",
        optimal="block-exact",
        converges_within=1e-3,
        solver_tolerance=1e-3,
    )
    requires_epsilon_below: ClassVar[float | None] = None
    blocks: ClassVar[tuple[str, ...]] = ("mean", "theta")

    def _step(self, stats: WhitenedStatistics, *, converge: bool) -> Step:
        problem, d = ScaledProblem(self.family, self._distribution, self.theta, stats), self.dim
        parts = [self._block_step(problem, block, converge=converge) for block in self.blocks]
        z = np.concatenate([part.delta for part in parts])
        step = Step(
            z,
            "/".join(part.case for part in parts),
            sum(part.iterations for part in parts),
            all(part.accepted for part in parts),
            (stats.slack + problem.gain(z)[0]) * stats.unit + self.threshold,
        )
        theta_step = stats.theta_gap if step.lands[1] else problem.relative_step(z[d:])
        return step._replace(delta=np.concatenate([z[:d], theta_step]))

    def _block_step(self, problem: ScaledProblem, name: str, *, converge: bool) -> Step:
        """Returns the step of one block of z = (m, ζ), in these coordinates."""
        stats, block = problem.stats, problem.blocks[name]
        constraints = [problem.within(block, problem.trust, -1.0 / self.epsilon, 1.0)]
        if converge:
            landing = np.concatenate([stats.mean_gap, -np.log(self.theta)])[block]
            # While the mean is away, the best spread is wider than the target's.
            wanted = name != "theta" or not stats.mean_gap.any()
            if wanted and self._may_land(problem, landing, block):
                return Step(landing, "free")
            objective = problem.within(block, problem.distance)
            slopes = np.concatenate([stats.mean_slope, stats.theta_slope])
            scale = _value_scale(stats.slack, slopes, self.epsilon)
            value = problem.within(block, problem.gain, 1.0 / scale, stats.slack / scale)
            constraints.append(value)
        else:
            objective = problem.within(block, problem.gain, -1.0)
        # One block has the whole budget; both in one problem share it.
        epsilon = min(self.epsilon, _LARGEST_GUESS) * len(self.blocks) / 2
        mean = self._mean_step(stats, epsilon, converge=converge).delta
        theta = self._theta_step(stats, epsilon, converge=converge).delta
        guess = np.concatenate([mean, problem.log_step(theta)])[block]
        return _minimise(objective, constraints, guess, self.epsilon)

    def _may_land(self, problem: ScaledProblem, landing: Array, block: slice) -> bool:
        """Returns whether landing a block on the target keeps both constraints."""
        kl = problem.within(block, problem.trust)(landing)[0]
        gain = problem.within(block, problem.gain)(landing)[0]
        return kl <= self.epsilon and problem.stats.slack + gain >= 0.0


@register("spgl-joint")
class SpglJoint(SpglExact):
    """Ablation without Taylor and without blocks: (μ, θ) jointly, exact everything.

    Minimises KL(ψ‖p_new) over μ and θ together subject to mean[V p_new/p] ≥ V₋ and
    KL(p_new‖p) ≤ ε, or maximises that weighted value subject to the budget: `spgl-exact` with one
    block in place of two.
    """

    capabilities: ClassVar[Capabilities] = replace(
        SpglExact.capabilities,
        trust_region="joint",
        value_constraint="weighted",
        optimal="joint-exact",
    )
    blocks: ClassVar[tuple[str, ...]] = ("both",)


def _minimise(objective: Smooth, constraints: list[Smooth], guess: Array, epsilon: float) -> Step:
    """Solves one block and names the constraints that bind; the KL budget is the first of them."""
    found = sqp.solve(objective, constraints, guess, radius=math.sqrt(2.0 * epsilon))
    if not found.accepted:
        return found
    binding = tuple(constraint(found.delta)[0] <= 1e-5 for constraint in constraints)
    return found._replace(case=_CASES[binding])


def _value_scale(slack: float, slope: Array, epsilon: float) -> float:
    """Returns the size of the value constraint: the slack, or how much a step may change it."""
    change = math.sqrt(float(slope @ slope)) * 2.0 * math.sqrt(epsilon)
    return max(slack, change) or 1.0
