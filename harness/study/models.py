"""A study file as its author writes it: one question, and everything needed to answer it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from pacebench import envs
from pacebench.harness.study.declared import DeclaredSetup, split_setups
from pacebench.harness.study.specs import EvaluationDetail, Frozen, ScheduleCell, Value

# A study's name is a folder under results/: no separators, no dots in front, nothing to escape by.
Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*$", max_length=80)
]
# What people write may say anything but characters that would act on a terminal or turn its reading
# direction: controls, line separators and bidirectional marks. A question may have several lines.
_ACTING = r"\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
Label = Annotated[str, Field(min_length=1, max_length=80, pattern=rf"^[^\u0000-\u001f{_ACTING}]+$")]
Question = Annotated[
    str, Field(max_length=2_000, pattern=rf"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f{_ACTING}]+$")
]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Steps = Annotated[int, Field(ge=1, le=10**12)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# What a comparison can be about: one number per training run, more is better.
Estimand = Literal["return", "success", "solved", "normalised", "auc", "cvar"]


def _named(value: Any) -> Any:
    """Lets a plain name stand for an entry without parameters."""
    return {"name": value} if isinstance(value, str) else value


class LearnerEntry(Frozen):
    """A learner with the parameters that differ from its frozen settings for the setup."""

    name: str = Field("ppo", description="A registered learner: `pacebench list`.")
    params: dict[str, Value] = Field(
        default_factory=dict, description="Hyperparameters under Stable-Baselines3's names."
    )


class LearnerChange(Frozen):
    """How one method's learner differs from the study's: another one, or other parameters."""

    name: str | None = Field(None, description="Another registered learner.")
    params: dict[str, Value] = Field(
        default_factory=dict, description="Parameters that differ from the study's."
    )


def changed_learner(learner: LearnerEntry, change: LearnerChange | None) -> LearnerEntry:
    """Returns the study's learner with one method's changes."""
    if change is None:
        return learner
    if change.name is not None and change.name != learner.name:
        # Another learner's parameters need not mean anything to this one.
        return LearnerEntry(name=change.name, params=change.params)
    return LearnerEntry(name=learner.name, params={**learner.params, **change.params})


class SetupChange(Frozen):
    """Parameters of a curriculum that hold on one setup only, as tuning finds them."""

    epsilon: Positive | None = None
    threshold: float | None = None
    options: dict[str, Value] = Field(default_factory=dict)

    def over(self, other: SetupChange | CurriculumEntry) -> SetupChange:
        """Returns these parameters, and the other's where none is given here."""
        return SetupChange(
            epsilon=other.epsilon if self.epsilon is None else self.epsilon,
            threshold=other.threshold if self.threshold is None else self.threshold,
            options={**other.options, **self.options},
        )


# Fewer independent searches than this say nothing about searching.
LEAST_REPLICATES = 5


class Tuned(Frozen):
    """Where a method's parameters come from.

    Attributes:
        method: The label that was tuned; replicates of one search share it.
        replicate: Which of the independent searches found them.
        record: The tuning record, relative to the study file.
    """

    method: Label
    replicate: int = Field(ge=0)
    record: str


class CurriculumEntry(Frozen):
    """A curriculum with its parameters; a plain name takes the defaults."""

    name: str = Field(description="A registered curriculum: `pacebench list`.")
    label: Label | None = Field(None, description="How reports call it; the name if not given.")
    epsilon: Positive | None = Field(None, description="Trust region ε in nats (default 0.05).")
    threshold: float | None = Field(
        None,
        description="Performance threshold V₋ on the discounted return (default: the setup's).",
    )
    options: dict[str, Value] = Field(
        default_factory=dict, description="The curriculum's own options: `pacebench list`."
    )

    per_setup: dict[str, SetupChange] = Field(
        default_factory=dict, description="Parameters that differ on some setups, by setup."
    )
    tuned: Tuned | None = Field(None, description="Written by `pacebench tune`.")
    learner: LearnerChange | None = Field(
        None, description="For studies that compare learners: how this method's differs."
    )

    @property
    def shown(self) -> str:
        """The label, or the name where none is given."""
        return self.label or self.name

    def on(self, setup: str) -> SetupChange:
        """Returns the parameters that hold on one setup."""
        return self.per_setup.get(setup, SetupChange()).over(self)


