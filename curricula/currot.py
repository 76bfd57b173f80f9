"""Curricula by constrained optimal transport: particles that move to the target where they can."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_number
from pacebench.curricula.distributions import UniformBox
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.kernel_regression import NearbyRegression
from pacebench.curricula.options import SearchRange
from pacebench.curricula.registry import register
from pacebench.curricula.successes import Memory, remember, successful_contexts

# Directions along which the transport is found.
_DIRECTIONS = 100
# The authors' metric ε of 0.5 on a box of widths 8 and 7.5, for boxes of any size.
_EPSILON, _WIDTH = 0.5, 7.75
_BANDWIDTH = 0.3
# Candidates of each particle that are looked at first.
_FIRST = 10
# What a context drawn from a particle is off by, as a share of the box, and of a success the part
# that does not depend on how far it fell short.
_NOISE = 1e-3


class ParticleDistribution:
    """Equally likely particles in a box, each blurred by a thousandth of the box's widths."""

    def __init__(self, particles: Array, lower: Array, upper: Array) -> None:
        self.particles, self.lower, self.upper = particles, lower, upper

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return int(self.particles.shape[1])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        chosen = self.particles[rng.integers(len(self.particles), size=n)]
        blur = _NOISE * (self.upper - self.lower) * rng.uniform(-1.0, 1.0, chosen.shape)
        return np.clip(chosen + blur, self.lower, self.upper)


