"""What one overhead measurement does: the grid, the curricula, the limit, the number of blocks."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pacebench import curricula
from pacebench.harness.store.provenance import sources
from pacebench.harness.study.specs import Frozen, digest

REFERENCE = "spgl"
# The reference under other names: the A/A of every cell, and a slowdown that must be found.
TWIN, SLOWED = "spgl (twin)", "spgl + 5 %"
# Raised by hand when a change of ours alters what is timed: blocks made before are measured again.
DESIGN = 6
_QUICK = {
    "dimensions": (1, 3, 10, 100, 1_000),
    "sizes": (16, 256),
    "limit": 0.5,
    "instances": 5,
    "training_seeds": 3,
    "training_steps": 20_480,
}


class Settings(Frozen):
    """The settings of a measurement; whatever changes a measured number is in here."""

    # The synthetic grid: context dimensions d, and numbers K of contexts per update.
    dimensions: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 50, 100, 1_000, 10_000)
    sizes: tuple[int, ...] = (16, 64, 256, 1_024)
    curricula: tuple[str, ...]  # registered names, all timed in every cell
    # Instances of a synthetic cell, replayed by every block; a recorded stream has twice as many.
    instances: int = Field(default=10, ge=3)
    # Replicates; each is a fresh process that goes through all cells.
    blocks: int = Field(default=10, ge=10)
    # Seconds of processor time that an update may take on average; what takes longer is not timed.
    limit: float = Field(default=2.0, gt=0)
    # Seconds that a quick curriculum is timed for in either half of a block.
    share: float = Field(default=0.02, gt=0)
    epsilon: float = Field(default=0.05, gt=0)  # the KL budget ε of every replayed update
    seed: int = Field(default=2026, ge=0)  # root of the synthetic streams and of the orders
    training_seeds: int = Field(default=10, ge=2)  # instrumented training runs per curriculum
    training_steps: int = Field(default=40_960, ge=1)  # environment steps of each

    def cell_digest(self) -> str:
        """Returns what a stored block must agree with to be kept.

        The number of blocks and the grid are left out: more of either adds to what is there. The
        source is in, because another implementation has another speed.
        """
        keep = {"curricula", "limit", "instances", "share", "epsilon", "seed"}
        own = self.model_dump(mode="json", include=keep)
        return digest(own | {"sources": sources(), "design": DESIGN})

    def order(self, *key: int) -> np.random.Generator:
        """Returns the generator of one randomised order; streams of instances use other keys."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0, *key)))


def make_settings(names: tuple[str, ...] | None, *, quick: bool, **given: object) -> Settings:
    """Returns the settings of the command: of all curricula, or of some and the reference.

    `quick` asks for a small grid and short training runs; what is None keeps its default.
    """
    names = tuple(curricula.names()) if names is None else names
    for name in names:
        curricula.get(name)
    names = names if REFERENCE in names else (REFERENCE, *names)
    asked = {name: value for name, value in given.items() if value is not None}
    return Settings.model_validate({"curricula": names, **(_QUICK if quick else {}), **asked})
