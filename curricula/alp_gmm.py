"""ALP-GMM: practise where the absolute learning progress is."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np
from scipy.spatial.distance import cdist

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import Distribution, Mixture, UniformBox
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.gmm import best_mixture
from pacebench.curricula.options import SearchRange
from pacebench.curricula.registry import register

# Numbers of components that are tried, and how many episodes progress needs to compare with.
_SIZES, _FEWEST = range(2, 11), 5


class ClippedMixture:
    """A Gaussian mixture clipped to a box, with a share of uniform contexts.

    Args:
        box: The box.
        mixture: The mixture, in units of the box: [0, 1] is from its lower to its upper bound.
        uniform: The share of contexts that are uniform over the box.
    """

    def __init__(self, box: UniformBox, mixture: Mixture, uniform: float) -> None:
        self.box, self.mixture, self.uniform = box, mixture, uniform

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return self.box.dim

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        drawn = self.box.sample(n, rng)
        fitted = np.flatnonzero(rng.random(n) >= self.uniform)
        shares = np.clip(self.mixture.sample(len(fitted), rng), 0.0, 1.0)
        drawn[fitted] = self.box.lower + shares * (self.box.upper - self.box.lower)
        return np.clip(drawn, self.box.lower, self.box.upper)


@register("alp-gmm")
class AlpGmm(Curriculum):
    """ALP-GMM (Portelas et al. 2019): a mixture model of where progress is made.

    The absolute learning progress of an episode with value V at c is `|V − V'|`, V' the value of
    the nearest earlier context, in units of the box. Every `fit_rate` episodes, mixtures of 2 to 10
    Gaussians are fitted to the last of them as points (c, ALP); the lowest AIC wins. A context is
    uniform with probability `uniform`; otherwise it is drawn from a component, chosen in proportion
    to its mean ALP, and clipped to the bounds. Until the first fit, and while no component shows
    progress, all contexts are uniform.

    Reference: R. Portelas, C. Colas, K. Hofmann, P.-Y. Oudeyer, "Teacher algorithms for curriculum
    learning of Deep RL in continuously parameterized environments", CoRL 2019; constants of Klink
    et al. (2022).

    Args:
        fit_rate: Episodes between two fits, and in each.
        uniform: The share p of contexts drawn uniformly.
        history: How many episodes the nearest is looked for among.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_bounds=True, inside_bounds=True, bounded_memory=True, uniform_without_progress=True
    )
    result_version: ClassVar[str] = "2"
    search: ClassVar[dict[str, SearchRange]] = {
        "fit_rate": SearchRange(50, 300, log=True, integer=True),
        "uniform": SearchRange(0.05, 0.4),
    }

    def __init__(
        self,
        *,
        fit_rate: int = 100,
        uniform: float = 0.1,
        history: int = 500,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        for what, given, least in (("fit_rate", fit_rate, 2), ("history", history, 1)):
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise CurriculumError(
                    f"alp-gmm needs a whole number {what} ≥ {least}, not {given!r}."
                )
        if not 0.0 <= float(uniform) <= 1.0:
            raise CurriculumError(f"alp-gmm needs a share uniform from 0 to 1, not {uniform!r}.")
        self.fit_rate, self.uniform, self.history = fit_rate, float(uniform), history
        self.box = UniformBox(*self.bounds)
        self.episodes = 0
        # One row an episode, the latest last: its context in units of the box, and its value.
        self.known = np.zeros((0, self.dim + 1))
        # The same with its learning progress, of the next fit.
        self.fresh = np.zeros((0, self.dim + 1))
        # The components with progress: weight, mean and covariance in units of the box.
        self.parts: list[tuple[float, list[float], list[list[float]]]] = []
        self._distribution = self._of(self.parts)

    def _of(self, parts: list[tuple[float, list[float], list[list[float]]]]) -> Distribution:
        if not parts:
            return self.box
        components = [Gaussian(mean, covariance) for _, mean, covariance in parts]
        mixture = Mixture(components, [weight for weight, _, _ in parts])
        return ClippedMixture(self.box, mixture, self.uniform)

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        width = self.box.upper - self.box.lower
        shares = np.clip((contexts - self.box.lower) / width, 0.0, 1.0)
        known, fresh, parts, episodes = self.known, self.fresh, self.parts, self.episodes
        case = "collecting"
        everything = np.concatenate([known, np.column_stack([shares, values])])
        progress = self._progress(everything, len(values))
        fresh = np.concatenate([fresh, np.column_stack([shares, progress])])
        while len(fresh) >= self.fit_rate:
            parts, case = self._fitted(fresh[: self.fit_rate]), "fitted"
            fresh = fresh[self.fit_rate :]
        known, episodes = everything[-self.history :], episodes + len(values)
        state = {"known": known, "fresh": fresh, "parts": parts, "episodes": episodes}
        p = self._distribution if parts is self.parts else self._of(parts)
        return Proposal("mixture", case, p, state)

    def _progress(self, known: Array, count: int) -> Array:
        """Returns |V − V of the nearest earlier context| of the last `count` episodes."""
        gaps = cdist(known[-count:, :-1], known[:, :-1], "sqeuclidean")
        own, others = np.arange(len(known) - count, len(known))[:, None], np.arange(len(known))
        gaps[(others >= own) | (others < own - self.history)] = np.inf
        change = np.abs(known[-count:, -1] - known[gaps.argmin(axis=1), -1])
        earlier = np.minimum(own[:, 0], self.history)
        return np.where(earlier > _FEWEST, change, 0.0)

    def _fitted(self, points: Array) -> list[tuple[float, list[float], list[list[float]]]]:
        """Returns the components of the best mixture that show progress."""
        # Progress has the unit of the values: fitted in its own, so that none is favoured.
        unit = float(points[:, -1].max())
        if unit == 0.0:
            return []
        scaled = points / np.append(np.ones(self.dim), unit)
        found = best_mixture(scaled, _SIZES, self._rng())
        d = self.dim
        return [
            (float(mean[d]), mean[:d].tolist(), covariance[:d, :d].tolist())
            for mean, covariance in zip(found.means, found.covariances, strict=True)
            if mean[d] > 0.0
        ]

    def _state(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "known": self.known.tolist(),
            "fresh": self.fresh.tolist(),
            "parts": [list(part) for part in self.parts],
        }

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        known, fresh = (
            np.array(state[name], dtype=np.float64).reshape(-1, self.dim + 1)
            for name in ("known", "fresh")
        )
        if len(known) > self.history or len(fresh) >= self.fit_rate:
            raise CurriculumError(
                f"the saved episodes of alp-gmm must be at most {self.history} and fewer than "
                f"{self.fit_rate} to fit."
            )
        parts = [(float(w), list(mean), list(rows)) for w, mean, rows in state["parts"]]
        return {
            "episodes": int(state["episodes"]),
            "known": known,
            "fresh": fresh,
            "parts": parts,
            "_distribution": self._of(parts),
        }
