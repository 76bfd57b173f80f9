"""Automated curriculum learning by a bandit over a grid of contexts."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacebench.curricula.base import Common, Curriculum, Proposal
from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_number
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.options import SearchRange
from pacebench.curricula.registry import register

# More cells than this take longer to weigh than an episode to play.
_MOST_CELLS = 1_000_000


class GridDistribution:
    """Uniform within each cell of a grid over a box, the cells with probabilities of their own.

    Args:
        lower: Lower bounds of the box, (d,).
        upper: Upper bounds, (d,).
        bins: Cells along each dimension.
        probabilities: One for each cell, (bins^d,), the last dimension running fastest.
    """

    def __init__(self, lower: Array, upper: Array, bins: int, probabilities: Array) -> None:
        self.lower, self.upper, self.bins = lower, upper, bins
        self.probabilities = probabilities
        self.width = (upper - lower) / bins

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return len(self.lower)

    def cells(self, contexts: Array) -> NDArray[np.intp]:
        """Returns the number of the cell that each context lies in, or is nearest to."""
        places = np.floor((contexts - self.lower) / self.width)
        places = np.clip(places, 0, self.bins - 1).astype(np.intp)
        return np.asarray(np.ravel_multi_index(tuple(places.T), (self.bins,) * self.dim))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts, (n, d)."""
        edges = np.cumsum(self.probabilities)
        chosen = np.searchsorted(edges, rng.random(n) * edges[-1], side="right")
        chosen = np.minimum(chosen, len(edges) - 1)
        corner = np.stack(np.unravel_index(chosen, (self.bins,) * self.dim), axis=1)
        drawn = self.lower + (corner + rng.random((n, self.dim))) * self.width
        # Rounding may lead a hair's breadth beyond the box.
        return np.clip(drawn, self.lower, self.upper)

    def log_prob(self, x: ArrayLike) -> Any:
        """Returns the log density at one context (d,) or at each row of (n, d); −∞ outside."""
        points = np.atleast_2d(np.asarray(x, dtype=np.float64))
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities[self.cells(points)]) - np.log(self.width).sum()
        logs = np.where(inside, logs, -math.inf)
        return float(logs[0]) if np.ndim(x) == 1 else logs

    def kl(self, other: Any) -> float | None:
        """Returns KL(self‖other) to another distribution over the same grid, None to others."""
        if not isinstance(other, GridDistribution) or other.bins != self.bins:
            return None
        ratio = np.log(self.probabilities / other.probabilities)
        return max(0.0, float(self.probabilities @ ratio))