class Seeds(Frozen):
    """How many training runs per cell, and the root of all randomness.

    A fixed study has a `count`. An adaptive one has `start`, `step` and `max`: every cell gets
    `start` seeds, and the cells of undecided questions `step` more at a time, up to `max`.
    """

    count: int = Field(
        ge=1, le=10_000, description="Training runs per cell; of an adaptive study the most."
    )
    start: int | None = Field(None, ge=1, description="Seeds of every cell to begin with.")
    step: int | None = Field(None, ge=1, description="Seeds added at a time (default: `start`).")
    root: Seed = Field(0, description="Root seed; every stream of the study is spawned from it.")
    at_most: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict,
        description="Fewer seeds on setups whose runs cost more, by setup.",
        exclude_if=lambda limits: not limits,  # plans from before it say nothing of it
    )

    @model_validator(mode="before")
    @classmethod
    def _most(cls, data: Any) -> Any:
        """Lets `max` be the word for the count of an adaptive study."""
        if isinstance(data, dict) and "max" in data:
            if "count" in data:
                raise ValueError("give 'count' for a fixed study or 'max' for an adaptive one")
            data = {**data, "count": data["max"]}
            del data["max"]
            if data.get("start") is None:
                raise ValueError("an adaptive study needs 'start' beside 'max'")
        return data

    @model_validator(mode="after")
    def _ordered(self) -> Seeds:
        if self.start is None and self.step is not None:
            raise ValueError("'step' belongs to an adaptive study; give 'start' and 'max' too")
        if self.start is not None and self.start > self.count:
            raise ValueError("'start' must not exceed 'max'; lower it")
        if self.start is not None and self.step is None:
            object.__setattr__(self, "step", self.start)
        for setup, most in self.at_most.items():
            if not (self.start or 1) <= most <= self.count:
                raise ValueError(
                    f"at_most: {setup}: must lie between 'start' and 'max'; it is {most}"
                )
        return self

    def most(self, setup: str) -> int:
        """Returns how many seeds a cell of a setup has, or of an adaptive study may have."""
        return self.at_most.get(setup, self.count)

    @property
    def adaptive(self) -> bool:
        """Whether seeds are added until the questions are decided."""
        return self.start is not None


class Evaluation(EvaluationDetail):
    """When and on what the policies are evaluated."""

    points: int = Field(
        10, ge=1, le=1_000, description="Evenly spaced evaluations, the last at the budget."
    )
    steps: tuple[Steps, ...] | None = Field(
        None, min_length=1, description="Evaluation steps spelt out, instead of `points`."
    )
    contexts: int = Field(
        100, ge=1, le=100_000, description="Held-out target contexts; one episode each."
    )

    @model_validator(mode="after")
    def _ascending(self) -> Evaluation:
        if self.steps is not None and list(self.steps) != sorted(set(self.steps)):
            raise ValueError("steps must ascend without repetition; sort them")
        if self.curve_contexts is not None and self.curve_contexts > self.contexts:
            raise ValueError("curve_contexts must not exceed contexts; lower it")
        return self


def _listed(value: Any) -> Any:
    """Lets a single name stand for a list of one."""
    return (value,) if isinstance(value, str) else value


class Comparison(Frozen):
    """A declared question: does the first label score more than the second?"""

    pair: tuple[Label, Label]
    weight: float = Field(
        1.0, ge=0, le=1e6, description="Its share of alpha; 0 makes it exploratory."
    )
    setups: tuple[str, ...] = Field(
        (),
        description="Where it has that share (default: on every setup); exploratory elsewhere.",
        exclude_if=lambda setups: not setups,  # plans from before it say nothing of it
    )

    def asked_on(self, scope: str) -> bool:
        """Says whether it is a question on a setup, or on `suite`, rather than exploratory."""
        return self.weight > 0 and (not self.setups or scope in self.setups)


