"""Whole episodes of a scripted policy, for anchors, checks and pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from pacebench.envs.arrays import Bools, Floats, Indices
from pacebench.envs.registry import make_batch, setup
from pacebench.envs.setup import Setup
from pacebench.envs.streams import children, stream

_COPIES = 100


@dataclass(frozen=True)
class PlayedEpisodes:
    """What n episodes came to, one entry per episode.

    Attributes:
        contexts: Raw contexts (n, d).
        returns: Undiscounted returns.
        discounted_returns: Returns discounted with the setup's γ.
        successes: Whether the episode was a success.
        lengths: Steps taken.
        terminated: Whether it ended by itself, rather than at the horizon.
    """

    contexts: Floats
    returns: Floats
    discounted_returns: Floats
    successes: Bools
    lengths: NDArray[np.int64]
    terminated: Bools


def draw_contexts(name: str | Setup, n: int, seed: SeedSequence, which: str = "target") -> Floats:
    """Draws contexts (n, d) from a setup's `target` or `initial` distribution, unclipped."""
    return setup(name).sample(which, n, stream(seed))


def play(name: str | Setup, policy: str, contexts: Floats, seed: SeedSequence) -> PlayedEpisodes:
    """Plays one episode per context; a copy that has finished one takes up the next.

    Args:
        name: A setup or its name.
        policy: `random`, `hold` or `reference`.
        contexts: Raw contexts (n, d).
        seed: Episode i draws from its i-th child, the random policy from the child after the last.
    """
    spec = setup(name)
    n = len(contexts)
    seeds = children(seed, n + 1)
    rng = stream(seeds[n])
    copies = min(n, _COPIES)
    returns, discounted = np.zeros(n), np.zeros(n)
    successes, terminations = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    lengths = np.zeros(n, np.int64)

    # Which episode each copy plays; when none is left, it repeats its last one, uncounted.
    episode = np.arange(copies)
    counted = np.ones(copies, np.bool_)
    started = copies

    def next_contexts(indices: Indices) -> Floats:
        nonlocal started
        for i in indices:
            counted[i] = started < n
            if counted[i]:
                episode[i] = started
                batch.set_stream(int(i), stream(seeds[started]))
                started += 1
        return contexts[episode[indices]]

    batch = make_batch(spec, copies, seeds[:copies], next_contexts)
    batch.reset(contexts[:copies])
    powers = spec.gamma ** np.arange(spec.horizon)
    while counted.any():
        now, playing = episode.copy(), counted.copy()
        _, reward, terminated, truncated, info = batch.step(batch.actions(policy, rng))
        # No two copies count the same episode at a time, so indexing adds up correctly.
        returns[now[playing]] += reward[playing]
        discounted[now[playing]] += (powers[info["elapsed"] - 1] * reward)[playing]
        ended = playing & (terminated | truncated)
        successes[now[ended]] = info["success"][ended]
        terminations[now[ended]] = terminated[ended]
        lengths[now[ended]] = info["elapsed"][ended]
    batch.close()
    return PlayedEpisodes(contexts, returns, discounted, successes, lengths, terminations)