@register("acl")
class Acl(Curriculum):
    """Automated curriculum learning (Graves et al. 2017): a bandit seeks progress, cell by cell.

    The context box is a grid of N cells, contexts uniform within a cell. An episode with value V in
    cell i has the reward r = `|V − V of the last episode there|`, scaled to [−1, 1] by the smallest
    and largest so far. Exp3.S (Auer et al. 2002) weighs the cells: with π the probability that the
    cell was drawn with, and α = 1/t at the t-th episode,

        wᵢ ← wᵢ + η r/πᵢ      w ← ln[(1 − α) e^w + (α/N) Σ e^w]      π = (1 − ε) softmax(w) + ε/N

    Values that never change leave every cell as likely as before. Constants and scaling are those
    of the comparison in Klink et al. (2022).

    Reference: A. Graves, M. G. Bellemare, J. Menick, R. Munos, K. Kavukcuoglu, "Automated
    Curriculum Learning for Neural Networks", ICML 2017.

    Args:
        bins: Cells along each dimension; None takes 50 in one or two dimensions, 20 in three, and
            about 8 000 cells in all in more.
        exploration: The share ε of contexts drawn uniformly.
        rate: The step size η of the weights.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_bounds=True, inside_bounds=True, uniform_without_progress=True
    )
    result_version: ClassVar[str] = "2"
    search: ClassVar[dict[str, SearchRange]] = {
        "exploration": SearchRange(0.05, 0.4),
        "rate": SearchRange(0.005, 0.1, log=True),
    }

    def __init__(
        self,
        *,
        bins: int | None = None,
        exploration: float = 0.2,
        rate: float = 0.025,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        assert self.bounds is not None
        if bins is None:
            bins = 50 if self.dim <= 2 else max(2, round(8000 ** (1 / self.dim)))
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise CurriculumError(f"acl needs a whole number of bins ≥ 1, not {bins!r}.")
        if bins**self.dim > _MOST_CELLS:
            raise CurriculumError(
                f"acl with {bins} bins in {self.dim} dimensions has {bins}^{self.dim} cells; "
                f"give fewer bins, so that there are at most {_MOST_CELLS}."
            )
        self.exploration, self.rate = as_number(exploration, "exploration"), as_number(rate, "rate")
        if not (0.0 < self.exploration <= 1.0 and 0.0 < self.rate < math.inf):
            raise CurriculumError("acl needs 0 < exploration ≤ 1 and a positive rate.")
        self.bins, count = bins, bins**self.dim
        self.weights = np.zeros(count)
        # The last value of each cell, NaN before the first.
        self.last = np.full(count, math.nan)
        self.extremes = (math.inf, -math.inf)
        self.episodes = 0
        self._distribution = self._grid(self.weights)

    def _grid(self, weights: Array) -> GridDistribution:
        assert self.bounds is not None
        softmax = np.exp(weights - weights.max())
        softmax /= softmax.sum()
        mixed = (1.0 - self.exploration) * softmax + self.exploration / len(weights)
        return GridDistribution(*self.bounds, self.bins, mixed)

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        cells = self._distribution.cells(contexts)
        chances = self._distribution.probabilities[cells].tolist()
        last, (low, high) = self.last.copy(), self.extremes
        visited, places = np.unique(cells, return_inverse=True)
        # Every cell that is not visited has w = ln(aᵤ e^(w before) + bᵤ) with the same aᵤ and bᵤ,
        # so a visit costs the same whatever the number of cells.
        own, others = self.weights[visited], np.delete(self.weights, visited)
        before, number = -math.inf, -math.inf
        if len(others):
            before, number = float(np.logaddexp.reduce(others)), math.log(len(others))
        kept, gained = 0.0, -math.inf
        for t, (i, cell, chance, value) in enumerate(
            zip(places.tolist(), cells.tolist(), chances, values.tolist(), strict=True),
            start=self.episodes + 2,
        ):
            progress = 0.0 if math.isnan(last[cell]) else abs(value - float(last[cell]))
            last[cell] = value
            low, high = min(low, progress), max(high, progress)
            span = high - low
            if span > 1e-12 * high:
                own[i] += self.rate * (2.0 * (progress - low) / span - 1.0) / chance
            rest = np.logaddexp(before + kept, gained + number)
            total = np.logaddexp(rest, np.logaddexp.reduce(own))
            shared = float(total) - math.log(t) - math.log(len(last))
            left = math.log1p(-1.0 / t)
            own = np.logaddexp(own + left, shared)
            kept, gained = kept + left, float(np.logaddexp(gained + left, shared))
        weights = np.logaddexp(self.weights + kept, gained)
        weights[visited] = own
        state = {
            "weights": weights - weights.max(),
            "last": last,
            "extremes": (low, high),
            "episodes": self.episodes + len(values),
        }
        return Proposal("bandit", "weighed", self._grid(state["weights"]), state)

    def _state(self) -> dict[str, Any]:
        return {
            "weights": self.weights.tolist(),
            "last": [None if math.isnan(x) else x for x in self.last.tolist()],
            "extremes": list(self.extremes) if self.episodes else None,
            "episodes": self.episodes,
        }

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        weights = np.array(state["weights"], dtype=np.float64)
        last = np.array(state["last"], dtype=np.float64)
        if weights.shape != self.weights.shape or last.shape != self.last.shape:
            raise CurriculumError(f"the saved state of acl is not that of {len(self.last)} cells.")
        return {
            "weights": weights,
            "last": last,
            "extremes": tuple(state["extremes"] or (math.inf, -math.inf)),
            "episodes": int(state["episodes"]),
            "_distribution": self._grid(weights),
        }
