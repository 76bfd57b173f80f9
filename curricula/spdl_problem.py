"""SPDL's problem: what both of its solutions share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pacebench.curricula.base import Common, Proposal
from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Array, Gaussian, as_vector
from pacebench.curricula.selfpaced import SelfPaced

# How far, relative to ε, a solution may exceed the budget before it is refused.
_EXCESS = 1e-6


class Outcome(NamedTuple):
    """What a solver found: mean and Cholesky factor, or None where it found nothing usable."""

    found: tuple[Array, Array] | None
    value: float
    iterations: int
    case: str


class SpdlProblem(SelfPaced):
    """min KL(p_new‖ψ) s.t. mean[V p_new/p_old] ≥ V₋ and KL(p_old‖p_new) ≤ ε, over all Gaussians.

    Until V₋ has been reached, the weighted value is maximised instead. A subclass chooses the
    coordinates and the solver. The variables are the mean and the Cholesky factor of the
    covariance, its diagonal in logarithms.

    Args:
        std_floor: Lower bound on the diagonal of the Cholesky factor, and so on every standard
            deviation: one number or d; None for no bound.
        kl_threshold: The floor holds while KL(p‖ψ) exceeds this many nats; needed with it.
    """

    def __init__(
        self,
        *,
        on_shortfall: str = "hold",
        std_floor: ArrayLike | None = None,
        kl_threshold: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(on_shortfall=on_shortfall, **common)
        self.std_floor, self.kl_threshold = self._checked_floor(std_floor, kl_threshold)
        mean, factor = self.initial.mean, self.initial.cholesky()
        self._place(np.array(mean), factor)

    def _checked_floor(
        self, std_floor: ArrayLike | None, kl_threshold: float | None
    ) -> tuple[Array | None, float | None]:
        if (std_floor is None) != (kl_threshold is None):
            raise CurriculumError("std_floor and kl_threshold belong together; give both or none.")
        if std_floor is None or kl_threshold is None:
            return None, None
        floor = as_vector(np.broadcast_to(np.atleast_1d(std_floor), self.dim), "std_floor")
        if not (floor > 0).all():
            raise CurriculumError("std_floor must be positive.")
        if not 0.0 <= float(kl_threshold) < math.inf:
            raise CurriculumError(f"kl_threshold must be at least 0, not {kl_threshold!r}.")
        return floor, float(kl_threshold)

    def _place(self, mean: Array, factor: Array) -> None:
        # The factor itself is the state: going through the covariance and back would round.
        self._factor = factor
        self._distribution = Gaussian.from_cholesky(mean, factor)

    def _gaussian(self) -> Gaussian:
        assert isinstance(self._distribution, Gaussian)
        return self._distribution

    def _active_floor(self) -> Array | None:
        if self.std_floor is None or self.kl_threshold is None:
            return None
        return self.std_floor if self._gaussian().kl(self.target) > self.kl_threshold else None

    def _step(
        self, contexts: Array, values: Array, mean_value: float, slack: float, *, converge: bool
    ) -> Proposal:
        step = "convergence" if converge else "performance"
        outcome = self._solve(contexts, values, converge=converge)
        if outcome.found is None:
            return self._stay(step, outcome.case, mean_value, outcome.iterations, accepted=False)
        mean, factor = outcome.found
        try:
            p = Gaussian.from_cholesky(mean, factor)
        except CurriculumError:
            return self._stay(step, "rejected", mean_value, outcome.iterations, accepted=False)
        self._next_factor = factor
        return Proposal(step, outcome.case, p, None, outcome.value, outcome.iterations)

    def _commit(self, proposal: Proposal, slack: float | None) -> None:
        if proposal.distribution is not self._distribution:
            self._factor = self._next_factor
        super()._commit(proposal, slack)

    @abstractmethod
    def _solve(self, contexts: Array, values: Array, *, converge: bool) -> Outcome:
        """Solves the problem of one update."""

    def _start(self, problem: CholeskyProblem, x: Array, log_floor: Array | None) -> Array:
        """Returns the old distribution, lifted to the floor as far as the budget allows."""
        if log_floor is None:
            return x
        d, lifted = self.dim, x.copy()
        lifted[d : 2 * d] = np.maximum(x[d : 2 * d], log_floor)
        part = 1.0
        while problem.trust(x + part * (lifted - x))[0] > 0.5 * self.epsilon:
            part *= 0.5
        return x + part * (lifted - x)

    def _judge(
        self,
        problem: CholeskyProblem,
        x: Array,
        start: Array,
        threshold: float,
        unit: float,
        *,
        converge: bool,
    ) -> tuple[bool, str]:
        """Returns whether a solver's result may be used, and which constraints bind there."""
        objective = problem.distance if converge else problem.value
        sign = 1.0 if converge else -1.0
        with np.errstate(over="ignore", invalid="ignore"):
            kl, value = problem.trust(x)[0], problem.value(x)[0]
            before, after = sign * objective(start)[0], sign * objective(x)[0]
        if not (np.isfinite(x).all() and math.isfinite(after) and math.isfinite(kl)):
            return False, "rejected"
        keeps = not converge or value >= threshold - _EXCESS * unit
        if kl > self.epsilon * (1.0 + _EXCESS) or not keeps:
            return False, "rejected"
        if after > before + 1e-9 * max(1.0, abs(before)):
            return False, "rejected"
        if not converge:
            return True, "ascent"
        binding = (kl >= (1 - 1e-3) * self.epsilon, value <= threshold + 1e-4 * unit)
        cases = {(True, True): "both", (True, False): "kl", (False, True): "value"}
        return True, cases.get(binding, "free")

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        return {
            **state,
            "mean": self._gaussian().mean.tolist(),
            "cholesky": self._factor.tolist(),
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        mean = as_vector(state["mean"], "saved mean")
        factor = np.array(state["cholesky"], dtype=np.float64)
        if len(mean) != self.dim or factor.shape != (self.dim, self.dim):
            raise CurriculumError(f"the saved distribution does not have {self.dim} dimensions.")
        Gaussian.from_cholesky(mean, factor)
        super()._load_state(state)
        self._place(mean, factor)
