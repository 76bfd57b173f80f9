"""What self-paced curricula share: when to perform, to converge or to hold."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Unpack

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Array

_RULES = ("hold", "recover")


class SelfPaced(Curriculum):
    """Performance steps until V₋ is reached, convergence steps from then on.

    Args:
        on_shortfall: What answers V̄ < V₋ once V₋ had been reached: `hold` keeps the distribution
            and lets the policy catch up, `recover` takes a performance step.
    """

    def __init__(self, *, on_shortfall: str = "recover", **common: Unpack[Common]) -> None:
        super().__init__(**common)
        if on_shortfall not in _RULES:
            raise CurriculumError(
                f"on_shortfall must be 'hold' or 'recover', not {on_shortfall!r}."
            )
        self.on_shortfall = on_shortfall
        self.reached = False

    def _propose(
        self, contexts: Array, values: Array, mean_value: float, slack: float | None
    ) -> Proposal:
        if slack is None:  # pragma: no cover - the constructor refuses a missing threshold
            raise CurriculumError("a self-paced curriculum needs a threshold.")
        if slack >= 0.0:
            return self._step(contexts, values, mean_value, slack, converge=True)
        if self.reached and self.on_shortfall == "hold":
            return self._stay("hold", "shortfall", mean_value)
        return self._step(contexts, values, mean_value, slack, converge=False)

    def _stay(
        self,
        step: str,
        case: str,
        predicted: float,
        iterations: int = 0,
        accepted: bool = True,
    ) -> Proposal:
        """Returns the proposal to keep the distribution as it is."""
        return Proposal(step, case, self._distribution, None, predicted, iterations, accepted)

    @abstractmethod
    def _step(
        self, contexts: Array, values: Array, mean_value: float, slack: float, *, converge: bool
    ) -> Proposal:
        """Returns the convergence step or the performance step."""

    def _commit(self, proposal: Proposal, slack: float | None) -> None:
        super()._commit(proposal, slack)
        self.reached = self.reached or (slack is not None and slack >= 0.0)

    def _state(self) -> dict[str, Any]:
        return {"reached": self.reached}

    def _load_state(self, state: dict[str, Any]) -> None:
        self.reached = bool(state["reached"])