def _weighted(value: Any) -> Any:
    """Lets a plain pair stand for a comparison of weight one."""
    return {"pair": value} if isinstance(value, list | tuple) else value


class Statistics(Frozen):
    """What will be compared, and what would count as a difference; declared before running."""

    primary: Annotated[tuple[Estimand, ...], BeforeValidator(_listed)] = Field(
        ("return",), min_length=1, description="What the verdicts are about: one estimand or more."
    )
    control: Label | None = Field(
        None, description="Label that the others are compared with (default: the first curriculum)."
    )
    comparisons: (
        Literal["vs-control", "all-pairs"]
        | tuple[Annotated[Comparison, BeforeValidator(_weighted)], ...]
    ) = Field(
        "vs-control",
        description="The questions that share alpha: pairs [a, b], or {pair: [a, b], weight: 2, "
        "setups: […]}.",
    )
    pools: dict[Label, Annotated[tuple[Label, ...], Field(min_length=2)]] = Field(
        default_factory=dict,
        description="Means of several labels, seed by seed, that comparisons may name: the mean of "
        "[a1, b0] minus that of [a0, b1] is half the interaction of a 2 × 2 design.",
        exclude_if=lambda pools: not pools,  # plans from before it say nothing of it
    )
    smallest_effect: Positive = Field(
        0.05,
        description="Smallest effect of interest δ, on the normalised score (0 random, 1 "
        "reference); for success, solved, auc and cvar on their own scale.",
    )
    solved: float = Field(
        0.8, gt=0, le=1, description="Share of target contexts that a solved run succeeds on."
    )
    alpha: float = Field(
        0.05, gt=0, lt=0.5, description="Probability that any claim of the study is wrong."
    )
    # A run that diverges scores this; it is the setup's floor unless said otherwise.
    floor: float | None = Field(None, description="Normalised score of a failed run.")

    @model_validator(mode="before")
    @classmethod
    def _without_old_keys(cls, data: Any) -> Any:
        """Reads studies from before looks were free: what these keys declared needs no declaring.

        Secondary estimands are all reported, looks cost nothing, and seeds always form pairs.
        """
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if k not in ("secondary", "looks", "paired")}

    @model_validator(mode="after")
    def _some_weight(self) -> Statistics:
        said = self.comparisons
        if not isinstance(said, str) and said and not any(pair.weight for pair in said):
            raise ValueError("the weights of the comparisons sum to 0; give one of them a share")
        return self


class Range(Frozen):
    """A searched interval."""

    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    log: bool = False
    integer: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low < self.high:
            raise ValueError("low must be below high; swap them")
        if self.log and self.low <= 0:
            raise ValueError("a logarithmic range needs low > 0")
        return self


class Tuning(Frozen):
    """How parameters are searched: the same budget and sampler for every method."""

    curricula: tuple[Label, ...] = Field(min_length=1, description="Labels to tune.")
    trials: int = Field(ge=2, le=10_000, description="Configurations per curriculum and setup.")
    seeds_per_trial: int = Field(3, ge=3, le=100, description="Training runs per configuration.")
    budget: Steps | None = Field(
        None, description="Environment steps per training run (default: the study's)."
    )
    sampler: str = Field("TPESampler", description="An Optuna sampler by name.")
    pruner: Literal["none", "wilcoxon"] = Field(
        "none", description="Stops a trial whose seeds so far are worse than the best trial's."
    )
    replicates: int = Field(1, ge=1, le=100, description="Independent searches per method.")
    rerank: int = Field(
        3, ge=1, le=100, description="Best configurations run again on fresh seeds."
    )
    space: dict[str, dict[str, Range | tuple[Value, ...]]] = Field(
        default_factory=dict,
        description="Per curriculum: parameter → range or choices; its own space if absent.",
    )


