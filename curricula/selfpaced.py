"""What self-paced curricula share: the choice between performing, converging and holding."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Unpack

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian


class SelfPaced(Curriculum):
    """Performance steps until V₋ is reached, convergence steps from then on.

    Args:
        on_shortfall: What answers V̄ < V₋ once V₋ had been reached: `hold` keeps the distribution
            and lets the policy catch up, `recover` takes a performance step.

    Attributes:
        reached: Whether some update has had V̄ ≥ V₋.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(self_paced=True, needs_gaussian=True)
    threshold: float
    target: Gaussian
    initial: Gaussian
    _distribution: Gaussian

    def __init__(self, *, on_shortfall: str = "recover", **common: Unpack[Common]) -> None:
        super().__init__(**common)
        if on_shortfall not in ("hold", "recover"):
            raise CurriculumError(
                f"on_shortfall must be 'hold' or 'recover', not {on_shortfall!r}."
            )
        self.on_shortfall = on_shortfall
        self.reached = False

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        mean_value = float(values.sum()) / len(values)
        converge = mean_value >= self.threshold
        if self.reached and not converge and self.on_shortfall == "hold":
            proposal = self._stay("hold", "shortfall")
        else:
            step = "convergence" if converge else "performance"
            proposal = self._solve(step, contexts, values, mean_value)
        if proposal.predicted_value is None:
            # p stays, and so does the value expected of it.
            proposal.predicted_value = mean_value
        proposal.state["reached"] = self.reached or converge
        return proposal

    @abstractmethod
    def _solve(self, step: str, contexts: Array, values: Array, mean_value: float) -> Proposal:
        """Returns the `convergence` or the `performance` step, whichever `step` names."""

    def _stay(
        self, step: str, case: str, iterations: int = 0, *, accepted: bool = True
    ) -> Proposal:
        """Returns the proposal to keep the distribution as it is."""
        return Proposal(step, case, self._distribution, iterations=iterations, accepted=accepted)

    def _state(self) -> dict[str, Any]:
        return {"reached": self.reached}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"reached": bool(state["reached"])}
