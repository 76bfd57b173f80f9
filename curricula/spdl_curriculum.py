"""The curriculum of SPDL, up to the numerical solver."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pacebench.curricula.base import Common, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_vector
from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.selfpaced import SelfPaced

# How far a solution may violate the budget, relative to ε, or the value constraint, relative to the
# values, before it is refused.
_EXCESS = 1e-6


class SpdlCurriculum(SelfPaced):
    """min KL(p_new‖ψ) s.t. mean[V p_new/p_old] ≥ V₋ and KL(p_old‖p_new) ≤ ε, over all Gaussians.

    A performance step maximises the importance-weighted value mean[V p_new/p_old] instead. The
    variables are the mean and the Cholesky factor of the covariance, its diagonal in logarithms. A
    subclass chooses the coordinates and the solver.

    Args:
        std_floor: Lower bound on the diagonal of the Cholesky factor, and so on every standard
            deviation: one number or d; None for no bound.
        kl_threshold: The floor holds while KL(p‖ψ) exceeds this many nats; needed with it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        needs_gaussian=True,
        trust_region="reverse",
        value_constraint="weighted",
        converges_within=1e-3,
        raises_value=True,
    )

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
        # The factor itself is the state: going through the covariance and back would round.
        self._factor = self.initial.cholesky()
        self._distribution = Gaussian.from_cholesky(self.initial.mean, self._factor)

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

    def _active_floor(self) -> Array | None:
        """Returns the floor on the standard deviations if it applies at the current p."""
        if self.std_floor is None or self.kl_threshold is None:
            return None
        return self.std_floor if self._distribution.kl(self.target) > self.kl_threshold else None

    def _moved(
        self, step: str, case: str, mean: Array, factor: Array, value: float, iterations: int
    ) -> Proposal:
        """Returns the proposal of N(mean, factor factorᵀ), refused if that has no density."""
        try:
            p = Gaussian.from_cholesky(mean, factor)
        except CurriculumError:
            return self._stay(step, "rejected", iterations, accepted=False)
        return Proposal(step, case, p, {"_factor": factor}, value, iterations)

    def _start(self, problem: CholeskyProblem, x: Array, log_floor: Array | None) -> Array:
        """Returns where the solver starts: at x, the old distribution.

        Standard deviations below the floor are raised towards it, as far as half the budget allows.
        """
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
    ) -> str | None:
        """Returns which constraints bind at a solver's result x, None where it may not be used.

        It may if it keeps the constraints and is no worse than `start`. Threshold and `unit`, the
        largest absolute value, are in the units of the problem's values.
        """
        objective = problem.distance if converge else problem.value
        sign = 1.0 if converge else -1.0
        with np.errstate(over="ignore", invalid="ignore"):
            kl, value = problem.trust(x)[0], problem.value(x)[0]
            before, after = sign * objective(start)[0], sign * objective(x)[0]
        if not (np.isfinite(x).all() and math.isfinite(after) and math.isfinite(kl)):
            return None
        keeps = not converge or value >= threshold - _EXCESS * unit
        if kl > self.epsilon * (1.0 + _EXCESS) or not keeps:
            return None
        if after > before + 1e-9 * max(1.0, abs(before)):
            return None
        if not converge:
            return "ascent"
        binding = (kl >= (1 - 1e-3) * self.epsilon, value <= threshold + 1e-4 * unit)
        cases = {(True, True): "both", (True, False): "kl", (False, True): "value"}
        return cases.get(binding, "free")

    def _state(self) -> dict[str, Any]:
        parameters = {
            "mean": self._distribution.mean.tolist(),
            "cholesky": self._factor.tolist(),
        }
        return {**super()._state(), **parameters}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        mean = as_vector(state["mean"], "saved mean")
        factor = np.array(state["cholesky"], dtype=np.float64)
        if len(mean) != self.dim or factor.shape != (self.dim, self.dim):
            raise CurriculumError(f"the saved distribution does not have {self.dim} dimensions.")
        p = Gaussian.from_cholesky(mean, factor)
        return {**super()._load_state(state), "_distribution": p, "_factor": factor}
