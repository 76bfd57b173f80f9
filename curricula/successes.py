"""What CURROT remembers of episodes: successes near the target, and recent failures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from pacebench.curricula.checks import Array
from pacebench.curricula.errors import CurriculumError

# How often noise is drawn before a context that lies outside of the bounds is clipped.
_DRAWS = 11


class Memory(NamedTuple):
    """Remembered episodes.

    Attributes:
        contexts: Those of the successes; before half of them exceed δ, of the best.
        values: Their values.
        failed_contexts: Those of recent episodes that were not taken in.
        failed_values: Their values.
        settled: Whether half of the successes exceeded δ before the last update.
        worst: The smallest value of the first update.
    """

    contexts: Array
    values: Array
    failed_contexts: Array
    failed_values: Array
    settled: bool = False
    worst: float | None = None

    @classmethod
    def empty(cls, dim: int) -> Memory:
        """Returns the memory of nothing."""
        none = np.zeros((0, dim))
        return cls(none, np.zeros(0), none, np.zeros(0))

    def known(self) -> tuple[Array, Array]:
        """Returns all contexts with their values."""
        return (
            np.concatenate([self.failed_contexts, self.contexts]),
            np.concatenate([self.failed_values, self.values]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-able values."""
        return {
            k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self._asdict().items()
        }

    @classmethod
    def of(cls, state: dict[str, Any], dim: int) -> Memory:
        """Reads what `to_dict` returned."""
        names = ("contexts", "values", "failed_contexts", "failed_values")
        found = [np.array(state[name], dtype=np.float64) for name in names]
        contexts, values, failed, failed_values = found
        contexts, failed = contexts.reshape(-1, dim), failed.reshape(-1, dim)
        if len(contexts) != len(values) or len(failed) != len(failed_values):
            raise CurriculumError("the saved episodes of currot lack contexts or values.")
        settled, worst = bool(state["settled"]), state["worst"]
        return cls(contexts, values, failed, failed_values, settled, worst)


def remember(
    memory: Memory,
    contexts: Array,
    values: Array,
    threshold: float,
    wanted: Array,
    size: int,
    *,
    fails: bool,
) -> Memory:
    """Returns the memory after further episodes.

    Args:
        memory: What was remembered.
        contexts: The contexts of the episodes.
        values: Their values.
        threshold: δ.
        wanted: Samples of the target, as many as `size`.
        size: How many successes, and how many failures, are kept.
        fails: Whether failures are remembered already.
    """
    take = _near if memory.settled else _best
    kept, kept_values, taken = take(memory, contexts, values, threshold, wanted, size)
    failed, failed_values = memory.failed_contexts, memory.failed_values
    if fails:
        failed = np.concatenate([failed, contexts[~taken]])[-size:]
        failed_values = np.concatenate([failed_values, values[~taken]])[-size:]
    before = memory.values
    settled = memory.settled or bool(len(before) and before[len(before) // 2] > threshold)
    worst = float(values.min()) if memory.worst is None else memory.worst
    return Memory(kept, kept_values, failed, failed_values, settled, worst)


_Taken = tuple[Array, Array, np.ndarray[Any, np.dtype[np.bool_]]]


def _best(
    memory: Memory, contexts: Array, values: Array, threshold: float, wanted: Array, size: int
) -> _Taken:
    """Exchanges the lower half of the memory for episodes that are no worse than its median."""
    middle = len(memory.values) // 2
    taken = (
        values >= memory.values[middle] if len(memory.values) else np.ones(len(values), np.bool_)
    )
    dropped = min(int(taken.sum()), middle + 1)
    pool = np.concatenate([contexts[taken], memory.contexts[dropped:]])
    pool_values = np.concatenate([values[taken], memory.values[dropped:]])
    order = np.argsort(pool_values, kind="stable")[-size:]
    stays = np.zeros(len(pool), np.bool_)
    stays[order] = True
    taken[taken] = stays[: int(taken.sum())]
    return pool[order], pool_values[order], taken


def _near(
    memory: Memory, contexts: Array, values: Array, threshold: float, wanted: Array, size: int
) -> _Taken:
    """Exchanges what fell short for new successes; where nothing did, keeps those near target."""
    taken = values >= threshold
    if not taken.any():
        return memory.contexts, memory.values, taken
    # The worst of those below δ make room first.
    short = np.flatnonzero(memory.values < threshold)
    short = short[np.argsort(memory.values[short], kind="stable")][: int(taken.sum())]
    pool = np.concatenate([contexts[taken], np.delete(memory.contexts, short, axis=0)])
    pool_values = np.concatenate([values[taken], np.delete(memory.values, short)])
    if len(short) or len(memory.values) < size:
        chosen = np.arange(len(pool))[:size]
    else:
        chosen, _ = linear_sum_assignment(cdist(pool, wanted, "sqeuclidean"))
    taken[taken] = np.isin(np.arange(int(taken.sum())), chosen)
    return pool[chosen], pool_values[chosen], taken


def successful_contexts(
    memory: Memory,
    threshold: float,
    count: int,
    spread: tuple[float, Array],
    bounds: tuple[Array, Array],
    rng: np.random.Generator,
) -> Array:
    """Returns `count` contexts around remembered ones, the further the more they fall short.

    Args:
        memory: What is remembered.
        threshold: δ.
        count: How many.
        spread: Standard deviations of the noise: where δ is reached, and added where a value is the
            worst ever.
        bounds: The smallest and the largest context; noise that leads beyond is drawn anew.
        rng: The source of randomness.
    """
    contexts, values = memory.contexts, memory.values
    worst = threshold if memory.worst is None else memory.worst
    short = np.maximum(0.0, threshold - values) / max(threshold - worst, 1e-300)
    if memory.settled:
        chosen = np.arange(len(values))[:count]
        chosen = np.concatenate([chosen, rng.integers(len(values), size=count - len(chosen))])
    else:
        # The upper half, in proportion to what each is above the middle.
        half = len(values) // 2
        excess = values[half:] - values[max(0, half - 1)]
        total = float(excess.sum())
        chances = excess / total if total > 0.0 else None
        chosen = half + rng.choice(len(excess), size=count, p=chances)
    noise = spread[0] + np.minimum(1.0, short[chosen])[:, None] * spread[1]
    drawn, outside = np.array(contexts[chosen]), np.arange(count)
    for _ in range(_DRAWS):
        step = noise[outside] * rng.standard_normal((len(outside), contexts.shape[1]))
        drawn[outside] = contexts[chosen[outside]] + step
        beyond = (drawn < bounds[0]) | (drawn > bounds[1])
        outside = np.flatnonzero(beyond.any(axis=1))
    return np.clip(drawn, *bounds)
