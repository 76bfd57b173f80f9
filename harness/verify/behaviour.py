"""What curricula promise that hold no Gaussian: where they sample, what they remember."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import (
    Curriculum,
    CurriculumError,
    Distribution,
    Gaussian,
    Mixture,
    UniformBox,
)
from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import Violation, promise, require

# Updates after which a memory must have stopped growing, and a target have been reached.
FILLED, REACHED, LONGEST = 40, 150, 500
EPISODES = 20


@dataclass(frozen=True)
class Sampler:
    """A distribution that can do no more than it must."""

    hidden: Distribution

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return self.hidden.dim

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        return self.hidden.sample(n, rng)


def _modes(problem: UpdateProblem) -> Mixture:
    """Returns a target of two modes: the problem's own, and one beside its initial mean."""
    first, width = problem.target, problem.target.std
    second = Gaussian(problem.initial.mean - 3.0 * width, (0.5 * width) ** 2)
    return Mixture([first, second], [2.0, 1.0])


def _target(problem: UpdateProblem, kind: str) -> Distribution:
    if kind == "box":
        return UniformBox(problem.target.mean - problem.target.std, problem.target.mean)
    return _modes(problem) if kind == "mixture" else Sampler(_modes(problem))


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


@promise(
    "any-target",
    claimed=lambda c: not c.needs_gaussian,
    examples=lambda s: st.tuples(_small(s), st.sampled_from(["mixture", "box", "sampler"])),
    cost=5,
)
def any_target(subject: Subject, example: tuple[UpdateProblem, str]) -> str:
    """Whatever the target, records are honest and copies go on; or it is refused in a sentence."""
    problem, kind = example
    target = _target(problem, kind)
    try:
        c, copy = (subject.make(problem, target=target, record_every=1) for _ in range(2))
    except CurriculumError as error:
        require(str(error).endswith("."), f"a {kind} is refused with {str(error)!r}")
        return f"{kind} refused"
    for i in range(3):
        drawn = c.sample(EPISODES, problem.rng(25, i))
        record = subject.feed(c, drawn, problem.value_of(drawn))
        far = record.sliced_wasserstein
        require(far is not None and 0.0 <= far < math.inf, f"the distance to the target is {far}")
        told = [record.kl_target_forward, record.kl_target_reverse]
        if kind == "sampler" and c.distribution is not c.target:
            require(told == [None, None], f"a KL is told to a target without a density: {told}")
        if kind == "mixture" and any(kl and math.isfinite(kl) for kl in told):
            require(record.kl_estimated, f"a KL without a formula is called exact: {told}")
        copy.load_state_dict(json.loads(json.dumps(c.state_dict())))
        own, copied = (x.sample(EPISODES, problem.rng(26, i)) for x in (c, copy))
        require(np.array_equal(own, copied), "a restored copy samples other contexts")
    return kind


@promise(
    "two-modes",
    claimed=lambda c: c.trust_region == "block" and not c.needs_gaussian,
    examples=_small,
    cost=5,
)
def two_modes(subject: Subject, problem: UpdateProblem) -> None:
    """Of a target with two modes both are reached exactly, no step above (1 + κ)ε."""
    target, bound = _modes(problem), problem.epsilon * (1.0 + oracle.kappa(problem.epsilon))
    c = subject.make(problem, target=target, threshold=0.0)
    for i in range(LONGEST):
        old = c.distribution
        drawn = c.sample(3 * EPISODES, problem.rng(27, i))
        noise = 0.05 * problem.rng(28, i).standard_normal(len(drawn))
        subject.feed(c, drawn, 1.0 + noise)
        parts = zip(c.distribution.weights, c.distribution.components, old.components, strict=True)
        # KL is convex: that of the whole is at most this.
        spent = sum(weight * new.kl(before) for weight, new, before in parts)
        require(spent <= bound * (1 + 1e-9), f"a step spends {spent:.6g}, more than {bound:.6g}")
        there = c.distribution.components
        ends = zip(there, target.components, strict=False)
        reached = all(np.array_equal(p.mean, q.mean) and p.kl(q) == 0.0 for p, q in ends)
        if reached and len(there) == len(target.components):
            return
    raise Violation(f"after {LONGEST} updates it has not reached both modes")


@promise(
    "reaches-target",
    claimed=lambda c: c.reaches_target is not None,
    examples=lambda s: st.tuples(_small(s), st.booleans()),
    cost=30,
)
def reaches_target(subject: Subject, example: tuple[UpdateProblem, bool]) -> None:
    """If every episode succeeds, the distribution ends at the target, of one mode or two."""
    problem, two = example
    within = subject.capabilities.reaches_target or 0.0
    target = _modes(problem) if two else problem.target
    c = subject.make(problem, target=target, threshold=0.0, record_every=1)
    far = math.inf
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
