"""Curricula that ignore the values: the controls every self-paced method is compared with."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import UniformBox
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.family import ScaledFamily
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.registry import register


class Control(Curriculum):
    """A curriculum that ignores the values; `epsilon` and `threshold` are accepted and unused."""

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        return Proposal("schedule", "fixed", self._distribution)


@register("default")
class Default(Control):
    """Samples the target ψ from the start: reinforcement learning without a curriculum."""

    capabilities: ClassVar[Capabilities] = Capabilities(converges_within=0.0, equivariant=True)

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self._distribution = self.target


@register("initial")
class Initial(Control):
    """Samples the initial distribution and never moves: what do easy contexts alone teach?"""

    capabilities: ClassVar[Capabilities] = Capabilities(equivariant=True)


@register("linear")
class Linear(Control):
    """Open loop: μ and log σ go in equal steps from the initial to the target distribution.

    After n updates μ = μ₀ + t(μ̃ − μ₀) and ln θ = (1 − t) ln θ₀ with t = min(1, n/updates). It
    answers whether *self*-pacing matters, or only pacing.

    Args:
        updates: The number of updates after which the target is reached.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_gaussian=True, scaled_family=True, converges_within=0.0, equivariant=True
    )

    def __init__(self, *, updates: int = 50, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        if isinstance(updates, bool) or not isinstance(updates, int) or updates < 1:
            raise CurriculumError(f"linear needs a whole number of updates ≥ 1, not {updates!r}.")
        self.length = updates
        self._family = ScaledFamily(self.target)
        self._start = self._family.theta_of(self.initial)
        self._distribution, self.theta = self._after(0)

    def _after(self, updates: int) -> tuple[Gaussian, Array]:
        """Returns the distribution that so many updates lead to, and its θ."""
        if updates >= self.length:
            mean, theta = self.target.mean, self._family.ones
        else:
            t = updates / self.length
            mean = self.initial.mean + t * (self.target.mean - self.initial.mean)
            theta = np.exp((1.0 - t) * np.log(self._start))
        return self._family.at(mean, theta), theta

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        p, theta = self._after(self.updates + 1)
        case = "arrived" if self.updates + 1 >= self.length else "under way"
        return Proposal("schedule", case, p, {"theta": theta})

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        p, theta = self._after(int(state["updates"]))
        return {"_distribution": p, "theta": theta}


@register("uniform")
class UniformControl(Control):
    """Samples uniformly within the context bounds: domain randomisation."""

    capabilities: ClassVar[Capabilities] = Capabilities(needs_bounds=True, equivariant=True)

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        self._distribution = UniformBox(*self.bounds)
