"""One search: a method on a setup, trial by trial, reproducible from its seed.

Trials are asked for one after the other, each by a sampler that is seeded for its number. What is
asked next therefore depends on the seed and on the trials before it alone: not on interruptions,
nor on which process goes on with the search.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.seeding import RunSeed, StudyRole
from pacebench.harness.study.expand import resolve_cell
from pacebench.harness.study.models import CurriculumEntry, Range, Study, Tuning
from pacebench.harness.study.space import PRUNERS, SAMPLERS, Space, apply, space_of, tuning_study
from pacebench.harness.study.specs import Cell, PlannedRun
from pacebench.harness.tuning.record import SearchRecord, read_search
from pacebench.harness.tuning.storage import make_pruner, make_sampler

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.storages import BaseStorage

# Tuning seeds of one replicate; the second half of the block is for re-ranking.
REPLICATE_BLOCK = 100_000
RERANK_OFFSET = 50_000


@dataclass(frozen=True)
class Search:
    """A method on a setup, in one of the independent replicates.

    Attributes:
        study: The study as its file says.
        replicate: Which of the independent searches.
        root: Results folder of the study's tuning.
    """

    study: Study
    entry: CurriculumEntry
    setup: str
    replicate: int
    root: Path

    @property
    def name(self) -> str:
        """What storages and people call the search."""
        return f"{self.study.name}/{self.entry.shown}/{self.setup}/{self.replicate}"

    @property
    def folder(self) -> Path:
        """Where the search's runs are kept; labels may hold anything, folders may not."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.entry.shown).strip("-") or "method"
        tag = hashlib.sha256(self.entry.shown.encode()).hexdigest()[:6]
        return self.root / f"{plain}-{tag}.{self.setup}.{self.replicate}"

    @property
    def record_file(self) -> Path:
        """The record of the search, which is written once it has made its choice."""
        return self.folder / "search.json"

    def record(self) -> SearchRecord | None:
        """Returns what the search found; None while it is under way, or has got more trials."""
        return read_search(self.record_file, self.budget)

    @property
    def tuning(self) -> Tuning:
        """The study's tuning block."""
        assert self.study.tuning is not None
        return self.study.tuning

    @cached_property
    def space(self) -> Space:
        """What is searched."""
        return space_of(self.study, self.entry, self.setup)

    @property
    def seeds(self) -> tuple[RunSeed, ...]:
        """The tuning seeds, the same for every trial of the replicate and for every method."""
        return self._block(0, self.tuning.seeds_per_trial)

    @property
    def rerank_seeds(self) -> tuple[RunSeed, ...]:
        """Fresh tuning seeds, on which the best configurations are run again."""
        return self._block(RERANK_OFFSET, 2 * self.tuning.seeds_per_trial)

    def _block(self, offset: int, count: int) -> tuple[RunSeed, ...]:
        first = self.replicate * REPLICATE_BLOCK + offset
        root = self.study.seeds.root
        return tuple(
            RunSeed(root=root, role=StudyRole.TUNE, setup=self.setup, index=first + i)
            for i in range(count)
        )

    @property
    def trial_steps(self) -> int:
        """Environment steps that a trial uses unless it is pruned."""
        return self.tuning.seeds_per_trial * tuning_study(self.study).budget

    @property
    def budget(self) -> int:
        """Environment steps that the search may use, the same for every method."""
        return self.tuning.trials * self.trial_steps

    def cell(self, point: dict[str, Any] | None) -> Cell:
        """Returns the cell of one configuration; None for the study's own."""
        entry = self.entry if point is None else apply(self.entry, self.setup, point)
        cell = resolve_cell(tuning_study(self.study), entry, self.setup)
        # Held-out contexts of their own: tuning must not see those that the results are made on.
        sequence = self._sequence(self.replicate)
        root = int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
        evaluation = cell.evaluation.model_copy(update={"root": root})
        return cell.model_copy(update={"evaluation": evaluation})

    def planned(
        self, label: str, point: dict[str, Any] | None, seeds: tuple[RunSeed, ...]
    ) -> list[PlannedRun]:
        """Returns the runs of one configuration."""
        cell = self.cell(point)
        return [PlannedRun(label=label, cell=cell, seed=seed) for seed in seeds]

    def open(self, storage: BaseStorage) -> OptunaStudy:
        """Returns the search as Optuna keeps it, created where it is new.

        Raises:
            UserError: It was begun with another space, sampler or the like.
        """
        import optuna

        study = optuna.create_study(
            storage=storage,
            study_name=self.name,
            sampler=make_sampler(self.tuning.sampler, 0),
            pruner=make_pruner(self.tuning.pruner),
            direction="maximize",
            load_if_exists=True,
        )
        asked = {
            "space": {name: _plain(part) for name, part in self.space.items()},
            "training": {"budget": self.trial_steps, "seeds": self.tuning.seeds_per_trial},
            **search_options(self.tuning),
        }
        begun = study.user_attrs.get("asked")
        if begun is None:
            study.set_user_attr("asked", asked)
        elif changed := [name for name, value in asked.items() if begun.get(name) != value]:
            raise UserError(
                f"'{self.name}' was begun with another {' and '.join(changed)}; give the study "
                f"another name, or move {self.root} away."
            )
        return study

    def sampler_seed(self, number: int) -> int:
        """Returns the seed of the sampler that proposes trial `number`."""
        method = hashlib.sha256(f"{self.entry.shown}/{self.setup}".encode()).digest()[:4]
        sequence = self._sequence(self.replicate, int.from_bytes(method), number)
        return int(sequence.generate_state(1, np.uint32)[0])

    def _sequence(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.study.seeds.root, spawn_key=(StudyRole.TUNE, *key))


def _plain(part: Range | tuple[Any, ...]) -> Any:
    return part.model_dump(mode="json") if isinstance(part, Range) else list(part)


def search_options(tuning: Tuning) -> dict[str, Any]:
    """Returns what decides which trials are made, by name: the same under every Optuna."""
    return {
        "sampler": {"name": tuning.sampler, "options": SAMPLERS[tuning.sampler]},
        "pruner": {"name": tuning.pruner, "options": PRUNERS[tuning.pruner][1]},
    }


def searches(study: Study, root: Path) -> list[Search]:
    """Returns every search that a study asks for."""
    if study.tuning is None:
        return []
    entries = {entry.shown: entry for entry in study.curricula}
    return [
        Search(study, entries[label], setup, replicate, root)
        for replicate in range(study.tuning.replicates)
        for setup in study.setups
        for label in study.tuning.curricula
    ]
