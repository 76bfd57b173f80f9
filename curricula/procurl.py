"""ProCuRL-Target: neither too easy nor too hard, and close to what counts."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy.spatial.distance import cdist

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import Distribution, UniformBox
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.kernel_regression import KernelRegression
from pacebench.curricula.options import SearchRange
from pacebench.curricula.registry import register


class PointDistribution:
    """Points with probabilities of their own."""

    def __init__(self, points: Array, probabilities: Array) -> None:
        self.points, self.probabilities = points, probabilities
        cumulated = probabilities.cumsum()
        self._cumulated = cumulated / cumulated[-1]

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return int(self.points.shape[1])

    @property
    def mean(self) -> Array:
        """The mean."""
        return np.asarray(self.probabilities @ self.points)

    @property
    def std(self) -> Array:
        """The marginal standard deviations."""
        return np.sqrt(self.probabilities @ (self.points - self.mean) ** 2)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        # What `rng.choice` does, without adding up and checking the probabilities every time.
        return np.asarray(self.points[self._cumulated.searchsorted(rng.random(n), side="right")])


@register("procurl")
class Procurl(Curriculum):
    """ProCuRL-Target (Tzannetos et al. 2024), in the form that needs returns alone.

    The chance of success p(c) is the value that kernel regression over recent episodes predicts,
    between the smallest and the largest value of any episode so far. With Z(c) = p(c)(1 − p(c)),
    which is largest where an episode may go either way, a pool of contexts, uniform over the bounds
    and drawn anew at each update, is weighed against samples t of the target:

        P(c) ∝ exp(β max over t of Z(c) Z(t) exp(−‖c − t‖))

    with distances in units of the box. Where nothing is known or nothing is in between, all
    contexts are equally likely. (The authors regress by a network and know the range of returns.)

    Reference: G. Tzannetos, P. Kamalaruban, A. Singla, "Proximal Curriculum with Task Correlations
    for Deep Reinforcement Learning", IJCAI 2024.

    Args:
        beta: The temperature β; larger is greedier.
        pool: How many contexts there are to choose among.
        targets: How many samples of the target they are compared with.
        memory: How many recent episodes the prediction is made from.
        bandwidth: The width of the kernel, in units of the box.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_bounds=True, inside_bounds=True, bounded_memory=True, uniform_without_progress=True
    )
    result_version: ClassVar[str] = "2"
    search: ClassVar[dict[str, SearchRange]] = {
        "beta": SearchRange(10.0, 300.0, log=True),
        "bandwidth": SearchRange(0.03, 0.3, log=True),
    }

    def __init__(
        self,
        *,
        beta: float = 110.0,
        pool: int = 1000,
        targets: int = 250,
        memory: int = 500,
        bandwidth: float = 0.1,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        for what, given in (("pool", pool), ("targets", targets), ("memory", memory)):
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise CurriculumError(f"procurl needs a whole number {what} ≥ 1, not {given!r}.")
        if not (0.0 <= float(beta) < math.inf and 0.0 < float(bandwidth) < math.inf):
            raise CurriculumError("procurl needs beta ≥ 0 and a positive bandwidth.")
        self.beta, self.pool, self.targets = float(beta), pool, targets
        self.memory, self.bandwidth = memory, float(bandwidth)
        self.box = UniformBox(*self.bounds)
        # One row an episode, the latest last: its context in units of the box, and its value.
        self.known = np.zeros((0, self.dim + 1))
        self.extremes = (math.inf, -math.inf)
        self._distribution: Any = self.box

    def _units(self, contexts: Array) -> Array:
        lower, upper = self.box.lower, self.box.upper
        return np.clip((contexts - lower) / (upper - lower), 0.0, 1.0)

    def _weighed(
        self, known: Array, extremes: tuple[float, float], rng: np.random.Generator
    ) -> Distribution:
        """Returns the distribution that follows from what is known."""
        low, high = extremes
        if not high - low > 1e-12 * max(abs(low), abs(high)):
            return self.box
        model = KernelRegression(known[:, :-1], known[:, -1], self.bandwidth)
        points = self.box.sample(self.pool, rng)
        here, there = self._units(points), self._units(self.target.sample(self.targets, rng))

        def between(contexts: Array) -> Array:
            chance = np.clip((model(contexts) - low) / (high - low), 0.0, 1.0)
            return chance * (1.0 - chance)

        near = cdist(here, there)
        with np.errstate(divide="ignore"):
            np.subtract(np.log(between(there)), near, out=near)
        logits = self.beta * between(here) * np.exp(near.max(axis=1))
        weights = np.exp(logits - logits.max())
        return PointDistribution(points, weights / weights.sum())

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        rows = np.column_stack([self._units(contexts), values])
        known = np.concatenate([self.known, rows])[-self.memory :]
        low, high = self.extremes
        extremes = min(low, float(values.min())), max(high, float(values.max()))
        p = self._weighed(known, extremes, self._rng())
        case = "uniform" if p is self.box else "weighed"
        return Proposal("proximal", case, p, {"known": known, "extremes": extremes})

    def _state(self) -> dict[str, Any]:
        extremes = list(self.extremes) if len(self.known) else None
        return {"known": self.known.tolist(), "extremes": extremes}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        known = np.array(state["known"], dtype=np.float64).reshape(-1, self.dim + 1)
        if len(known) > self.memory:
            raise CurriculumError(f"procurl remembers at most {self.memory} episodes.")
        if not len(known):
            return {"known": known, "extremes": (math.inf, -math.inf), "_distribution": self.box}
        extremes = (float(state["extremes"][0]), float(state["extremes"][1]))
        # The pool was drawn by the update before.
        rng = np.random.default_rng([self.seed, int(state["updates"]) - 1])
        p = self._weighed(known, extremes, rng)
        return {"known": known, "extremes": extremes, "_distribution": p}
