"""What determines a result: the resolved, hashable description of one cell of a study.

A *cell* is one curriculum on one setup with one learner. Its runs differ only in their seeds.
Labels, paths and report settings are not in here, so changing them re-runs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from pacebench import envs
from pacebench.harness.seeding import RunSeed

# What an option of a curriculum or a parameter of a learner may be.
Value = bool | int | float | str | None | list[Any] | dict[str, Any]

ValueSignal = Literal["return", "critic"]


class Frozen(BaseModel):
    """A record that is validated once, never changes, and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy, without what the original has cached: a changed cell has another hash."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


class EvaluationDetail(Frozen):
    """How much is evaluated beyond what claims need; says nothing where it is as usual.

    So studies and cells from before there was a choice keep their digests and run ids: the episodes
    that are scored are the same ones.

    Attributes:
        curve_contexts: How many of the target contexts, the first ones, are played at the points
            before the last, and by the stochastic policy; all of them if None.
        detail: `final` plays the stochastic policy and the initial and current distributions at
            the last point alone, `full` at every point.
    """

    curve_contexts: int | None = Field(
        None,
        ge=1,
        exclude_if=lambda count: count is None,
        description="Target contexts, the first of the list, at the points before the last and for "
        "the stochastic policy (default: all).",
    )
    detail: Literal["final", "full"] = Field(
        "final",
        exclude_if=lambda detail: detail == "final",
        description="Whether the stochastic policy and the initial and current distributions are "
        "evaluated at the last point or at every one.",
    )


class CurriculumCell(Frozen):
    """A curriculum with every option resolved; `None` where it takes no such parameter."""

    name: str
    epsilon: float | None
    threshold: float | None
    options: dict[str, Value] = Field(default_factory=dict)


class LearnerCell(Frozen):
    """A learner with every parameter resolved."""

    name: str
    params: dict[str, Value]


class ScheduleCell(Frozen):
    """When the curriculum is updated, and from what.

    Attributes:
        every: Policy updates per curriculum update (the paper's N_CL).
        warm_up: Policy updates before the first that counts towards `every`.
        min_episodes: Episodes of an update's cohort, or one per copy where there are more copies;
            the update waits until the last of them has ended.
        value_signal: Realised discounted return, or the critic at the initial observation.
        record_every: Updates between two whose divergences and distance to the target are recorded;
            0 for none.
    """

    every: int = Field(default=1, ge=1)
    warm_up: int = Field(default=0, ge=0)
    min_episodes: int = Field(default=10, ge=1)
    value_signal: ValueSignal = "return"
    # Cells from before there was a choice do not mention it, and keep their hashes.
    record_every: int = Field(default=1, ge=0, exclude_if=lambda every: every == 1)


class EvaluationCell(EvaluationDetail):
    """The frozen evaluation: where on the step axis, on how many held-out contexts.

    Attributes:
        steps: Environment steps at which the policy is evaluated, ascending, up to the budget.
        contexts: Number of held-out target contexts, one episode each.
        root: Root seed of the contexts and of the evaluation episodes.
    """

    steps: tuple[int, ...]
    contexts: int = Field(ge=1)
    root: int = Field(ge=0)


class Cell(Frozen):
    """Everything that determines the results of a run, except its seed.

    Attributes:
        declared: What the setup says about training, if the study declares it itself.
        setup_digest: Hash of what the setup says (distributions, bounds, horizon, …), so that a
            changed setup does not pass for the old one.
        versions: Which code each part is; see `study.fingerprint`.
    """

    curriculum: CurriculumCell
    setup: str
    # Not mentioned in cells of registered setups, whose ids it must not change.
    declared: dict[str, Any] | None = Field(default=None, exclude_if=lambda said: said is None)
    setup_digest: str
    learner: LearnerCell
    schedule: ScheduleCell
    budget: int = Field(ge=1)
    evaluation: EvaluationCell
    versions: dict[str, str]

    @property
    def task(self) -> envs.Setup:
        """The setup itself; without what does not matter to training if a study declares it."""
        if self.declared is None:
            return envs.setup(self.setup)
        words = {"doc": "", "source": "", "success": "", "threshold": 0.0}
        return envs.Setup.from_dict({**words, **self.declared})

    @cached_property
    def canonical(self) -> str:
        """The one JSON text of the cell that hashes are taken of."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """The hash that names the cell."""
        return _short_hash(self.canonical)


class PlannedRun(Frozen):
    """One training run, from the expansion of the study to the store.

    Attributes:
        label: How reports call its method; it does not determine the result.
    """

    label: str
    cell: Cell
    seed: RunSeed

    @cached_property
    def run_id(self) -> str:
        """The content address: equal for equal results-to-be, whatever the study or the label."""
        seed = canonical_json(self.seed.model_dump(mode="json"))
        return _short_hash(f'{{"cell":{self.cell.canonical},"seed":{seed}}}')

    def determinants(self) -> dict[str, Any]:
        """Returns what `run_id` is the hash of, as JSON-able values."""
        return self.model_dump(mode="json", include={"cell", "seed"})


def by_cell(runs: Iterable[PlannedRun]) -> list[list[PlannedRun]]:
    """Returns the runs of each label's cell together, in the order of their first run."""
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault((run.label, run.cell.digest), []).append(run)
    return list(groups.values())


def canonical_json(data: object) -> str:
    """Returns the one JSON text of `data` that is hashed: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: object) -> str:
    """Returns 16 hexadecimal digits that stand for JSON-able `data`."""
    return _short_hash(canonical_json(data))


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
