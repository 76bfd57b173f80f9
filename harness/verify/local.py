"""Numerical solutions: no feasible point near them, or further along their way, is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Array, Normal
from pacebench.harness.verify.problems import Problem, Subject
from pacebench.harness.verify.suite import Property, require

# How much of what the step gained, a neighbour may gain on top.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Block:
    """One group of parameters z, zero at the old distribution, with what is wanted of it.

    Attributes:
        step: The z that the curriculum chose.
        objective: What the step minimises.
        feasible: Whether a z is allowed.
    """

    step: Array
    objective: Callable[[Array], float]
    feasible: Callable[[Array], bool]


def _blocks(subject: Subject, problem: Problem) -> tuple[str, list[Block]]:
    c = subject.make(problem)
    old, theta = Normal.of(c.distribution), np.array(getattr(c, "theta", np.ones(problem.dim)))
    record = c.update(problem.contexts, problem.values)
    new, after = Normal.of(c.distribution), np.array(getattr(c, "theta", np.ones(problem.dim)))
    case = f"{record.step} {record.case}"
    if not record.accepted:
        return case, []
    kind, d, target = subject.capabilities.optimal, problem.dim, Normal.of(problem.target)
    converge, epsilon = record.step == "convergence", problem.epsilon
    L = np.linalg.cholesky(old.covariance)
    stats = oracle.SampleStatistics.of(
        target, old.mean, theta, problem.contexts, problem.values, problem.threshold
    )
    mean_z, theta_z = np.linalg.solve(L, new.mean - old.mean), np.log(after / theta)

    def member(m: Array, zeta: Array) -> Normal:
        return target.rescaled(old.mean + L @ m, theta * np.exp(zeta))

    def weighted(p: Normal) -> float:
        return oracle.weighted_value(p, old, problem.contexts, problem.values)

    def exact(place: Callable[[Array], Normal], step: Array, *, reverse: bool = False) -> Block:
        def objective(z: Array) -> float:
            p = place(z)
            if not converge:
                return -weighted(p)
            return oracle.kl(p, target) if reverse else oracle.kl(target, p)

        def feasible(z: Array) -> bool:
            p = place(z)
            spent = oracle.kl(old, p) if reverse else oracle.kl(p, old)
            return spent <= epsilon and (not converge or weighted(p) >= problem.threshold)

        return Block(step, objective, feasible)

    def linear(step: Array) -> Block:
        gradient = stats.omega if converge else -stats.psi

        def feasible(z: Array) -> bool:
            delta = theta * np.expm1(z)
            within = oracle.kl(member(np.zeros(d), z), old) <= epsilon
            return within and (not converge or stats.slack + stats.psi @ delta >= 0.0)

        return Block(step, lambda z: float(gradient @ (theta * np.expm1(z))), feasible)

    zero = np.zeros(d)
    if kind == "block-exact-kl":
        # Landing on θ = 1 is the lemma's rule and not the linear objective's minimum.
        return case, [] if converge and (after == 1.0).all() else [linear(theta_z)]
    if kind == "block-exact":
        return case, [
            exact(lambda z: member(z, zero), mean_z),
            exact(lambda z: member(zero, z), theta_z),
        ]
    if kind == "joint-exact":
        both = np.concatenate([mean_z, theta_z])
        return case, [exact(lambda z: member(z[:d], z[d:]), both)]
    below = np.tril_indices(d)

    def gaussian(z: Array) -> Normal:
        A = np.eye(d)
        A[below] += z[d:]
        return Normal(old.mean + L @ z[:d], L @ A @ A.T @ L.T)

    relative = np.linalg.solve(L, np.linalg.cholesky(new.covariance)) - np.eye(d)
    return case, [exact(gaussian, np.concatenate([mean_z, relative[below]]), reverse=True)]


def _neighbours(block: Block, rng: np.random.Generator) -> Iterator[Array]:
    step, size = block.step, float(np.linalg.norm(block.step))
    for factor in (1.3, 1.1, 1.03, 1.01, 0.97, 0.9, 0.7):
        yield factor * step
    for scale in (0.3, 0.1, 0.03):
        for direction in rng.normal(size=(15, len(step))):
            yield step + scale * (size or 0.1) * direction / math.sqrt(len(step))


def _locally_optimal(subject: Subject, problem: Problem) -> str:
    case, blocks = _blocks(subject, problem)
    rng = problem.rng(14)
    for block in blocks:
        mine, stay = block.objective(block.step), block.objective(np.zeros_like(block.step))
        gained = stay - mine
        require(
            gained >= -1e-7 * max(1.0, abs(stay)), f"{case}: staying is better by {-gained:.6g}"
        )
        allowance = TOLERANCE * max(gained, 0.0) + 1e-7 * max(1.0, abs(stay))
        for z in _neighbours(block, rng):
            if block.feasible(z) and block.objective(z) < mine - allowance:
                better = mine - block.objective(z)
                require(False, f"{case} gains {gained:.6g}; a feasible neighbour {better:.3g} more")
    return case


PROPERTIES = [
    Property(
        "local-optimality",
        "no feasible step near the one taken, or further along it, is better",
        lambda c: c.optimal in ("block-exact-kl", "block-exact", "joint-exact", "reverse-exact"),
        lambda s: s.problems(
            samples=st.sampled_from([50, 20]), decades=st.sampled_from([0.0, 0.05, 0.5])
        ),
        _locally_optimal,
    ),
]
