"""What a measurement found, typed: `summary.json` holds one `OverheadSummary`."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.settings import REFERENCE, Settings
from pacebench.harness.store.files import make_folder, write_atomic

SUMMARY = "summary.json"
# The clock of whole updates that verdicts go by.
MainClock = Literal["wall", "cpu"]
# What a ratio of times shows.
Speed = Literal["slower", "faster", "inconclusive"]


def _six_digits(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


# JSON has no NaN: what is not finite is stored as null, and read as NaN.
Number = Annotated[
    float, BeforeValidator(lambda x: math.nan if x is None else x), PlainSerializer(_six_digits)
]


class Shown(NamedTuple):
    """What tables call a field, and its unit: `s`, `%`, `×`, digits (`3`) or decimals (`.3`)."""

    heading: str
    unit: str = ""


class StoredRecord(BaseModel):
    """A record of a measurement; its file is JSON, compressed where the name ends in `.gz`."""

    model_config = ConfigDict(frozen=True)

    def write(self, path: Path) -> None:
        """Writes the file; the same record is the same bytes."""
        packed = path.suffix == ".gz"
        data = self.model_dump_json(indent=None if packed else 1).encode()
        data = gzip.compress(data, mtime=0) if packed else data + b"\n"
        write_atomic(make_folder(path.parent) / path.name, data, durable=False)

    @classmethod
    def read(cls, path: Path, remedy: str) -> Self:
        """Returns what a file holds; a `UserError` names the remedy if that is no such record."""
        try:
            data = path.read_bytes()
            return cls.model_validate_json(gzip.decompress(data) if path.suffix == ".gz" else data)
        except (OSError, EOFError, ValueError):
            said = f"{path} is missing, or not of this version; {remedy}."
            raise UserError(said) from None


class MeanInterval(StoredRecord):
    """An estimate with its 95 % interval."""

    estimate: Number
    low: Number
    high: Number

    def speed(self, floor: float = 1.0) -> Speed:
        """Returns what it shows as a ratio of times; `floor` is the noise floor, a factor ≥ 1."""
        if abs(math.log(self.estimate)) > math.log(floor):
            if self.low > 1.0:
                return "slower"
            if self.high < 1.0:
                return "faster"
        return "inconclusive"


class Bounds(NamedTuple):
    """The ends of an interval."""

    low: Number
    high: Number


class Ratio(MeanInterval):
    """A ratio of times; its interval is for other instances of the workload, timed again."""

    same_instances: Bounds  # the interval for these very instances, timed again


class QualityFinding(StoredRecord):
    """The answers of one curriculum over some updates, judged in the problem it sets out to solve.

    The gap is NaN where nothing could be gained; the budget is the share of ε that was used, the
    value is that of convergence steps in standard deviations.
    """

    problem: Annotated[str, Shown("problem")]
    updates: Annotated[int, Shown("updates judged")]
    gap_median: Annotated[Number, Shown("gap (median)", "%")]
    gap_worst: Annotated[Number, Shown("gap (worst)", "%")]
    budget_median: Annotated[Number, Shown("KL/ε (median)", "3")]
    budget_worst: Annotated[Number, Shown("KL/ε (worst)", "3")]
    over_budget: Annotated[int, Shown("over budget")]
    converging: Annotated[int, Shown("convergence steps")]
    short: Annotated[int, Shown("short of V₋")]
    infeasible: Annotated[int, Shown("infeasible")]  # over budget or short
    value_worst: Annotated[Number, Shown("worst value − V₋", ".3")]
    rejected: Annotated[int, Shown("rejected")]  # by the method itself
    iterations: Annotated[Number, Shown("iterations (mean)", ".1")]


class MethodFinding(StoredRecord):
    """A curriculum that was timed in a cell; the ratios are to the reference.

    `wall` and `cpu` are seconds of a whole update, `step` those of the method's own step, without
    checks, divergences and recording; all are geometric means. `time` is `wall` or `cpu`, whichever
    verdicts go by, and so are its arithmetic mean, `ratio` and `total`.
    """

    wall: MeanInterval
    cpu: MeanInterval
    mean_time: Annotated[Number, Shown("mean time", "s")]
    time: Annotated[MeanInterval, Shown("geometric mean", "s")]
    total: Annotated[Ratio, Shown("total × spgl", "×")]
    ratio: Annotated[Ratio, Shown("per update × spgl", "×")]
    step: Annotated[MeanInterval, Shown("own step", "s")]
    step_total: Annotated[Ratio, Shown("own steps: total × spgl", "×")]
    step_ratio: Annotated[Ratio, Shown("own steps: per update × spgl", "×")]
    quality: QualityFinding | None = None  # None for controls, which solve no problem

    def speed(self, floor: float) -> Speed:
        """Returns slower or faster where the ratio per update and that of totals both say so."""
        each, total = self.ratio.speed(floor), self.total.speed(floor)
        return each if each == total else "inconclusive"


class CellFinding(StoredRecord):
    """One cell: d, K (`size`), and every curriculum."""

    name: str
    stream: str  # a hash of what was replayed
    kind: Literal["synthetic", "recorded"]
    d: int
    size: int
    instances: int
    blocks: int
    floor: Number  # the noise floor, the largest factor that the A/A cannot exclude
    twin: Ratio  # the A/A, the reference against itself
    slowed: Ratio  # the reference slowed by 5 %, against itself
    methods: dict[str, MethodFinding]
    untimed: dict[str, str]  # curricula that are over the limit or fail here, and why
    solver: Ratio | None = None  # per update, of two solvers of one problem where both are timed
    load: Number  # of the machine, mean over blocks
    steal: Number  # the largest stolen share of a block's processor time

    @property
    def rivals(self) -> dict[str, MethodFinding]:
        """The timed curricula other than the reference."""
        return {name: found for name, found in self.methods.items() if name != REFERENCE}


class ScalingFinding(StoredRecord):
    """How one curriculum's time t₀ + c·dᵅ·Kᵝ grows on the grid's instances, timed again."""

    alpha: Annotated[MeanInterval, Shown("exponent of d", ".2")]
    beta: Annotated[MeanInterval, Shown("exponent of K", ".2")]
    fixed: Annotated[Number, Shown("fixed cost t₀", "s")]  # median over blocks
    cells: Annotated[int, Shown("cells")]
    working: Annotated[int, Shown("of them dominated by work")]
    misfit: Annotated[Number, Shown("largest |ln misfit|", ".2")]  # of the block means
    range: tuple[int, int]  # smallest and largest K·d
    curve: tuple[Number, ...]  # (ln t₀, ln c, α, β) of the block means, for drawing


class TrainingFinding(StoredRecord):
    """What one curriculum costs and reaches in whole training runs; evaluation is not counted.

    The share and the rates are of the seconds in the curriculum, of which every update takes `step`
    for the method's own step and `recording` for checks, exact KLs and the record.
    """

    share: Annotated[MeanInterval, Shown("share of training", "%")]
    per_update: Annotated[MeanInterval, Shown("per update", "s")]
    step: Annotated[MeanInterval, Shown("own step", "s")]
    recording: Annotated[MeanInterval, Shown("recording", "s")]
    per_1000_steps: Annotated[MeanInterval, Shown("per 1000 steps", "s")]
    seconds: Annotated[MeanInterval, Shown("training time", "s")]
    ratio: Annotated[MeanInterval, Shown("training time × spgl", "×")]
    final: Annotated[MeanInterval, Shown("return, all steps", "3")]
    at_common: Annotated[MeanInterval, Shown("return, in the quickest one's time", "3")]
    rejected: Annotated[int, Shown("rejected")]


class TrainingSummary(StoredRecord):
    """The instrumented training runs: all curricula on the same seeds."""

    setup: str
    env_steps: int
    seeds: int
    common_seconds: Number
    methods: dict[str, TrainingFinding]


class OverheadSummary(StoredRecord):
    """All findings of a measurement."""

    settings: Settings
    machine: dict[str, Any]  # versions, revision and hardware, as a manifest has them
    clock: MainClock
    wall_over_cpu: Number  # the ratio of the clocks that decided on it
    cells: tuple[CellFinding, ...]  # recorded streams first, then the grid
    scaling: dict[str, ScalingFinding]  # by curriculum, where exponents can be told
    quality: dict[str, QualityFinding]  # by self-paced curriculum, over all cells
    training: TrainingSummary | None = None  # None where no training runs were made

    @property
    def clock_name(self) -> str:
        """What that clock measures."""
        return "Wall-clock time" if self.clock == "wall" else "Processor time"

    @property
    def median_floor(self) -> float:
        """The noise floor of the median cell."""
        return float(np.median([cell.floor for cell in self.cells]))


def load_summary(folder: Path) -> OverheadSummary:
    """Returns the findings of a results folder."""
    return OverheadSummary.read(folder / SUMMARY, f"run `pacebench overhead --out {folder}`")