class Study(Frozen):
    """One question, and everything needed to answer it."""

    name: Name = Field(description="Names the folder under results/.")
    question: Question = Field(description="What the study is to settle, in a sentence.")
    curricula: tuple[Annotated[CurriculumEntry, BeforeValidator(_named)], ...] = Field(min_length=1)
    setups: tuple[str, ...] = Field(
        min_length=1, description="Registered setups: `pacebench list`, or declared here."
    )
    # In the file these stand among the setups.
    declared: tuple[DeclaredSetup, ...] = ()
    learner: Annotated[LearnerEntry, BeforeValidator(_named)] = LearnerEntry()
    seeds: Seeds
    budget: Steps = Field(description="Environment steps per training run.")
    evaluation: Evaluation = Evaluation()
    schedule: ScheduleCell = ScheduleCell()
    statistics: Statistics = Statistics()
    tuning: Tuning | None = None

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, data: Any) -> Any:
        if isinstance(data, dict) and "declared" in data:
            raise ValueError("'declared' is not a key we know; declare setups under 'setups'")
        return split_setups(data)

    @model_serializer(mode="wrap")
    def _together(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Returns the study as it stands in a file."""
        data: dict[str, Any] = handler(self)
        declared = {entry["name"]: entry for entry in data.pop("declared", ())}
        if declared and "setups" in data:
            data["setups"] = [declared.get(name, name) for name in data["setups"]]
        return data

    def setup(self, name: str) -> envs.Setup:
        """Returns one of the study's setups, declared by it or registered."""
        declared = {entry.name: entry for entry in self.declared}
        return declared[name].setup if name in declared else envs.setup(name)

    @property
    def declared_names(self) -> tuple[str, ...]:
        """The setups that the study declares itself."""
        return tuple(entry.name for entry in self.declared)

    @property
    def replicates(self) -> int:
        """Independent searches per tuned method, the fewest; 0 where none was tuned."""
        origins = {(e.tuned.method, e.tuned.replicate) for e in self.curricula if e.tuned}
        return min(Counter(method for method, _ in origins).values(), default=0)

    @property
    def by_search(self) -> bool:
        """Whether a search, with its training runs, is one observation."""
        return self.replicates >= LEAST_REPLICATES

    @property
    def labels(self) -> tuple[str, ...]:
        """The curricula as reports call them."""
        return tuple(entry.shown for entry in self.curricula)

    @property
    def compared(self) -> tuple[str, ...]:
        """What comparisons may name: the labels, then the pools of them."""
        return (*self.labels, *self.statistics.pools)

    def members(self, name: str) -> tuple[str, ...]:
        """Returns the labels behind what a comparison names."""
        return self.statistics.pools.get(name, (name,))

    def learner_of(self, entry: CurriculumEntry) -> LearnerEntry:
        """Returns the learner that a method is trained with."""
        return changed_learner(self.learner, entry.learner)

    @property
    def control(self) -> str:
        """The label that the others are compared with."""
        return self.statistics.control or self.labels[0]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The declared questions, spelt out: the second label is what is compared with."""
        declared, labels = self.statistics.comparisons, self.labels
        if declared == "vs-control":
            pairs = [(label, self.control) for label in labels if label != self.control]
        elif declared == "all-pairs":
            pairs = [(b, a) for i, a in enumerate(labels) for b in labels[i + 1 :]]
        else:
            return declared
        return tuple(Comparison(pair=pair) for pair in pairs)

    def evaluation_steps(self) -> tuple[int, ...]:
        """Returns the evaluation grid in environment steps, ending at the budget."""
        if self.evaluation.steps is not None:
            inside = self.evaluation.steps
            return inside if inside[-1] == self.budget else (*inside, self.budget)
        points = min(self.evaluation.points, self.budget)
        return tuple(round(self.budget * (i + 1) / points) for i in range(points))
