"""The ablations of SPGL that take one approximation back at a time.

spgl            two blocks, everything to first order, KL to second
spgl-exact-kl   … but the KL of the θ-block exact          (overrides `_theta_step`)
spgl-exact      … and value and objective exact            (overrides `_move`)
spgl-joint      … and one block instead of two             (overrides `blocks`)
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from pacebench.curricula import sqp
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.family import Statistics
from pacebench.curricula.gaussian import Array
from pacebench.curricula.registry import register
from pacebench.curricula.scaled_problem import ScaledProblem, restricted, split
from pacebench.curricula.spgl import Move, Spgl
from pacebench.curricula.sqp import Smooth, Solution
from pacebench.curricula.steps import Step

# The closed form that the solver starts from needs ε < ¼; a larger budget starts from this one's.
_GUESS = 0.2


@register("spgl-exact-kl")
class SpglExactKl(Spgl):
    """Ablation: `spgl` with the θ-block's exact KL in place of its Taylor polynomial ¼‖δθ‖²_H.

    Objective and value stay linear in θ, and the mean block is that of `spgl`, whose KL is exact
    already. The θ-block is solved numerically in ln θ, where it stays positive for every ε.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        scaled_family=True,
        trust_region="block-exact",
        value_constraint="linear-block",
        optimal="block-exact-kl",
        converges_within=0.0,
        equivariant=True,
        solver_tolerance=1e-4,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = None

    def _theta_step(
        self, stats: Statistics, theta: Array, epsilon: float, *, converge: bool
    ) -> Step:
        closed_form = super()._theta_step(stats, theta, min(epsilon, _GUESS), converge=converge)
        if closed_form.case == "stationary":
            return closed_form
        problem = ScaledProblem(self.family, self._gaussian(), theta, stats)
        block, d, a = ("theta",), self.dim, stats.slack
        trust = restricted(problem.trust, block, d, -1.0 / epsilon, 1.0)
        constraints = [trust]
        if converge:
            gain = a + float(stats.theta_slope @ stats.theta_gap)
            if gain >= 0.0 and trust(-np.log(theta))[0] >= 0.0:
                return Step(stats.theta_gap, "free")
            objective = restricted(problem.linear(stats.theta_pull), block, d)
            scale = _size(a, stats.theta_slope, epsilon)
            slope = problem.linear(stats.theta_slope)
            constraints.append(restricted(slope, block, d, 1.0 / scale, a / scale))
        else:
            objective = restricted(problem.linear(stats.theta_slope), block, d, -1.0)
        guess = problem.log_step(closed_form.delta)
        solution = sqp.solve(objective, constraints, guess, radius=_radius(epsilon))
        case = _case(constraints, solution)
        delta = problem.relative_step(solution.x)
        return Step(delta, case, solution.iterations, solution.accepted)


