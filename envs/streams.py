"""One random stream per copy, so that a copy does not depend on the others or their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from pacebench.envs.errors import SetupError

Seed = int | SeedSequence


def stream(seed: Seed) -> Generator:
    """Returns the generator that Gymnasium, too, would make of `seed`."""
    return Generator(PCG64(_sequence(seed)))


def children(seed: Seed, n: int) -> list[SeedSequence]:
    """Returns the first n children of a seed.

    The sequence's own counter is not touched, so the same argument always has the same children.
    """
    parent = _sequence(seed)
    fresh = SeedSequence(parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size)
    return fresh.spawn(n)


def spawn_streams(seed: Seed | Sequence[Seed], num_envs: int) -> list[Generator]:
    """Returns one generator per copy.

    An integer or a seed sequence stands for its first `num_envs` children; a list of seeds gives
    one to each copy.
    """
    if isinstance(seed, int | np.integer | SeedSequence):
        return [stream(child) for child in children(seed, num_envs)]
    if isinstance(seed, str) or not hasattr(seed, "__len__"):
        raise SetupError(
            f"seed must be an integer, a SeedSequence or one of these per copy, got {seed!r}."
        )
    if len(seed) != num_envs:
        raise SetupError(
            f"{len(seed)} seeds were given for {num_envs} copies; give one each or a single one."
        )
    return [stream(s) for s in seed]


def _sequence(seed: Seed) -> SeedSequence:
    if isinstance(seed, SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SetupError(f"a seed must be a non-negative integer or a SeedSequence, got {seed!r}.")
    return SeedSequence(int(seed))
