"""Changes of order, origin and unit that must not change the curriculum."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pacebench.curricula import Curriculum, Gaussian
from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import promise, require

# Two results may differ by rounding: a KL this small, in units of ε.
ROUNDING = 1e-9


def _away_from_ties(subject: Subject) -> st.SearchStrategy[UpdateProblem]:
    """Leaves out problems in which rounding may choose either of two cases."""
    return subject.problems(
        samples=st.sampled_from([20, 50]),
        slack=st.sampled_from([1.0, 0.1, 0.4, 3.0, -1.0]),
        distance=st.sampled_from([1.0, 0.2, 3.0, 10.0]),
        decades=st.sampled_from([0.05, 0.5, 2.0]),
    )


_promise = partial(promise, claimed=lambda c: c.equivariant, examples=_away_from_ties, cost=2)


@_promise("sample-order")
def sample_order(subject: Subject, problem: UpdateProblem) -> str:
    """The order of the samples does not matter."""
    order = problem.rng(10).permutation(problem.samples)
    other = _updated(subject.make(problem), problem.contexts[order], problem.values[order])
    return _agree(subject, problem, other, "the order of the samples")


@_promise("axis-order")
def axis_order(subject: Subject, problem: UpdateProblem) -> str:
    """The order of the context dimensions does not matter."""
    axes = problem.rng(10).permutation(problem.dim)
    back = np.argsort(axes)
    c = subject.make(problem, **_mapped(problem, axes=axes))
    other = _updated(c, problem.contexts[:, axes], problem.values)
    restored = Normal(other.mean[back], other.covariance[np.ix_(back, back)])
    return _agree(subject, problem, restored, "the order of the axes")


@_promise("context-units")
def context_units(subject: Subject, problem: UpdateProblem) -> str:
    """Origin and unit of each context dimension do not matter."""
    rng = problem.rng(10)
    scale = 10.0 ** rng.uniform(-4, 4, problem.dim)
    shift = rng.normal(0.0, 10.0, problem.dim) * problem.target.std * scale
    c = subject.make(problem, **_mapped(problem, scale=scale, shift=shift))
    other = _updated(c, problem.contexts * scale + shift, problem.values)
    restored = Normal((other.mean - shift) / scale, other.covariance / np.outer(scale, scale))
    return _agree(subject, problem, restored, "another origin and unit of each axis")


@_promise("value-units")
def value_units(subject: Subject, problem: UpdateProblem) -> str:
    """The unit of V and V₋ does not matter."""
    factor = float(10.0 ** problem.rng(10).uniform(-6, 6))
    c = subject.make(problem, threshold=problem.threshold * factor)
    other = _updated(c, problem.contexts, problem.values * factor)
    return _agree(subject, problem, other, "another unit of the values")


def _updated(c: Curriculum, contexts: Array, values: Array) -> Normal:
    c.update(contexts, values)
    return Normal.of(c.distribution)


def _agree(subject: Subject, problem: UpdateProblem, other: Normal, what: str) -> str:
    """Requires that the plain update ends at `other` too; returns its case."""
    plain = subject.update(problem)
    apart = max(oracle.kl(plain.new, other), oracle.kl(other, plain.new))
    tolerance = max(ROUNDING, subject.capabilities.solver_tolerance)
    said = f"{what} changes the result by {apart:.3g} nats at ε = {problem.epsilon}"
    require(apart <= tolerance * problem.epsilon + 1e-11, said)
    return plain.case


def _mapped(
    problem: UpdateProblem,
    axes: NDArray[np.int64] | slice = slice(None),
    scale: Array | float = 1.0,
    shift: Array | float = 0.0,
) -> dict[str, Any]:
    """Returns target, initial distribution and bounds of the problem in other coordinates."""

    def moved(p: Gaussian) -> Gaussian:
        factor = np.ones(problem.dim) * scale
        if p.is_diagonal:
            return Gaussian((p.mean * scale + shift)[axes], (p.variance * factor**2)[axes])
        covariance = (p.covariance * np.outer(factor, factor))[axes][:, axes]
        return Gaussian((p.mean * scale + shift)[axes], covariance)

    bounds = tuple((bound * scale + shift)[axes] for bound in problem.keywords()["bounds"])
    return {"target": moved(problem.target), "initial": moved(problem.initial), "bounds": bounds}
