"""Self-paced deep reinforcement learning (Klink et al.), solved as published."""

from __future__ import annotations

import warnings
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, NonlinearConstraint, minimize

from pacebench.curricula.base import Common, Proposal
from pacebench.curricula.checks import Array
from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.registry import register
from pacebench.curricula.spdl_curriculum import SpdlCurriculum
from pacebench.curricula.sqp import Smooth, affine, once_per_point


@register("spdl")
class Spdl(SpdlCurriculum):
    """SPDL with the performance threshold (Klink et al. 2020, 2021), solved as published.

    min KL(p_new‖ψ) subject to mean[V p_new/p_old] ≥ V₋ and KL(p_old‖p_new) ≤ ε over mean and full
    Cholesky factor with logarithmic diagonal, in the contexts' own units, by SciPy's `trust-constr`
    (gtol 1e-4, xtol 1e-6) with analytic gradients and a feasible trust region. A result that
    violates the budget or the value constraint, or is worse than where it started, is refused and
    counted, and the old distribution stays.

    Args:
        max_iterations: The limit on the iterations of `trust-constr`; 1000 is SciPy's default, and
            narrow targets reach it.
    """

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

    def _solve(self, step: str, contexts: Array, values: Array, mean_value: float) -> Proposal:
        p, converge = self._distribution, step == "convergence"
        target = (self.target.mean, self.target.cholesky())
        problem = CholeskyProblem((p.mean, self._factor), target, contexts, values / len(values))
        floor = self._active_floor()
        log_floor = None if floor is None else np.log(floor)
        x0 = self._start(problem, problem.pack(p.mean, self._factor), log_floor)
        constraints = [_constraint(problem.trust, -np.inf, self.epsilon, keep_feasible=True)]
        if converge:
            constraints.append(_constraint(problem.value, self.threshold, np.inf))
        objective = problem.distance if converge else affine(problem.value, -1.0)
        bounds = None
        if log_floor is not None:
            d, lower = self.dim, np.full(problem.size, -np.inf)
            lower[d : 2 * d] = np.minimum(log_floor, x0[d : 2 * d])
            bounds = Bounds(lower, np.inf, keep_feasible=True)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                # trust-constr warns when it skips a quasi-Newton update, which is harmless.
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
            return self._stay(step, "rejected", accepted=False)
        x, iterations = np.asarray(result.x, dtype=np.float64), int(result.nit)
        unit = float(np.abs(values).max()) or 1.0
        case = self._judge(problem, x, x0, self.threshold, unit, converge=converge)
        if case is None:
            return self._stay(step, "rejected", iterations, accepted=False)
        return self._moved(step, case, *problem.unpack(x), problem.value(x)[0], iterations)


def _constraint(
    function: Smooth, low: float, high: float, *, keep_feasible: bool = False
) -> NonlinearConstraint:
    """Returns low ≤ function ≤ high for `trust-constr`, evaluated once per point."""
    value, gradient = once_per_point(function)
    return NonlinearConstraint(
        lambda x: np.array([value(x)]),
        low,
        high,
        jac=lambda x: gradient(x)[None, :],
        keep_feasible=keep_feasible,
    )
