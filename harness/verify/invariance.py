"""Changes of notation that must not change the curriculum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacebench.curricula import Curriculum, Gaussian
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal
from pacebench.harness.verify.problems import Array, Problem, Subject
from pacebench.harness.verify.suite import Property, require

# Two results may differ by rounding: a KL this small, in units of ε.
ROUNDING = 1e-9


def _agree(subject: Subject, problem: Problem, a: Normal, b: Normal, what: str) -> None:
    apart = max(oracle.kl(a, b), oracle.kl(b, a))
    tolerance = max(ROUNDING, subject.capabilities.solver_tolerance)
    require(
        apart <= tolerance * problem.epsilon + 1e-11,
        f"{what} changes the result by {apart:.3g} nats at ε = {problem.epsilon}",
    )


def _updated(c: Curriculum, contexts: Array, values: Array) -> tuple[Normal, str]:
    record = c.update(contexts, values)
    return Normal.of(c.distribution), f"{record.step} {record.case}"


def _sample_order(subject: Subject, problem: Problem) -> str:
    order = problem.rng(10).permutation(problem.samples)
    plain, case = _updated(subject.make(problem), problem.contexts, problem.values)
    other, _ = _updated(subject.make(problem), problem.contexts[order], problem.values[order])
    _agree(subject, problem, plain, other, "the order of the samples")
    return case


def _axis_order(subject: Subject, problem: Problem) -> str:
    axes = problem.rng(10).permutation(problem.dim)
    back = np.argsort(axes)
    plain, case = _updated(subject.make(problem), problem.contexts, problem.values)
    c = subject.make(problem, **_mapped(problem, axes=axes))
    other, _ = _updated(c, problem.contexts[:, axes], problem.values)
    restored = Normal(other.mean[back], other.covariance[np.ix_(back, back)])
    _agree(subject, problem, plain, restored, "the order of the axes")
    return case


def _units(subject: Subject, problem: Problem) -> str:
    rng = problem.rng(10)
    scale = 10.0 ** rng.uniform(-4, 4, problem.dim)
    shift = rng.normal(0.0, 10.0, problem.dim) * problem.target.std * scale
    plain, case = _updated(subject.make(problem), problem.contexts, problem.values)
    c = subject.make(problem, **_mapped(problem, scale=scale, shift=shift))
    other, _ = _updated(c, problem.contexts * scale + shift, problem.values)
    restored = Normal((other.mean - shift) / scale, other.covariance / np.outer(scale, scale))
    _agree(subject, problem, plain, restored, "another origin and unit of each axis")
    return case


def _value_units(subject: Subject, problem: Problem) -> str:
    factor = float(10.0 ** problem.rng(10).uniform(-6, 6))
    plain, case = _updated(subject.make(problem), problem.contexts, problem.values)
    c = subject.make(problem, threshold=problem.threshold * factor)
    other, _ = _updated(c, problem.contexts, problem.values * factor)
    _agree(subject, problem, plain, other, "another unit of the values")
    return case


def _mapped(
    problem: Problem,
    axes: NDArray[np.int64] | None = None,
    scale: Array | None = None,
    shift: Array | None = None,
) -> dict[str, object]:
    """Returns the keywords of the same problem in other coordinates."""
    order = np.arange(problem.dim) if axes is None else axes
    factor = np.ones(problem.dim) if scale is None else scale
    origin = np.zeros(problem.dim) if shift is None else shift

    def moved(p: Gaussian) -> Gaussian:
        if p.is_diagonal:
            return Gaussian((p.mean * factor + origin)[order], (p.variance * factor**2)[order])
        covariance = (p.covariance * np.outer(factor, factor))[np.ix_(order, order)]
        return Gaussian((p.mean * factor + origin)[order], covariance)

    low, high = problem.keywords()["bounds"]
    return {
        "target": moved(problem.target),
        "initial": moved(problem.initial),
        "bounds": ((low * factor + origin)[order], (high * factor + origin)[order]),
    }


def _generic(subject: Subject) -> dict[str, object]:
    """Keeps away from ties, where rounding may choose either of two cases."""
    from hypothesis import strategies as st

    return {
        "samples": st.sampled_from([20, 50]),
        "slack": st.sampled_from([1.0, 0.1, 0.4, 3.0, -1.0]),
        "distance": st.sampled_from([1.0, 0.2, 3.0, 10.0]),
        "decades": st.sampled_from([0.05, 0.5, 2.0]),
    }


PROPERTIES = [
    Property(
        name,
        doc,
        lambda c: c.equivariant,
        lambda s: s.problems(**_generic(s)),
        check,
        cost=2,
    )
    for name, doc, check in (
        ("sample-order", "the order of the samples does not matter", _sample_order),
        ("axis-order", "the order of the context dimensions does not matter", _axis_order),
        ("context-units", "origin and unit of each context dimension do not matter", _units),
        ("value-units", "the unit of V and V₋ does not matter", _value_units),
    )
]