@register("currot")
class Currot(Curriculum):
    """CURROT (Klink et al. 2022): particles follow optimal transport to the target where V ≥ δ.

    The values of contexts are predicted from remembered ones (x, V) by kernel regression,

        V̂(c) = Σ k(c, x) V / Σ k(c, x)        k(c, x) = exp(−‖c − x‖²/2h²), h = 0.3 √ε

    over a buffer of successes (V ≥ δ), kept close to the target by optimal assignment, and the most
    recent failures, as far as they lie within 3h. Once the mean prediction over the particles has
    reached δ, each update

    1. replaces particles with V̂ < δ by successes, by optimal assignment;
    2. moves them along the sliced transport to as many target samples, x ↦ x + mean over directions
       u of (t_u − u·x)u with t_u its quantile's match, to a point y;
    3. draws candidates from the half ball around x towards y, of radius min(√ε, ‖y − x‖), and takes
       the nearest to y with V̂ > δ; where there is none, the one with the largest V̂.

    Under perfect performance the particles end at the target, whatever its shape. δ is the
    threshold V₋. Distances are in the contexts' own units, as published.

    Reference: P. Klink, H. Yang, C. D'Eramo, J. Peters, J. Pajarinen, "Curriculum Reinforcement
    Learning via Constrained Optimal Transport", ICML 2022.

    Args:
        particles: The number N of particles, of remembered successes and of failures.
        metric_epsilon: The squared radius ε of a step; None takes 0.5 · (mean width of the bounds /
            7.75)², which is the authors' 0.5 on their Point Mass.
        candidates: Points that each particle chooses among.
        start: Where the particles start: uniform over the `bounds`, or from the `initial`
            distribution.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        self_paced=True,
        kl_budget=False,
        needs_bounds=True,
        inside_bounds=True,
        bounded_memory=True,
        reaches_target=0.05,
    )
    result_version: ClassVar[str] = "4"
    search: ClassVar[dict[str, SearchRange]] = {"metric_epsilon": SearchRange(0.05, 2.0, log=True)}
    threshold: float

    def __init__(
        self,
        *,
        particles: int = 100,
        metric_epsilon: float | None = None,
        candidates: int = 100,
        start: str = "bounds",
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        for what, given in (("particles", particles), ("candidates", candidates)):
            if isinstance(given, bool) or not isinstance(given, int) or given < 2:
                raise CurriculumError(f"currot needs a whole number of {what} ≥ 2, not {given!r}.")
        self.lower, self.upper = self.bounds
        width = float((self.upper - self.lower).mean())
        if metric_epsilon is None:
            metric_epsilon = _EPSILON * (width / _WIDTH) ** 2
        self.radius = math.sqrt(max(0.0, as_number(metric_epsilon, "metric_epsilon")))
        if not 0.0 < self.radius < math.inf:
            raise CurriculumError(f"metric_epsilon must be positive, not {metric_epsilon!r}.")
        if start not in ("bounds", "initial"):
            raise CurriculumError(f"start must be 'bounds' or 'initial', not {start!r}.")
        self.count, self.candidates = particles, candidates
        source = UniformBox(*self.bounds) if start == "bounds" else self.initial
        drawn = source.sample(particles, np.random.default_rng([self.seed, 0, 0]))
        self.memory = Memory.empty(self.dim)
        # Whether the mean prediction has reached δ once.
        self.reached = False
        self._distribution = self._of(np.clip(drawn, self.lower, self.upper))

    def _of(self, particles: Array) -> ParticleDistribution:
        return ParticleDistribution(particles, self.lower, self.upper)

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        rng, particles = self._rng(), self._distribution.particles
        inside = np.clip(contexts, self.lower, self.upper)
        # As many target samples at each mode as belong there: particles must not change sides.
        draw = getattr(self.target, "stratified", self.target.sample)
        memory = remember(
            *(self.memory, inside, values, self.threshold, draw(self.count, rng)),
            size=self.count,
            fails=self.reached,
        )
        model = NearbyRegression(*memory.known(), _BANDWIDTH * self.radius, rng)
        expected = model(particles)
        mean = float(expected.mean())
        reached = self.reached or mean >= self.threshold
        state = {"memory": memory, "reached": reached}
        if not reached:
            return Proposal("wait", "below δ", self._distribution, state, mean)
        spread = 0.005 * self.radius**2, (self.upper - self.lower) / 4.0
        successes = successful_contexts(
            memory, self.threshold, self.count, spread, (self.lower, self.upper), rng
        )
        safe, good = self._replaced(model, particles, expected, successes)
        moved = self._moved(model, safe, good, draw(self.count, rng), rng)
        after = float(model(moved).mean())
        case = f"{int((~good).sum())} of {self.count} below δ"
        return Proposal("transport", case, self._of(moved), state, after)

    def _replaced(
        self, model: NearbyRegression, particles: Array, expected: Array, successes: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Returns the particles, those below δ replaced, and which of them are now above it."""
        safe, good = particles.copy(), expected >= self.threshold
        poor = np.flatnonzero(~good)
        if len(poor):
            valid = model(successes) >= self.threshold
            if int(valid.sum()) >= len(poor):
                successes, valid = successes[valid], valid[valid]
            _, chosen = linear_sum_assignment(cdist(safe[poor], successes, "sqeuclidean"))
            safe[poor], good[poor] = successes[chosen], valid[chosen]
        return safe, good

    def _moved(
        self,
        model: NearbyRegression,
        particles: Array,
        good: NDArray[np.bool_],
        wanted: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Returns where the particles go: towards `wanted`, to where V̂ exceeds δ."""
        way = transport(particles, wanted, rng)
        length2 = np.einsum("ij,ij->i", way, way)
        noise = rng.standard_normal((self.candidates, self.dim))
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        noise *= rng.random((self.candidates, 1)) ** (1.0 / self.dim)
        # Noise that points away is mirrored; a particle below δ looks around in the whole ball.
        with np.errstate(divide="ignore", invalid="ignore"):
            along = np.where(length2[:, None] > 0.0, (way @ noise.T) / length2[:, None], 0.0)
        back = np.where(good[:, None], np.minimum(along, 0.0), 0.0)
        offsets = noise - 2.0 * back[:, :, None] * way[:, None, :]
        scale = np.minimum(self.radius, np.sqrt(length2))
        points = particles[:, None, :] + scale[:, None, None] * offsets
        points = np.clip(points, self.lower, self.upper)
        gaps = points - (particles + way)[:, None, :]
        away = np.einsum("ijk,ijk->ij", gaps, gaps)
        # The nearest first; most particles find one among them, and the others need no prediction.
        order = np.argsort(away, axis=1, kind="stable")
        found, seeking = np.empty_like(particles), np.arange(len(particles))
        expected = np.empty(away.shape)
        for part in (slice(0, _FIRST), slice(_FIRST, None)):
            if not len(seeking):
                break
            tried = points[seeking[:, None], order[seeking, part]]
            predicted = model(tried.reshape(-1, self.dim)).reshape(tried.shape[:2])
            expected[seeking, part] = predicted
            above = predicted > self.threshold
            hit = above.any(axis=1)
            found[seeking[hit]] = tried[hit, above[hit].argmax(axis=1)]
            seeking = seeking[~hit]
        best = expected[seeking].argmax(axis=1)
        found[seeking] = points[seeking, order[seeking, best]]
        return found

    def _state(self) -> dict[str, Any]:
        particles = self._distribution.particles.tolist()
        return {"reached": self.reached, "particles": particles, **self.memory.to_dict()}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        particles = np.array(state["particles"], dtype=np.float64)
        if particles.shape != (self.count, self.dim):
            raise CurriculumError(
                f"the saved state of currot must have {self.count} particles of {self.dim} "
                "dimensions."
            )
        return {
            "reached": bool(state["reached"]),
            "memory": Memory.of(state, self.dim),
            "_distribution": self._of(particles),
        }


def transport(source: Array, wanted: Array, rng: np.random.Generator) -> Array:
    """Returns the displacement of each source point along the sliced transport to `wanted`."""
    directions = rng.standard_normal((_DIRECTIONS, source.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    here, there = directions @ source.T, np.sort(directions @ wanted.T, axis=1)
    gaps = -here
    order = here.argsort(axis=1)
    np.put_along_axis(gaps, order, there - np.take_along_axis(here, order, axis=1), axis=1)
    return np.asarray(gaps.T @ directions / _DIRECTIONS)
