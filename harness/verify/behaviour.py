"""What curricula promise that hold no Gaussian: where they sample, what they remember."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import Curriculum
from pacebench.curricula.checks import Array
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import Violation, promise, require

# Updates after which a memory must have stopped growing, and a target have been reached.
FILLED, REACHED = 40, 150
EPISODES = 20


def _small(subject: Subject) -> st.SearchStrategy[UpdateProblem]:
    return subject.problems(dim=st.integers(1, 2), full=False)


def _practise(subject: Subject, c: Curriculum, problem: UpdateProblem, i: int) -> Array:
    """Makes one update with contexts that the curriculum drew; returns them."""
    drawn = c.sample(EPISODES, problem.rng(20, i))
    subject.feed(c, drawn, problem.value_of(drawn))
    return drawn


@promise("inside-bounds", claimed=lambda c: c.inside_bounds, examples=_small, cost=5)
def inside_bounds(subject: Subject, problem: UpdateProblem) -> None:
    """Contexts lie within the bounds, and probabilities are none below 0 and sum to 1."""
    c = subject.make(problem)
    assert c.bounds is not None
    lower, upper = c.bounds
    for i in range(5):
        drawn = _practise(subject, c, problem, i)
        inside = (drawn >= lower).all() and (drawn <= upper).all()
        require(inside, "a context lies outside of the bounds")
        chances = np.asarray(getattr(c.distribution, "probabilities", [1.0]))
        if len(chances):
            total = float(chances.sum())
            require(math.isclose(total, 1.0, rel_tol=1e-9), f"probabilities sum to {total}")
            require((chances >= 0.0).all(), "a probability is negative")


@promise("bounded-memory", claimed=lambda c: c.bounded_memory, examples=_small, cost=30)
def bounded_memory(subject: Subject, problem: UpdateProblem) -> None:
    """What is remembered stops growing."""
    c, sizes = subject.make(problem), []
    for i in range(2 * FILLED):
        _practise(subject, c, problem, i)
        if i + 1 in (FILLED, 2 * FILLED):
            sizes.append(len(json.dumps(c.state_dict())))
    before, after = sizes
    said = f"its state has {before} characters after {FILLED} updates, {after} after as many again"
    # Numbers have more or fewer digits.
    require(after <= 1.1 * before + 100, said)


@promise("reaches-target", claimed=lambda c: c.reaches_target is not None, examples=_small, cost=30)
def reaches_target(subject: Subject, problem: UpdateProblem) -> None:
    """If every episode succeeds, the distribution ends at the target."""
    within = subject.capabilities.reaches_target or 0.0
    c, far = subject.make(problem, threshold=0.0, record_every=1), math.inf
    for i in range(REACHED):
        drawn = c.sample(EPISODES, problem.rng(21, i))
        noise = 0.05 * problem.rng(22, i).standard_normal(EPISODES)
        far = subject.feed(c, drawn, 1.0 + noise).sliced_wasserstein or 0.0
        if far <= within:
            return
    raise Violation(f"after {REACHED} updates it is {far:.3g} widths of the bounds from the target")


@promise("uniform", claimed=lambda c: c.uniform_without_progress, examples=_small, cost=20)
def uniform(subject: Subject, problem: UpdateProblem) -> None:
    """While nothing is learned, contexts are uniform over the bounds."""
    c = subject.make(problem)
    assert c.bounds is not None
    lower, upper = c.bounds
    for i in range(15):
        drawn = c.sample(EPISODES, problem.rng(23, i))
        subject.feed(c, drawn, np.full(EPISODES, problem.offset))
    n = 4000
    share = (c.sample(n, problem.rng(24)) - lower) / (upper - lower)
    far = float(np.abs(share.mean(axis=0) - 0.5).max()) * math.sqrt(12 * n)
    require(far < 6.0, f"the mean of the contexts is {far:.1f} standard errors from the middle")
    # The square of a uniform share varies by √(1/180) around 1/12.
    spread = np.abs(((share - 0.5) ** 2).mean(axis=0) - 1 / 12).max() * math.sqrt(180 * n)
    require(spread < 6.0, f"their spread is {spread:.1f} standard errors from that of the box")
