"""What a curriculum claims; the conformance suite tests every claim of every registered one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Optimum = Literal[
    "block-linear", "joint-linear", "block-exact-kl", "block-exact", "joint-exact", "reverse-exact"
]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a curriculum needs and what it promises.

    Needs are checked before a study is launched. A promise is about *every* update: one that is
    left at its default is not tested, one that is made is tested by `pacebench verify`.

    Attributes:
        self_paced: The values decide the step; needs a threshold V₋.
        needs_bounds: Must be given the context bounds.
        needs_gaussian: Target and initial distribution must be Gaussian, or be fitted by one.
        scaled_family: p = N(μ, Θ^½ Σ̃ Θ^½); the curriculum has `.theta`.
        trust_region: Which KL stays within the budget. `joint`: KL(p_new‖p_old) ≤ ε. `reverse`:
            KL(p_old‖p_new) ≤ ε. `block`: ≤ ε for the mean and ≤ κ(ε)ε for θ, each moved alone.
            `block-exact`: ≤ ε for either block moved alone.
        value_constraint: What a convergence step keeps at or above V₋. `linear`: the linearised
            value of the joint step; `linear-block`: of each block moved alone; `weighted` and
            `weighted-block`: the same of the exact importance-weighted value.
        optimal: Which problem each update solves to the optimum. `block-linear`: the two lemmas;
            `joint-linear`: their shared-budget form, up to the final shortening. Local optima of
            numerical solvers: `block-exact-kl`, `block-exact` and `joint-exact` of the ablations,
            `reverse-exact` of SPDL's problem. None where no such claim is made.
        converges_within: With the threshold satisfied throughout, the distribution ends within so
            many nats KL(p‖ψ) of the target and stays there; 0 means exactly.
        equivariant: Permuting samples or dimensions, translating and rescaling an axis commute
            with the update; so does scaling V and V₋ together.
        solver_tolerance: How far, as a KL in units of ε, two runs of the curriculum's own numerical
            solver on equivalent problems may end apart; 0 for a closed form.
        raises_value: Where V is linear in the context, the performance step raises its expectation.
        kl_budget: Of a self-paced curriculum, whether ε bounds its steps.
        inside_bounds: Contexts are drawn from within the bounds.
        bounded_memory: What it remembers stops growing.
        reaches_target: If every episode succeeds, the sliced Wasserstein distance to the target
            ends below this.
        uniform_without_progress: While all values are equal, contexts are uniform over the bounds.
    """

    self_paced: bool = False
    needs_bounds: bool = False
    needs_gaussian: bool = False
    scaled_family: bool = False
    trust_region: Literal["joint", "reverse", "block", "block-exact"] | None = None
    value_constraint: Literal["linear", "linear-block", "weighted", "weighted-block"] | None = None
    optimal: Optimum | None = None
    converges_within: float | None = None
    equivariant: bool = False
    solver_tolerance: float = 0.0
    raises_value: bool = False
    kl_budget: bool = True
    inside_bounds: bool = False
    bounded_memory: bool = False
    reaches_target: float | None = None
    uniform_without_progress: bool = False

    @property
    def has_budget(self) -> bool:
        """Whether the steps have a budget ε."""
        return self.self_paced and self.kl_budget
