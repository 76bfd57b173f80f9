"""Random update problems, and what a curriculum does with one.

A problem is described by a few small numbers and a seed; the arrays follow from them. A
counterexample therefore shrinks towards one dimension, one sample and seed 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pacebench.curricula import Capabilities, Curriculum, Episodes, Gaussian, UpdateRecord
from pacebench.curricula.checks import Array
from pacebench.harness.verify import oracle
from pacebench.harness.verify.oracle import Normal

LANDSCAPES = ("hard", "easy", "bumpy", "noise")


@dataclass(frozen=True)
class UpdateProblem:
    """One update: where the curriculum stands, what it sampled and which values that had."""

    dim: int = 1  # context dimensions d
    samples: int = 20  # number of contexts K
    full: bool = False  # whether the target covariance is a full matrix
    epsilon: float = 0.05  # the KL budget
    distance: float = 1.0  # ‖μ̃ − μ‖ in standard deviations of the current distribution
    decades: float = 0.5  # log₁₀ θ is drawn between minus and plus this
    slack: float = 1.0  # V̄ − V₋ in units of what one step may change the value by
    # How the value depends on the context: `hard` falls towards the target, `easy` rises, `bumpy`
    # is quadratic, `noise` does not depend on it.
    landscape: str = "hard"
    offset: float = 0.0  # added to all values, in units of their spread
    context_scale: int = 0  # decimal logarithm of the contexts' unit
    value_scale: int = 0  # decimal logarithm of the values' unit
    seed: int = 0  # the seed of everything drawn at random

    def rng(self, *branch: int) -> np.random.Generator:
        """Returns a random generator of its own for each `branch`."""
        return np.random.default_rng([self.seed, *branch])

    @cached_property
    def target(self) -> Gaussian:
        """The target ψ."""
        rng, d = self.rng(0), self.dim
        unit = 10.0**self.context_scale
        std = unit * np.exp(rng.normal(0.0, 0.7, d))
        mean = unit * rng.normal(0.0, 2.0, d)
        if not self.full:
            return Gaussian(mean, std**2)
        root = rng.normal(size=(d, d + 2))
        matrix = root @ root.T + 0.2 * np.eye(d)
        scale = std / np.sqrt(matrix.diagonal())
        return Gaussian(mean, matrix * scale[:, None] * scale)

    @cached_property
    def theta(self) -> Array:
        """The θ of the current distribution."""
        return np.asarray(10.0 ** self.rng(1).uniform(-self.decades, self.decades, self.dim))

    @cached_property
    def initial(self) -> Gaussian:
        """The current distribution p, a member of the scaled family."""
        p = self.target.rescaled(self.target.mean, self.theta)
        direction = self.rng(2).normal(size=self.dim)
        direction *= self.distance / np.linalg.norm(direction)
        mean = self.target.mean - p.unwhiten(direction)
        return Gaussian(mean, p.covariance)

    @cached_property
    def contexts(self) -> Array:
        """K samples of p."""
        return self.initial.sample(self.samples, self.rng(3))

    @cached_property
    def values(self) -> Array:
        """The values of the K contexts."""
        return self.value_of(self.contexts)

    def value_of(self, contexts: Array) -> Array:
        """Returns the values of contexts in this problem's landscape."""
        white = self.initial.whiten(contexts - self.initial.mean)
        towards = self.initial.whiten(self.target.mean - self.initial.mean)
        towards = towards + 0.3 * self.rng(4).normal(size=self.dim)
        towards /= np.linalg.norm(towards) or 1.0
        noise = 0.2 * self.rng(5).normal(size=len(contexts))
        shapes: dict[str, Array] = {
            "hard": -(white @ towards),
            "easy": white @ towards,
            "bumpy": (white @ towards) ** 2 - 0.5 * (white**2).sum(axis=1),
            "noise": np.zeros(len(contexts)),
        }
        values = shapes[self.landscape] + noise + self.offset
        return np.asarray(10.0**self.value_scale * values)

    @cached_property
    def threshold(self) -> float:
        """The threshold V₋ that gives the slack asked for."""
        unit = 10.0**self.value_scale * math.sqrt(2.0 * self.epsilon)
        return float(self.values.mean()) - self.slack * unit

    def keywords(self) -> dict[str, Any]:
        """Returns the keywords that make a curriculum for this problem."""
        low = np.minimum(self.target.mean, self.initial.mean) - 8 * self.target.std
        high = np.maximum(self.target.mean, self.initial.mean) + 8 * self.target.std
        return {
            "target": self.target,
            "initial": self.initial,
            "bounds": (low, high),
            "epsilon": self.epsilon,
            "threshold": self.threshold,
        }

    def but(self, **changes: Any) -> UpdateProblem:
        """Returns the same problem with some fields changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))


@dataclass(frozen=True)
class ObservedUpdate:
    """What one update of a new curriculum did, as far as it can be seen from outside."""

    problem: UpdateProblem  # the problem it was given
    record: UpdateRecord  # what the curriculum says it did
    old: Normal  # the distribution before
    new: Normal  # the distribution after
    theta: Array  # θ before, ones where the curriculum has none
    new_theta: Array  # θ after

    @property
    def case(self) -> str:
        """The kind of step and its case."""
        return f"{self.record.step} {self.record.case}"

    @property
    def converges(self) -> bool:
        """Whether it is a convergence step."""
        return self.record.step == "convergence"

    @cached_property
    def target(self) -> Normal:
        """The target ψ."""
        return Normal.of(self.problem.target)

    @cached_property
    def statistics(self) -> oracle.SampleStatistics:
        """The statistics of the batch before the update."""
        p = self.problem
        return oracle.SampleStatistics.of(
            self.target, self.old.mean, self.theta, p.contexts, p.values, p.threshold
        )

    def weighted_value(self, p: Normal) -> float:
        """Returns the importance-weighted value of a distribution on the batch."""
        return oracle.weighted_value(p, self.old, self.problem.contexts, self.problem.values)


class Subject:
    """The curriculum under test; every example gets a new instance.

    Args:
        kind: The class of the curriculum.
        options: Options that differ from their defaults.
    """

    def __init__(self, kind: type[Curriculum], options: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.options = options or {}

    @property
    def capabilities(self) -> Capabilities:
        """What the curriculum claims."""
        return self.kind.capabilities

    def make(self, problem: UpdateProblem, **changes: Any) -> Curriculum:
        """Returns a new curriculum whose distribution is the problem's current one.

        It records no diagnostics, which most properties do not look at, unless told otherwise.
        """
        keywords = {**problem.keywords(), "record_every": 0, **self.options, **changes}
        return self.kind(**keywords)

    def feed(self, c: Curriculum, contexts: Any, values: Any) -> UpdateRecord:
        """Updates a curriculum; whatever else it reads of the episodes is made of the values."""
        return c.update(Episodes.standing_in(contexts, values, c.reads))

    def update(self, problem: UpdateProblem, **changes: Any) -> ObservedUpdate:
        """Makes a curriculum for the problem, updates it once and returns what was observed."""
        c = self.make(problem, **changes)
        old, theta = Normal.of(c.distribution), self._theta(c)
        record = self.feed(c, problem.contexts, problem.values)
        new, new_theta = Normal.of(c.distribution), self._theta(c)
        return ObservedUpdate(problem, record, old, new, theta, new_theta)

    def _theta(self, c: Curriculum) -> Array:
        if not self.capabilities.scaled_family:
            return np.ones(c.dim)
        return np.array(c.theta)  # type: ignore[attr-defined]

    @property
    def exact_arithmetic(self) -> bool:
        """Whether it promises answers without a numerical solver's tolerance."""
        claims = self.capabilities
        return claims.solver_tolerance == 0.0 and (claims.scaled_family or not claims.self_paced)

    def problems(self, **fixed: Any) -> st.SearchStrategy[UpdateProblem]:
        """Returns the strategy for problems of a size that the curriculum can solve quickly."""
        limit = self.kind.requires_epsilon_below
        choices: dict[str, st.SearchStrategy[Any]] = {
            "dim": st.integers(1, 8 if self.exact_arithmetic else 3),
            "samples": st.sampled_from([20, 50, 5, 2]),
            "full": st.booleans(),
            "epsilon": st.sampled_from([0.05, 0.01, 0.2, 0.001] + ([] if limit else [0.5])),
            "distance": st.sampled_from([1.0, 0.2, 3.0, 10.0, 0.0]),
            "decades": st.sampled_from([0.0, 0.05, 0.5, 2.0]),
            "slack": st.sampled_from([1.0, 0.1, 0.4, 3.0, 0.0, -1.0]),
            "landscape": st.sampled_from(LANDSCAPES),
            "offset": st.sampled_from([0.0, 1.0, -3.0]),
            "seed": st.integers(0, 10_000),
        }
        choices |= {
            k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fixed.items()
        }
        return st.builds(UpdateProblem, **choices)
