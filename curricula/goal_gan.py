"""Goal GAN: contexts of intermediate difficulty, from a generative adversarial network."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import UniformBox
from pacebench.curricula.episodes import Episodes
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.lsgan import Lsgan
from pacebench.curricula.options import SearchRange
from pacebench.curricula.procurl import PointDistribution
from pacebench.curricula.registry import register

# Rounds of training before the first update, on uniform contexts, and at every fit.
_PRETRAINING, _PRETRAINING_POINTS, _ROUNDS = 500, 1000, 250
# Old goals that are further apart than this share of the box's diagonal count as distinct.
_APART, _MOST_OLD = 0.01, 1000


class Rollouts(NamedTuple):
    """A context of the pool: whether it is generated, its episodes, and its successes."""

    generated: bool
    episodes: int = 0
    successes: int = 0


@register("goal-gan")
class GoalGan(Curriculum):
    """Goal GAN (Florensa et al. 2018): goals that are reached sometimes.

    A pool of contexts is drawn from evenly. After `rollouts` episodes a context leaves it with the
    label y = 1 where its success rate lies in [0.25, 0.75], else 0. After `fit_rate` labels a
    least-squares GAN over the bounds is trained on them, so that its generator G makes contexts of
    label 1: with normal z,

        D: min ½ E[(D(c) − (2y − 1))²] + ½ E[(D(G(z)) + 1)²]        G: min E[(D(G(z)) − 1)²]

    New contexts of the pool come from the generator, with normal noise, or with
    probability `old` from the contexts that were mastered (rate above 0.75, further than 0.01 of
    the box's diagonal from each other), with the same noise.

    Reference: C. Florensa, D. Held, X. Geng, P. Abbeel, "Automatic Goal Generation for
    Reinforcement Learning Agents", ICML 2018; constants of Klink et al. (2022).

    Args:
        rollouts: Episodes n of a context before it is labelled.
        noise: Standard deviation of the noise on new contexts, in widths of the bounds.
        fit_rate: Labels between two fits.
        old: The share p_old of mastered contexts.
        pool: How many contexts are in play; the authors play one after the other.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_bounds=True, inside_bounds=True, bounded_memory=True
    )
    reads: ClassVar[frozenset[str]] = frozenset({"contexts", "success"})
    search: ClassVar[dict[str, SearchRange]] = {
        "noise": SearchRange(0.02, 0.2, log=True),
        "fit_rate": SearchRange(100, 400, log=True, integer=True),
        "old": SearchRange(0.1, 0.4),
    }

    def __init__(
        self,
        *,
        rollouts: int = 2,
        noise: float = 0.1,
        fit_rate: int = 200,
        old: float = 0.2,
        pool: int = 20,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        for what, given in (("rollouts", rollouts), ("fit_rate", fit_rate), ("pool", pool)):
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise CurriculumError(f"goal-gan needs a whole number {what} ≥ 1, not {given!r}.")
        if not (float(noise) >= 0.0 and 0.0 <= float(old) <= 1.0):
            raise CurriculumError("goal-gan needs noise ≥ 0 and a share old from 0 to 1.")
        self.rollouts, self.noise, self.fit_rate = rollouts, float(noise), fit_rate
        self.old, self.pool = float(old), pool
        self.box = UniformBox(*self.bounds)
        self._middle = self.box.mean
        self._half = 0.5 * (self.box.upper - self.box.lower)
        self.gan = copy.deepcopy(_pretrained(self.dim, self.seed))
        self.mastered = np.zeros((0, self.dim))
        # Contexts with their labels that the next fit is made from.
        self.labelled = np.zeros((0, self.dim + 1))
        rng = np.random.default_rng([self.seed, 0, 0])
        self.played = self._filled({}, self.gan, self.mastered, rng)
        self._distribution = self._of(self.played)

    def _of(self, played: dict[tuple[float, ...], Rollouts]) -> PointDistribution:
        return PointDistribution(np.array(list(played)), np.full(len(played), 1.0 / len(played)))

    def _filled(
        self,
        played: dict[tuple[float, ...], Rollouts],
        gan: Lsgan,
        mastered: Array,
        rng: np.random.Generator,
    ) -> dict[tuple[float, ...], Rollouts]:
        """Returns the pool with new contexts in the places that are free."""
        free = self.pool - len(played)
        made = gan.generate(rng.standard_normal((free, self.dim), dtype=np.float32))
        fresh = self._middle + self._half * made.astype(np.float64)
        again = (rng.random(free) < self.old) & (len(mastered) > 0)
        if again.any():
            fresh[again] = mastered[rng.integers(len(mastered), size=int(again.sum()))]
        fresh = fresh + 2.0 * self._half * self.noise * rng.standard_normal(fresh.shape)
        fresh = np.clip(fresh, self.box.lower, self.box.upper)
        added = zip(fresh.tolist(), again.tolist(), strict=True)
        return {**played, **{tuple(c): Rollouts(generated=not replayed) for c, replayed in added}}

    def _propose_from(self, episodes: Episodes) -> Proposal:
        assert episodes.success is not None
        played = dict(self.played)
        columns = (episodes.contexts.tolist(), episodes.success.tolist())
        for context, success in zip(*columns, strict=True):
            so_far = played.get(tuple(context))
            if so_far is not None:
                played[tuple(context)] = so_far._replace(
                    episodes=so_far.episodes + 1, successes=so_far.successes + success
                )
        done = {c: r for c, r in played.items() if r.episodes >= self.rollouts}
        rates = {c: r.successes / r.episodes for c, r in done.items() if r.generated}
        rows = [[*c, float(0.25 <= rate <= 0.75)] for c, rate in rates.items()]
        labelled = np.concatenate([self.labelled, np.array(rows).reshape(-1, self.dim + 1)])
        mastered = self._distinct([c for c, rate in rates.items() if rate > 0.75])
        rng, gan, case = self._rng(), self.gan, "collecting"
        if len(labelled) >= self.fit_rate:
            case = "no context in between"
            if labelled[:, -1].any():
                gan, case = copy.deepcopy(self.gan), "fitted"
                points = ((labelled[:, :-1] - self._middle) / self._half).astype(np.float32)
                gan.train(points, labelled[:, -1].astype(np.float32), _ROUNDS, rng)
            labelled = labelled[:0]
        remaining = {c: r for c, r in played.items() if c not in done}
        filled = self._filled(remaining, gan, mastered, rng)
        state = {"gan": gan, "mastered": mastered, "labelled": labelled, "played": filled}
        return Proposal("goals", case, self._of(filled), state)

    def _distinct(self, candidates: list[tuple[float, ...]]) -> Array:
        """Returns the mastered contexts with those added that are far from all others."""
        kept = self.mastered
        apart = _APART * float(np.linalg.norm(2.0 * self._half))
        for candidate in candidates:
            gaps = np.linalg.norm(kept - np.array(candidate), axis=1)
            if not len(kept) or float(gaps.min()) > apart:
                kept = np.concatenate([kept, [candidate]])[-_MOST_OLD:]
        return kept

    def _state(self) -> dict[str, Any]:
        return {
            **self.gan.to_dict(),
            "mastered": self.mastered.tolist(),
            "labelled": self.labelled.tolist(),
            "played": [[list(context), *rollouts] for context, rollouts in self.played.items()],
        }

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        gan = copy.deepcopy(self.gan)
        try:
            gan.restore(state)
        except ValueError:
            raise CurriculumError("the saved networks of goal-gan have other sizes.") from None
        played = {
            tuple(map(float, context)): Rollouts(bool(generated), int(episodes), int(successes))
            for context, generated, episodes, successes in state["played"]
        }
        return {
            "gan": gan,
            "mastered": np.array(state["mastered"], dtype=np.float64).reshape(-1, self.dim),
            "labelled": np.array(state["labelled"], dtype=np.float64).reshape(-1, self.dim + 1),
            "played": played,
            "_distribution": self._of(played),
        }


@lru_cache(maxsize=16)
def _pretrained(dim: int, seed: int) -> Lsgan:
    """Returns networks that generate uniform contexts; training them takes most of a second."""
    rng = np.random.default_rng([seed, 0, 1])
    gan = Lsgan(dim, rng)
    uniform = rng.uniform(-1.0, 1.0, (_PRETRAINING_POINTS, dim)).astype(np.float32)
    gan.train(uniform, np.ones(len(uniform), np.float32), _PRETRAINING, rng)
    return gan
