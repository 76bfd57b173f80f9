"""Self-paced deep reinforcement learning (Klink et al.), solved as published."""

from __future__ import annotations

import warnings
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, NonlinearConstraint, minimize

from pacebench.curricula.base import Common
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Array
from pacebench.curricula.registry import register
from pacebench.curricula.spdl_problem import Outcome, SpdlProblem
from pacebench.curricula.sqp import Remembered, Smooth


@register("spdl")
class Spdl(SpdlProblem):
    """SPDL with the performance threshold (Klink et al. 2020, 2021), solved as published.

    min KL(p_new‖ψ) subject to mean[V p_new/p_old] ≥ V₋ and KL(p_old‖p_new) ≤ ε over mean and full
    Cholesky factor with logarithmic diagonal, in the contexts' own units, by SciPy's `trust-constr`
    (gtol 1e-4, xtol 1e-6) with analytic gradients and a feasible trust region. A result that
    violates the budget or the value constraint, or is worse than where it started, is refused and
    counted, and the old distribution stays.

    Args:
        max_iterations: Where `trust-constr` stops; SciPy's own default is 1000, and narrow targets
            reach it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
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
        max_iterations: int = 1000,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(
            on_shortfall=on_shortfall, std_floor=std_floor, kl_threshold=kl_threshold, **common
        )
        if isinstance(max_iterations, bool) or not max_iterations >= 1:
            raise CurriculumError(f"max_iterations must be at least 1, not {max_iterations!r}.")
        self.max_iterations = int(max_iterations)

    def _solve(self, contexts: Array, values: Array, *, converge: bool) -> Outcome:
        p, unit = self._gaussian(), float(np.abs(values).max()) or 1.0
        threshold = self.threshold or 0.0
        target = (self.target.mean, self.target.cholesky())
        problem = CholeskyProblem((p.mean, self._factor), target, contexts, values / len(values))
        floor = self._active_floor()
        log_floor = None if floor is None else np.log(floor)
        x0 = self._start(problem, problem.pack(p.mean, self._factor), log_floor)
        constraints = [_constraint(problem.trust, -np.inf, self.epsilon, keep_feasible=True)]
        if converge:
            constraints.append(_constraint(problem.value, threshold, np.inf))

        def objective(x: Array) -> tuple[float, Array]:
            if converge:
                return problem.distance(x)
            value, gradient = problem.value(x)
            return -value, -gradient

        bounds = None
        if log_floor is not None:
            d, lower = self.dim, np.full(problem.size, -np.inf)
            lower[d : 2 * d] = np.minimum(log_floor, x0[d : 2 * d])
            bounds = Bounds(lower, np.inf, keep_feasible=True)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                # trust-constr warns when its quasi-Newton update is skipped; the record tells.
                warnings.simplefilter("ignore")
                result = minimize(
                    objective,
                    x0,
                    jac=True,
                    method="trust-constr",
                    bounds=bounds,
                    constraints=constraints,
                    options={"gtol": 1e-4, "xtol": 1e-6, "maxiter": self.max_iterations},
                )
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            # Seen with degenerate samples: the solver loses feasibility or its factorisation.
            return Outcome(None, 0.0, 0, "rejected")
        x, iterations = np.asarray(result.x, dtype=np.float64), int(result.nit)
        usable, case = self._judge(problem, x, x0, threshold, unit, converge=converge)
        found = problem.unpack(x) if usable else None
        return Outcome(found, problem.value(x)[0] if usable else 0.0, iterations, case)


def _constraint(
    function: Smooth, low: float, high: float, *, keep_feasible: bool = False
) -> NonlinearConstraint:
    """Returns low ≤ function ≤ high for `trust-constr`, evaluated once per point."""
    remembered = Remembered(function)
    return NonlinearConstraint(
        lambda x: np.array([remembered.value(x)]),
        low,
        high,
        jac=lambda x: remembered.gradient(x)[None, :],
        keep_feasible=keep_feasible,
    )
