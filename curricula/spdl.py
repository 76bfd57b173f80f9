"""Self-paced deep reinforcement learning (Klink et al.), and the same problem well solved."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, NonlinearConstraint, brentq, minimize

from curricula import sqp
from curricula.base import Common, Proposal
from curricula.capabilities import Capabilities
from curricula.cholesky_problem import CholeskyProblem
from curricula.errors import CurriculumError
from curricula.gaussian import Array, Gaussian, as_vector, solve_lower
from curricula.registry import register
from curricula.selfpaced import SelfPaced

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


@register("spdl-sqp")
class SpdlSqp(SpdlProblem):
    """The problem of `spdl`, solved by sequential quadratic programming in whitened coordinates.

    The current distribution is mapped to N(0, I), so that the solver sees one scale whatever the
    contexts' units; gradients are analytic. This is the strong baseline for wall-clock claims: how
    much of SPDL's cost is the problem, and how much the solver?
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        trust_region="reverse",
        value_constraint="weighted",
        optimal="reverse-exact",
        converges_within=1e-3,
        equivariant=True,
        solver_tolerance=1e-3,
        raises_value=True,
    )

    def _solve(self, contexts: Array, values: Array, *, converge: bool) -> Outcome:
        p, L, d = self._gaussian(), self._factor, self.dim
        unit = float(np.abs(values).max()) or 1.0
        threshold = (self.threshold or 0.0) / unit
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
        constraints: list[sqp.Smooth] = [
            lambda x: _affine(problem.trust(x), -1.0 / self.epsilon, 1.0)
        ]
        if converge:
            constraints.append(lambda x: _affine(problem.value(x), 1 / scale, -threshold / scale))
            objective: sqp.Smooth = problem.distance
        else:

            def objective(x: Array) -> tuple[float, Array]:
                return _affine(problem.value(x), -1.0, 0.0)

        radius = math.sqrt(2.0 * self.epsilon)
        gradient = objective(origin)[1]
        norm = float(np.linalg.norm(gradient))
        guess = origin - gradient * (0.5 * radius / norm) if norm > 0.0 else origin
        guess = np.maximum(guess, lower)
        solution = sqp.solve(
            objective, constraints, guess, radius=radius, origin=origin, lower=lower
        )
        usable, case = self._judge(problem, solution.x, origin, threshold, 1.0, converge=converge)
        if not (usable and solution.accepted):
            return Outcome(None, 0.0, solution.iterations, "rejected")
        mean, factor = problem.unpack(solution.x)
        value = problem.value(solution.x)[0] * unit
        return Outcome((p.mean + L @ mean, L @ factor), value, solution.iterations, case)


def _smallest_log(epsilon: float) -> float:
    """Returns the least a with ½(e⁻²ᵃ − 1) + a ≤ ε, a little below it to be on the safe side."""
    root = brentq(lambda a: 0.5 * math.expm1(-2.0 * a) + a - epsilon, -2.0 - epsilon, 0.0)
    return 1.01 * float(root)


def _constraint(
    function: sqp.Smooth, low: float, high: float, *, keep_feasible: bool = False
) -> NonlinearConstraint:
    """Returns low ≤ function ≤ high for `trust-constr`, evaluated once per point."""
    remembered = sqp.Remembered(function)
    return NonlinearConstraint(
        lambda x: np.array([remembered.value(x)]),
        low,
        high,
        jac=lambda x: remembered.gradient(x)[None, :],
        keep_feasible=keep_feasible,
    )


def _affine(pair: tuple[float, Array], scale: float, offset: float) -> tuple[float, Array]:
    return offset + scale * pair[0], scale * pair[1]
