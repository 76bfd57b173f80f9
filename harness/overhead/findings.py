"""What a measurement found, typed: `summary.json` holds one `OverheadSummary`."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, PlainSerializer

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.store.files import write_atomic

SUMMARY = "summary.json"


def _six_digits(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


# JSON has no NaN: what is not finite is stored as null, and read as NaN.
Number = Annotated[
    float, BeforeValidator(lambda x: math.nan if x is None else x), PlainSerializer(_six_digits)
]


class StoredRecord(BaseModel):
    """A record of a measurement; keys of older or newer files that it does not know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class MeanInterval(StoredRecord):
    """An estimate with its 95 % interval."""

    estimate: Number
    low: Number
    high: Number


class Bounds(NamedTuple):
    """The ends of an interval."""

    low: Number
    high: Number


class Speed(StrEnum):
    """What a ratio of times shows."""

    SLOWER = "slower"
    FASTER = "faster"
    INCONCLUSIVE = "inconclusive"


class Ratio(MeanInterval):
    """A ratio of times; its interval is for other instances of the workload, timed again.

    It is called slower or faster only if the interval excludes 1 and the estimate is beyond the
    noise floor, a factor ≥ 1. Whole training runs have seeds for blocks and no instances; nor have
    findings that were made before instances and blocks were crossed.
    """

    instances: int | None = None
    blocks: int
    same_instances: Bounds | None = None  # the interval for these very instances, timed again
    floor: Number
    outcome: Speed


class QualityFinding(StoredRecord):
    """The answers of one curriculum over some updates, judged in the problem it sets out to solve.

    `gap` is the optimality gap (NaN where nothing could be gained), `budget` the share of ε that
    was used, `value` the value − V₋ of convergence steps in standard deviations; the worst of each
    is the largest, the largest and the lowest.
    """

    problem: str
    updates: int
    gap_median: Number
    gap_worst: Number
    budget_median: Number
    budget_worst: Number
    over_budget: int
    short: int  # convergence steps that fall short of V₋
    infeasible: int  # over budget or short
    converging: int
    value_worst: Number
    rejected: int  # by the method itself
    iterations: Number


class TimedMethod(StoredRecord):
    """A curriculum that was timed in a cell; the reference itself has no ratios.

    `wall` and `cpu` are seconds of a whole update, `step` those of the method's own step, without
    checks, divergences and recording; all are geometric means. `time` is `wall` or `cpu`, whichever
    verdicts go by, and so are its arithmetic mean and the first two ratios.
    """

    status: Literal["ok"] = "ok"
    note: str = ""
    wall: MeanInterval
    cpu: MeanInterval
    step: MeanInterval | None = None
    time: MeanInterval
    mean_time: Number = math.nan
    ratio: Ratio | None = None  # geometric mean per update
    total: Ratio | None = None  # of total times
    step_ratio: Ratio | None = None
    step_total: Ratio | None = None
    quality: QualityFinding | None = None  # None for controls, which solve no problem

    @property
    def outcome(self) -> Speed | None:
        """Slower or faster where the ratio per update and that of totals both say so."""
        said = {ratio.outcome for ratio in (self.ratio, self.total) if ratio is not None}
        if not said:
            return None
        return said.pop() if len(said) == 1 else Speed.INCONCLUSIVE


class UntimedMethod(StoredRecord):
    """A curriculum that is over the limit in a cell, or fails there; the note says why."""

    status: Literal["over", "failed"]
    note: str = ""


class Disturbance(StoredRecord):
    """What else the machine did: mean load, largest stolen share of a block."""

    load: Number
    steal: float


class CellFinding(StoredRecord):
    """One cell: d, K (`size`), and every curriculum."""

    name: str
    stream: str = ""  # a hash of what was replayed; empty in older findings
    kind: Literal["synthetic", "recorded"]
    d: int
    size: int
    floor: Number  # the noise floor, the largest factor that the A/A cannot exclude
    twin: Ratio  # the A/A, the reference against itself
    slowed: Ratio | None = None  # the reference slowed by 5 %, against itself
    methods: dict[str, Annotated[TimedMethod | UntimedMethod, Discriminator("status")]]
    pairs: dict[str, Ratio]  # the ratio per update of two solvers of one problem
    machine: Disturbance

    @property
    def timed(self) -> dict[str, TimedMethod]:
        """The curricula that were timed here."""
        return {n: m for n, m in self.methods.items() if isinstance(m, TimedMethod)}