@register("spgl-exact")
class SpglExact(Spgl):
    """Ablation without Taylor: exact importance-weighted value, exact KL, exact objective.

    Each block, moved alone, minimises KL(ψ‖p_new) subject to mean[V p_new/p] ≥ V₋ and
    KL(p_new‖p) ≤ ε, or maximises that weighted value subject to the budget, by sequential quadratic
    programming from the closed form's step. A result that no part of is feasible, or that is worse
    than staying, is refused and counted.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        scaled_family=True,
        trust_region="block-exact",
        value_constraint="weighted-block",
        optimal="block-exact",
        converges_within=1e-3,
        equivariant=True,
        solver_tolerance=1e-3,
        raises_value=True,
    )
    requires_epsilon_below: ClassVar[float | None] = None
    blocks: ClassVar[tuple[tuple[str, ...], ...]] = (("mean",), ("theta",))

    def _move(self, stats: Statistics, theta: Array, *, converge: bool) -> Move:
        problem = ScaledProblem(self.family, self._gaussian(), theta, stats)
        m, zeta = np.zeros(self.dim), np.zeros(self.dim)
        cases, lands, iterations, accepted = [], set[str](), 0, True
        for blocks in self.blocks:
            if converge and self._target_is_free(problem, theta, blocks):
                lands.update(blocks)
                cases.append("free")
                continue
            constraints, solution = self._solve(problem, blocks, converge=converge)
            part_m, part_zeta = split(solution.x, blocks, self.dim)
            m, zeta = m + part_m, zeta + part_zeta
            cases.append(_case(constraints, solution))
            iterations += solution.iterations
            accepted = accepted and solution.accepted
        if "mean" in lands:
            m = stats.mean_gap
        if "theta" in lands:
            zeta = -np.log(theta)
        change = (stats.slack + problem.gain(m, zeta)[0]) * stats.unit
        predicted = change + (self.threshold or 0.0)
        where = ("mean" in lands, "theta" in lands)
        spread = stats.theta_gap if where[1] else problem.relative_step(zeta)
        return Move(m, spread, "/".join(cases), where, iterations, accepted, predicted)

    def _target_is_free(
        self, problem: ScaledProblem, theta: Array, blocks: tuple[str, ...]
    ) -> bool:
        """Returns whether these blocks may land on the target, and that is their optimum."""
        stats = problem.stats
        if "mean" not in blocks and stats.mean_gap.any():
            # While the mean is away, the best spread is wider than the target's.
            return False
        m = stats.mean_gap if "mean" in blocks else np.zeros(self.dim)
        zeta = -np.log(theta) if "theta" in blocks else np.zeros(self.dim)
        within = problem.trust(m, zeta)[0] <= self.epsilon
        return within and stats.slack + problem.gain(m, zeta)[0] >= 0.0

    def _solve(
        self, problem: ScaledProblem, blocks: tuple[str, ...], *, converge: bool
    ) -> tuple[list[Smooth], Solution]:
        stats, d = problem.stats, self.dim
        constraints = [restricted(problem.trust, blocks, d, -1.0 / self.epsilon, 1.0)]
        if converge:
            objective = restricted(problem.distance, blocks, d)
            slopes = np.concatenate([stats.mean_slope, stats.theta_slope])
            scale = _size(stats.slack, slopes, self.epsilon)
            offset = stats.slack / scale
            constraints.append(restricted(problem.gain, blocks, d, 1.0 / scale, offset))
        else:
            objective = restricted(problem.gain, blocks, d, -1.0)
        epsilon = min(self.epsilon, _GUESS) / len(blocks)
        parts = []
        if "mean" in blocks:
            parts.append(self._mean_step(stats, epsilon, converge=converge).delta)
        if "theta" in blocks:
            step = self._theta_step(stats, self.theta, epsilon, converge=converge)
            parts.append(problem.log_step(step.delta))
        guess = np.concatenate(parts)
        return constraints, sqp.solve(objective, constraints, guess, radius=_radius(self.epsilon))


@register("spgl-joint")
class SpglJoint(SpglExact):
    """Ablation without Taylor and without blocks: (μ, θ) jointly, exact everything.

    Minimises KL(ψ‖p_new) over μ and θ together subject to mean[V p_new/p] ≥ V₋ and
    KL(p_new‖p) ≤ ε, or maximises that weighted value subject to the budget: `spgl-exact` with one
    block in place of two.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        scaled_family=True,
        trust_region="joint",
        value_constraint="weighted",
        optimal="joint-exact",
        converges_within=1e-3,
        equivariant=True,
        solver_tolerance=1e-3,
        raises_value=True,
    )
    blocks: ClassVar[tuple[tuple[str, ...], ...]] = (("mean", "theta"),)


def _radius(epsilon: float) -> float:
    return math.sqrt(2.0 * epsilon)


def _size(slack: float, slope: Array, epsilon: float) -> float:
    """Returns the natural size of the value constraint: the slack, or what a step may change."""
    change = math.sqrt(float(slope @ slope)) * 2.0 * math.sqrt(epsilon)
    return max(slack, change) or 1.0


def _case(constraints: list[Smooth], solution: Solution) -> str:
    """Names the constraints that bind at the solution."""
    if not solution.accepted:
        return "rejected"
    binding = [constraint(solution.x)[0] <= 1e-5 for constraint in constraints]
    if all(binding) and len(binding) == 2:
        return "both"
    if binding[0]:
        return "kl" if len(binding) == 2 else "ascent"
    return "value" if binding[-1] else "interior"
