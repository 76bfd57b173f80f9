"""The record of a tuning: every trial, what was chosen and on what evidence, and what it cost."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pacebench.harness.analysis.scores import FLOORED
from pacebench.harness.errors import UserError
from pacebench.harness.store.files import StorageError, write_atomic
from pacebench.harness.store.reading import (
    BadFileError,
    first_mistake,
    parse_json,
    parse_record,
    read_file,
)
from pacebench.harness.study.specs import Frozen

NAME = "record.json"
FORMAT = 1


class TrialRecord(Frozen):
    """One configuration of a search and how it did.

    Attributes:
        state: COMPLETE, PRUNED or FAIL, as Optuna calls them.
        point: Where it lies in the search space.
        value: Mean score over its seeds, normalised; None where it failed.
        statuses: How each seed's run ended.
    """

    number: int
    state: str
    point: dict[str, Any]
    value: float | None
    scores: tuple[float | None, ...]
    statuses: tuple[str, ...]
    env_steps: int
    seconds: float


class Candidate(Frozen):
    """A configuration that was run again on fresh tuning seeds.

    Attributes:
        trial: Number of the trial it was; None for the study's own configuration.
        searched: What it scored in the search; None for the study's own configuration.
        scores: What it scored on the fresh seeds.
    """

    trial: int | None
    searched: float | None
    scores: tuple[float, ...]
    env_steps: int
    seconds: float

    @property
    def mean(self) -> float:
        """Mean score on the fresh seeds."""
        return sum(self.scores) / len(self.scores)


class SearchRecord(Frozen):
    """One search, from its space to its choice.

    Attributes:
        space: What was searched, as JSON.
        budget: Environment steps that each search was given.
        importance: How much each parameter matters for being among the best trials, not how much
            variance it explains; empty where there are too few trials to say.
        candidates: The best configurations on fresh seeds, best of the search first, and the
            study's own configuration last.
        chosen: Number of the trial that was chosen; None for the study's own configuration.
        point: Where the choice lies in the space; empty for the study's own configuration.
        own: The place of the study's own configuration, as far as it has one there.
        boundary: Parameters of the choice that lie within 5 % of an end of their range.
    """

    method: str
    curriculum: str
    setup: str
    replicate: int
    space: dict[str, Any]
    budget: int
    trials: tuple[TrialRecord, ...]
    importance: dict[str, float] = Field(default_factory=dict)
    candidates: tuple[Candidate, ...]
    chosen: int | None
    point: dict[str, Any]
    own: dict[str, float]
    boundary: tuple[str, ...]

    @property
    def optimism(self) -> float:
        """What the best trial scored in the search beyond what it scores on fresh seeds."""
        best = self.candidates[0]
        assert best.searched is not None
        return best.searched - best.mean

    @property
    def gain(self) -> float:
        """What the choice scores on fresh seeds beyond the study's own configuration."""
        return self.chosen_candidate.mean - self.own_candidate.mean

    @property
    def chosen_candidate(self) -> Candidate:
        """The choice, as it did on fresh seeds."""
        return next(c for c in self.candidates if c.trial == self.chosen)

    @property
    def own_candidate(self) -> Candidate:
        """The study's own configuration, as it did on fresh seeds."""
        return self.candidates[-1]

    @property
    def env_steps(self) -> int:
        """Environment steps of the search, without the re-ranking."""
        return sum(trial.env_steps for trial in self.trials)

    @property
    def total_steps(self) -> int:
        """Environment steps of search and re-ranking."""
        return self.env_steps + sum(candidate.env_steps for candidate in self.candidates)

    @property
    def total_seconds(self) -> float:
        """Training time of search and re-ranking, on one core."""
        tried = sum(trial.seconds for trial in self.trials)
        return tried + sum(candidate.seconds for candidate in self.candidates)

    def states(self) -> dict[str, int]:
        """Counts the trials by state, and the runs in them that the method itself failed."""
        counts = Counter(trial.state for trial in self.trials)
        floored = sum(status in FLOORED for trial in self.trials for status in trial.statuses)
        return dict(counts) | ({"runs at the floor": floored} if floored else {})


class TuningRecord(Frozen):
    """Everything that tuning a study found.

    Attributes:
        options: Every option of sampler and pruner by name; records from before they were pinned
            have none, and their searches took the defaults of their version of Optuna.
    """

    format: int = FORMAT
    study: str
    estimand: str
    sampler: str
    pruner: str
    options: dict[str, Any] = Field(default_factory=dict)
    seeds_per_trial: int
    replicates: int
    provenance: dict[str, Any]
    searches: tuple[SearchRecord, ...]


def write_record(folder: Path, record: TuningRecord) -> Path:
    """Writes the record into the tuning folder of a study."""
    path = folder / NAME
    write_atomic(path, (record.model_dump_json(indent=1) + "\n").encode())
    return path


def read_record(path: Path) -> TuningRecord:
    """Reads a record.

    Raises:
        UserError: There is none, it is not one of ours, or a newer version made it.
    """
    try:
        with _reading(path, "a tuning record"):
            return TuningRecord.model_validate(parse_record(read_file(path), path, FORMAT))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no tuning record; run pacebench tune first.") from None


def read_search(path: Path, budget: int) -> SearchRecord | None:
    """Returns the record of a search of this budget; None where it is not there yet.

    Raises:
        UserError: It cannot be read, or is not one of ours.
    """
    try:
        with _reading(path, "the record of a search"):
            record = SearchRecord.model_validate(parse_json(read_file(path), path))
    except FileNotFoundError:
        return None
    return record if record.budget == budget else None


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Says what is wrong with a file; that it is absent is for the caller to say."""
    try:
        yield
    except FileNotFoundError:
        raise
    except ValidationError as error:
        raise BadFileError(path, f"is not {kind} ({first_mistake(error)})") from None
    except OSError as error:
        raise StorageError(path, error) from error
