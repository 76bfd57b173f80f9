"""SPDL with a solver suited to its problem."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from pacebench.curricula import sqp
from pacebench.curricula.base import Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.cholesky_problem import CholeskyProblem
from pacebench.curricula.gaussian import solve_lower
from pacebench.curricula.registry import register
from pacebench.curricula.spdl_curriculum import SpdlCurriculum


@register("spdl-sqp")
class SpdlSqp(SpdlCurriculum):
    """The problem of `spdl`, solved by sequential quadratic programming in whitened coordinates.

    The current distribution is mapped to N(0, I), so that the solver sees one scale whatever the
    contexts' units; gradients are analytic. This is the strong baseline for wall-clock claims: it
    tells how much of SPDL's cost is due to the problem and how much to the published solver.
    """

    capabilities: ClassVar[Capabilities] = replace(
        SpdlCurriculum.capabilities,
        optimal="reverse-exact",
        equivariant=True,
        solver_tolerance=1e-3,
    )

    def _solve(self, step: str, contexts: Array, values: Array, mean_value: float) -> Proposal:
        p, L, d = self._distribution, self._factor, self.dim
        converge = step == "convergence"
        unit = float(np.abs(values).max()) or 1.0
        threshold = self.threshold / unit
        problem = CholeskyProblem(
            (np.zeros(d), np.eye(d)),
            (
                solve_lower(L, self.target.mean - p.mean),
                np.tril(solve_lower(L, self.target.cholesky().T).T),
            ),
            solve_lower(L, contexts - p.mean),
            values / (unit * len(values)),
        )
        floor = self._active_floor()
        log_floor = None if floor is None else np.log(floor / L.diagonal())
        zero = np.zeros(problem.size)
        origin = self._start(problem, zero, log_floor)
        # KL(p‖p') ≥ ½(A_jj⁻² − 1) + ln A_jj, so no feasible point lies below this bound, and the
        # solver cannot try factors so small that they are singular.
        lower = np.full(problem.size, -np.inf)
        lower[d : 2 * d] = _smallest_log(self.epsilon)
        if log_floor is not None:
            lower[d : 2 * d] = np.maximum(
                lower[d : 2 * d], np.minimum(log_floor, origin[d : 2 * d])
            )
        slack, slope = problem.value(zero)
        slack -= threshold
        scale = max(slack, float(np.linalg.norm(slope)) * math.sqrt(self.epsilon)) or 1.0
        constraints = [sqp.affine(problem.trust, -1.0 / self.epsilon, 1.0)]
        if converge:
            constraints.append(sqp.affine(problem.value, 1 / scale, -threshold / scale))
        objective = problem.distance if converge else sqp.affine(problem.value, -1.0)
        radius = math.sqrt(2.0 * self.epsilon)
        gradient = objective(origin)[1]
        norm = float(np.linalg.norm(gradient))
        guess = origin - gradient * (0.5 * radius / norm) if norm > 0.0 else origin
        guess = np.maximum(guess, lower)
        found = sqp.solve(objective, constraints, guess, radius=radius, origin=origin, lower=lower)
        case = self._judge(problem, found.delta, origin, threshold, 1.0, converge=converge)
        if case is None or not found.accepted:
            return self._stay(step, "rejected", found.iterations, accepted=False)
        mean, factor = problem.unpack(found.delta)
        value = problem.value(found.delta)[0] * unit
        return self._moved(step, case, p.mean + L @ mean, L @ factor, value, found.iterations)


def _smallest_log(epsilon: float) -> float:
    """Returns a bound slightly below the least a with ½(e⁻²ᵃ − 1) + a ≤ ε."""
    root = brentq(lambda a: 0.5 * math.expm1(-2.0 * a) + a - epsilon, -2.0 - epsilon, 0.0)
    return 1.01 * float(root)
