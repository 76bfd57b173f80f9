"""What one overhead measurement does: the grid, the curricula, the limit, the number of blocks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from pydantic import Field, field_validator

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.study.specs import Frozen, digest

DIMENSIONS = (1, 2, 3, 5, 10, 20, 50, 100, 1_000, 10_000)
SIZES = (16, 64, 256, 1_024)
MINIMUM_BLOCKS = 10
REFERENCE = "spgl"
# Raised by hand when a change of ours alters what is timed: blocks made before are measured again.
DESIGN = 2
TWIN = "spgl (twin)"
_QUICK = {
    "dimensions": (1, 3, 10, 100, 1_000),
    "sizes": (16, 256),
    "limit": 0.5,
    "training_seeds": 3,
    "training_steps": 20_480,
}


class Settings(Frozen):
    """The settings of a measurement; whatever changes a measured number is in here.

    Attributes:
        dimensions: The context dimensions d of the synthetic grid.
        sizes: The numbers K of contexts per update of the synthetic grid.
        curricula: Registered names, all timed in every cell.
        blocks: Replicates; each is a fresh process that goes through all cells.
        check_blocks: Replicates of the self-check (A/A and an injected slowdown).
        limit: Seconds of processor time that an update may take on average; what takes longer is
            shown as "> limit". On an idle machine that is the wall clock's time too.
        share: Seconds that a quick curriculum is timed for in either half of a block.
        process: Seconds meant for one cell of a block; decides how many instances it replays.
        warm_up: Untimed updates of each curriculum before its first timed one.
        epsilon: The KL budget ε of every replayed update.
        seed: Root of the synthetic streams and of the orders.
        training_seeds: Instrumented training runs per curriculum.
        training_steps: Environment steps of each.
    """

    dimensions: tuple[int, ...] = DIMENSIONS
    sizes: tuple[int, ...] = SIZES
    curricula: tuple[str, ...]
    blocks: int = Field(default=MINIMUM_BLOCKS, ge=MINIMUM_BLOCKS)
    check_blocks: int = Field(default=20, ge=MINIMUM_BLOCKS)
    limit: float = Field(default=2.0, gt=0)
    share: float = Field(default=0.02, gt=0)
    process: float = Field(default=1.0, gt=0)
    warm_up: int = Field(default=2, ge=1)
    epsilon: float = Field(default=0.05, gt=0)
    seed: int = Field(default=2026, ge=0)
    training_seeds: int = Field(default=10, ge=2)
    training_steps: int = Field(default=40_960, ge=1)

    @field_validator("curricula")
    @classmethod
    def _with_reference(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return names if REFERENCE in names else (REFERENCE, *names)

    def cell_digest(self) -> str:
        """Returns what a stored block must agree with to be kept.

        The number of blocks and the grid are left out: more of either adds to what is there. The
        source of the curricula is in, because another implementation has another speed.
        """
        own = {"curricula": list(self.curricula), "source": source_digest(), "design": DESIGN}
        keep = ("limit", "share", "process", "warm_up", "epsilon", "seed")
        return digest(own | {key: getattr(self, key) for key in keep})


def make_settings(
    *,
    quick: bool = False,
    names: tuple[str, ...] | None = None,
    blocks: int | None = None,
    limit: float | None = None,
) -> Settings:
    """Returns the settings of the command, with users' mistakes as sentences.

    Args:
        quick: A small grid and short training runs, for a look within minutes.
        names: The curricula to time; all registered ones if None.
        blocks: Replicates per cell.
        limit: Seconds per update.

    Raises:
        UserError: Too few blocks, or a limit that is not positive.
    """
    if blocks is not None and blocks < MINIMUM_BLOCKS:
        raise UserError(
            f"--blocks {blocks} is too few for an interval; give at least {MINIMUM_BLOCKS}."
        )
    if limit is not None and not limit > 0:
        raise UserError(f"--limit {limit} leaves no time; give a positive number of seconds.")
    chosen = tuple(curricula.names()) if names is None else names
    for name in chosen:
        curricula.get(name)
    asked = {"blocks": blocks, "limit": limit}
    return Settings.model_validate(
        {
            "curricula": chosen,
            **(_QUICK if quick else {}),
            **{name: value for name, value in asked.items() if value is not None},
        }
    )


def source_digest() -> str:
    """Returns a hash of the source of the curricula package."""
    folder = Path(curricula.__file__).parent
    text = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        text.update(file.name.encode() + b"\0" + file.read_bytes())
    return text.hexdigest()[:16]


def order_generator(settings: Settings, *key: int) -> np.random.Generator:
    """Returns the generator of one randomised order; streams of instances use other keys."""
    return np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(0, *key)))
