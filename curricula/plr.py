"""Prioritised level replay, for contexts from a box."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import UniformBox
from pacebench.curricula.episodes import Episodes
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.options import SearchRange
from pacebench.curricula.registry import register


class ReplayDistribution:
    """Contexts of a buffer with probabilities of their own, or new ones uniform over a box."""

    def __init__(self, box: UniformBox, contexts: Array, probabilities: Array, rate: float) -> None:
        self.box, self.contexts, self.probabilities = box, contexts, probabilities
        self.rate = rate if len(contexts) else 0.0

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return self.box.dim

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        drawn = self.box.sample(n, rng)
        replayed = np.flatnonzero(rng.random(n) < self.rate)
        if len(replayed):
            chosen = rng.choice(len(self.contexts), size=len(replayed), p=self.probabilities)
            drawn[replayed] = self.contexts[chosen]
        return drawn


@register("plr")
class Plr(Curriculum):
    """Prioritised level replay (Jiang et al. 2021), over a box as in Klink et al. (2022).

    A buffer keeps contexts with the best return R of each and the score

        S = mean over the episode of max(0, R − V(s))

    of its last episode. With probability `replay_rate` a context of the buffer is replayed, drawn
    with (1 − ρ) P_S + ρ P_C: P_S ∝ rank^(−1/β) by descending score, P_C ∝ episodes since its last.
    Otherwise the context is new and uniform over the bounds, and takes the place of the lowest
    score once the buffer is full, if its own is higher.

    Reference: M. Jiang, E. Grefenstette, T. Rocktäschel, "Prioritized Level Replay", ICML 2021;
    `robust`: M. Jiang et al., "Replay-Guided Adversarial Environment Design", NeurIPS 2021.

    Args:
        buffer: How many contexts are kept.
        replay_rate: The share of contexts that are replayed.
        beta: The temperature β of the ranks.
        rho: The share ρ of staleness.
        robust: Whether the learner takes gradients from replayed contexts alone, which it must
            be able to do.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_bounds=True, inside_bounds=True, bounded_memory=True
    )
    reads: ClassVar[frozenset[str]] = frozenset({"contexts", "discounted_returns", "value_errors"})
    search: ClassVar[dict[str, SearchRange]] = {
        "replay_rate": SearchRange(0.3, 0.95),
        "beta": SearchRange(0.1, 1.0, log=True),
        "rho": SearchRange(0.05, 0.5),
    }

    def __init__(
        self,
        *,
        buffer: int = 100,
        replay_rate: float = 0.85,
        beta: float = 0.45,
        rho: float = 0.15,
        robust: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        if isinstance(buffer, bool) or not isinstance(buffer, int) or buffer < 1:
            raise CurriculumError(f"plr needs a buffer of a whole number ≥ 1, not {buffer!r}.")
        shares = 0.0 <= float(replay_rate) <= 1.0 and 0.0 <= float(rho) <= 1.0
        if not (shares and 0.0 < float(beta) < math.inf):
            raise CurriculumError("plr needs replay_rate and rho between 0 and 1 and a beta > 0.")
        self.buffer, self.replay_rate, self.beta, self.rho = buffer, replay_rate, beta, rho
        self.selective = bool(robust)
        self.box = UniformBox(*self.bounds)
        # Episodes so far; and of each context kept its score, best return and last episode.
        self.clock = 0
        self.kept: dict[tuple[float, ...], tuple[float, float, int]] = {}
        self._distribution = self._replay(self.kept, self.clock)

    @classmethod
    def asks(cls, options: dict[str, Any]) -> frozenset[str]:
        """A robust one asks the learner to leave episodes out of its gradients."""
        return frozenset({"selective_gradients"}) if options.get("robust") else frozenset()

    def best_returns(self, contexts: Array) -> Array:
        """Returns the best discounted return known of each context, −∞ where none is."""
        unknown = (0.0, -math.inf, 0)
        return np.array([self.kept.get(tuple(c), unknown)[1] for c in contexts.tolist()])

    def learns_from(self, contexts: Array) -> NDArray[np.bool_]:
        """Says of each context whether the learner should take gradients from its episodes."""
        if not self.selective:
            return super().learns_from(contexts)
        return np.isfinite(self.best_returns(contexts))

    def _replay(
        self, kept: dict[tuple[float, ...], tuple[float, float, int]], clock: int
    ) -> ReplayDistribution:
        contexts = np.array(list(kept), dtype=np.float64).reshape(-1, self.dim)
        scores = np.array([score for score, _, _ in kept.values()])
        staleness = np.array([float(clock - last) for _, _, last in kept.values()])
        chances = probabilities(scores, staleness, self.beta, self.rho)
        return ReplayDistribution(self.box, contexts, chances, self.replay_rate)

    def _propose_from(self, episodes: Episodes) -> Proposal:
        assert episodes.discounted_returns is not None
        assert episodes.value_errors is not None
        columns = (episodes.contexts, episodes.discounted_returns, episodes.value_errors)
        kept, clock, replayed = dict(self.kept), self.clock, 0
        for context, reached, score in zip(*(c.tolist() for c in columns), strict=True):
            clock += 1
            key = tuple(context)
            known = kept.get(key)
            if known is None and len(kept) >= self.buffer:
                lowest = min(kept, key=lambda c: kept[c][0])
                if score <= kept[lowest][0]:
                    continue
                del kept[lowest]
            replayed += known is not None
            kept[key] = (score, reached if known is None else max(reached, known[1]), clock)
        p = self._replay(kept, clock)
        case = f"{replayed} of {len(episodes)} replayed"
        return Proposal("replay", case, p, {"kept": kept, "clock": clock})

    def _state(self) -> dict[str, Any]:
        kept = [[list(context), *facts] for context, facts in self.kept.items()]
        return {"clock": self.clock, "kept": kept}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        kept = {
            tuple(map(float, context)): (float(score), float(best), int(last))
            for context, score, best, last in state["kept"]
        }
        if len(kept) > self.buffer or any(len(context) != self.dim for context in kept):
            raise CurriculumError(
                f"the saved buffer of plr must be at most {self.buffer} contexts of {self.dim} "
                "dimensions."
            )
        clock = int(state["clock"])
        return {"kept": kept, "clock": clock, "_distribution": self._replay(kept, clock)}


def probabilities(scores: Array, staleness: Array, beta: float, rho: float) -> Array:
    """Returns (1 − ρ) P_S + ρ P_C of a buffer; equal scores rank in the order of the buffer."""
    if not len(scores):
        return np.zeros(0)
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    by_score = ranks ** (-1.0 / beta)
    by_score /= by_score.sum()
    total = float(staleness.sum())
    if total == 0.0:
        return by_score
    mixed = (1.0 - rho) * by_score + rho * staleness / total
    return np.asarray(mixed / mixed.sum())
