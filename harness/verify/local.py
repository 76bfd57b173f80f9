"""Local optimality of numerical solutions: no feasible neighbour of the step is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import ObservedUpdate, Subject, UpdateProblem
from pacebench.harness.verify.suite import Violation, promise, require

# How much more a neighbour may gain, relative to what the step gained.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class ParameterBlock:
    """A group of parameters z, zero at the old distribution, and the problem they solve."""

    step: Array  # the z that the curriculum chose
    objective: Callable[[Array], float]  # what the step minimises
    feasible: Callable[[Array], bool]  # whether a z keeps the constraints


def _blocks(kind: str | None, u: ObservedUpdate) -> list[ParameterBlock]:
    """Returns the blocks of the problem that `Capabilities.optimal` names."""
    d, zero = u.problem.dim, np.zeros(u.problem.dim)
    L = np.linalg.cholesky(u.old.covariance)
    mean_step = np.linalg.solve(L, u.new.mean - u.old.mean)
    theta_step = np.log(u.new_theta / u.theta)

    def member(m: Array, zeta: Array) -> Normal:
        return u.target.rescaled(u.old.mean + L @ m, u.theta * np.exp(zeta))

    if kind == "block-exact-kl":
        # Landing on θ = 1 is the lemma's rule and not the linear objective's minimum.
        lands = u.converges and (u.new_theta == 1.0).all()
        return [] if lands else [_linear(u, theta_step, lambda z: member(zero, z))]
    if kind == "block-exact":
        return [
            _exact(u, mean_step, lambda z: member(z, zero)),
            _exact(u, theta_step, lambda z: member(zero, z)),
        ]
    if kind == "joint-exact":
        both = np.concatenate([mean_step, theta_step])
        return [_exact(u, both, lambda z: member(z[:d], z[d:]))]
    below = np.tril_indices(d)

    def gaussian(z: Array) -> Normal:
        A = np.eye(d)
        A[below] += z[d:]
        return Normal(u.old.mean + L @ z[:d], L @ A @ A.T @ L.T)

    relative = np.linalg.solve(L, np.linalg.cholesky(u.new.covariance)) - np.eye(d)
    return [_exact(u, np.concatenate([mean_step, relative[below]]), gaussian, reverse=True)]


def _exact(
    u: ObservedUpdate, step: Array, place: Callable[[Array], Normal], *, reverse: bool = False
) -> ParameterBlock:
    """Returns a block with the exact KL and value; `reverse` exchanges the arguments of each KL."""

    def divergence(p: Normal, q: Normal) -> float:
        return oracle.kl(q, p) if reverse else oracle.kl(p, q)

    def objective(z: Array) -> float:
        p = place(z)
        return divergence(u.target, p) if u.converges else -u.weighted_value(p)

    def feasible(z: Array) -> bool:
        p = place(z)
        keeps = not u.converges or u.weighted_value(p) >= u.problem.threshold
        return keeps and divergence(p, u.old) <= u.problem.epsilon

    return ParameterBlock(step, objective, feasible)


def _linear(u: ObservedUpdate, step: Array, place: Callable[[Array], Normal]) -> ParameterBlock:
    """Returns the θ-block with the exact KL and a linear objective and value."""
    s = u.statistics
    gradient = s.omega if u.converges else -s.psi

    def change(z: Array) -> Array:
        return np.asarray(u.theta * np.expm1(z))

    def feasible(z: Array) -> bool:
        keeps = not u.converges or s.slack + s.psi @ change(z) >= 0.0
        return bool(keeps and oracle.kl(place(z), u.old) <= u.problem.epsilon)

    return ParameterBlock(step, lambda z: float(gradient @ change(z)), feasible)


def _neighbours(step: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yields longer and shorter steps, then random ones nearby."""
    size = float(np.linalg.norm(step)) or 0.1
    for factor in (1.3, 1.1, 1.03, 1.01, 0.97, 0.9, 0.7):
        yield factor * step
    for scale in (0.3, 0.1, 0.03):
        for direction in rng.normal(size=(15, len(step))):
            yield step + scale * size * direction / math.sqrt(len(step))


@promise(
    "local-optimality",
    claimed=lambda c: (
        c.optimal in ("block-exact-kl", "block-exact", "joint-exact", "reverse-exact")
    ),
    examples=lambda s: s.problems(
        samples=st.sampled_from([50, 20]), decades=st.sampled_from([0.0, 0.05, 0.5])
    ),
)
def locally_optimal(subject: Subject, problem: UpdateProblem) -> str:
    """No feasible step near the one taken, or further along it, is better."""
    u, rng = subject.update(problem), problem.rng(14)
    for block in _blocks(subject.capabilities.optimal, u) if u.record.accepted else []:
        mine, stay = block.objective(block.step), block.objective(np.zeros_like(block.step))
        gained, rounding = stay - mine, 1e-7 * max(1.0, abs(stay))
        require(gained >= -rounding, f"{u.case}: staying is better by {-gained:.6g}")
        allowance = TOLERANCE * max(gained, 0.0) + rounding
        for z in _neighbours(block.step, rng):
            if block.feasible(z) and block.objective(z) < mine - allowance:
                better = mine - block.objective(z)
                raise Violation(
                    f"{u.case} gains {gained:.6g}; a feasible neighbour {better:.3g} more"
                )
    return u.case