class CheckFinding(StoredRecord):
    """The self-check over all cells."""

    cells: int
    false: int  # A/A intervals that exclude 1
    p_value: Number  # of so many by chance
    slowed: int | None = None  # cells in which an injected slowdown of 5 % was found
    median_floor: Number


class ScalingFinding(StoredRecord):
    """How one curriculum's time t₀ + c·dᵅ·Kᵝ grows on the grid's instances, timed again."""

    d: MeanInterval  # α
    size: MeanInterval | None = None  # β; None where the grid does not tell
    fixed: Number  # t₀ in seconds, median over blocks
    cells: int
    working: int  # cells in which work dominates the fixed cost
    misfit: Number  # the largest |ln(time/fit)| of the block means
    range: tuple[int, int]  # smallest and largest K·d
    curve: tuple[Number, ...]  # (ln t₀, ln c, α, β) of the block means, for drawing


class TrainingFinding(StoredRecord):
    """What one curriculum costs and reaches in whole training runs; evaluation is not counted.

    Seconds are of training; the share and the rates are of the seconds in the curriculum, of which
    every update takes `step` for the method's own step and `recording` for checks, exact KLs and
    the record. Scores are target returns: after all steps (`final`), and after the time that the
    quickest curriculum takes (`at_common`). The ratio of training seconds to the reference's is
    None where seeds are too few.
    """

    seconds: MeanInterval
    share: MeanInterval
    per_update: MeanInterval
    per_1000_steps: MeanInterval
    step: MeanInterval | None = None
    recording: MeanInterval | None = None
    rejected: int
    final: MeanInterval
    at_common: MeanInterval
    training_ratio: Ratio | None = None


class TrainingSummary(StoredRecord):
    """The instrumented training runs: all curricula on the same seeds."""

    setup: str
    env_steps: int
    seeds: int
    common_seconds: Number
    methods: dict[str, TrainingFinding]


class MachineState(StoredRecord):
    """The machine and the code of a measurement."""

    versions: dict[str, str]
    revision: str | None
    dirty: bool | None
    hardware: dict[str, Any]


class OverheadSummary(StoredRecord):
    """All findings of a measurement."""

    settings: Settings
    digest: str  # of the settings that the cells were measured with
    machine: MachineState
    clock: Literal["wall", "cpu"]  # the clock that verdicts go by
    wall_over_cpu: Number  # the ratio of the clocks that decided on it
    twins: CheckFinding
    cells: tuple[CellFinding, ...]  # recorded streams first, then the grid
    scaling: dict[str, ScalingFinding]  # by curriculum, where exponents can be told
    quality: dict[str, QualityFinding]  # by self-paced curriculum, over all cells
    # None where no training runs were made; older files say {}.
    training: Annotated[TrainingSummary | None, BeforeValidator(lambda x: x or None)] = None

    @property
    def crossed(self) -> bool:
        """Whether every block replayed every instance; older measurements did not."""
        return all(cell.twin.instances is not None for cell in self.cells)


def write_summary(folder: Path, found: OverheadSummary) -> None:
    """Writes `summary.json`, six digits a number."""
    plain = found.model_dump(mode="json", exclude_none=True)
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(folder / SUMMARY, (text + "\n").encode())


def load_summary(path: Path | str) -> OverheadSummary:
    """Returns the findings of a results folder.

    Raises:
        UserError: There are none.
    """
    file = Path(path) / SUMMARY
    try:
        return OverheadSummary.model_validate_json(file.read_bytes())
    except (OSError, ValueError):
        raise UserError(
            f"{file} is missing or not readable; run `pacebench overhead --out {path}` first."
        ) from None
