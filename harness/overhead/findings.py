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

    Attributes:
        instances: How many instances it comes from; None for whole training runs and in findings
            that were made before instances and blocks were crossed. Their interval is over blocks.
        blocks: How many blocks, or seeds, it comes from.
        same_instances: The interval for these very instances, timed again.
        floor: The noise floor as a factor ≥ 1; 1 where none was given.
        outcome: Slower or faster only if the interval excludes 1 and the estimate is beyond the
            noise floor.
    """

    instances: int | None = None
    blocks: int
    same_instances: Bounds | None = None
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
    """A curriculum that was timed in a cell.

    Attributes:
        wall: Seconds of a whole update by the wall clock, geometric mean.
        cpu: The same by processor time.
        step: Seconds of the method's own step, without checks, exact KLs and recording.
        time: `wall` or `cpu`, whichever verdicts go by.
        mean_time: The arithmetic mean by the same clock.
        ratio: To the reference, geometric mean per update; the reference has none.
        total: To the reference, of total times.
        step_ratio: As `ratio`, of the methods' own steps.
        step_total: As `total`, of the methods' own steps.
        quality: None for controls, which solve no problem.
    """

    status: Literal["ok"] = "ok"
    note: str = ""
    wall: MeanInterval
    cpu: MeanInterval
    step: MeanInterval | None = None
    time: MeanInterval
    mean_time: Number = math.nan
    ratio: Ratio | None = None
    total: Ratio | None = None
    step_ratio: Ratio | None = None
    step_total: Ratio | None = None
    quality: QualityFinding | None = None

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
    """One cell: d, K (`size`), and every curriculum.

    Attributes:
        stream: A hash of what was replayed; empty in older findings.
        twin: The A/A, the reference against itself.
        floor: The noise floor, the largest factor that the A/A cannot exclude.
        slowed: The reference slowed by 5 %, against itself.
        pairs: The ratio per update of two solvers of one problem.
    """

    name: str
    stream: str = ""
    kind: Literal["synthetic", "recorded"]
    d: int
    size: int
    floor: Number
    twin: Ratio
    slowed: Ratio | None = None
    methods: dict[str, Annotated[TimedMethod | UntimedMethod, Discriminator("status")]]
    pairs: dict[str, Ratio]
    machine: Disturbance

    @property
    def timed(self) -> dict[str, TimedMethod]:
        """The curricula that were timed here."""
        return {n: m for n, m in self.methods.items() if isinstance(m, TimedMethod)}


class CheckFinding(StoredRecord):
    """The self-check over all cells.

    Attributes:
        cells: How many there are.
        false: How many A/A intervals exclude 1.
        p_value: Of so many by chance.
        slowed: In how many an injected slowdown of 5 % was found; None in older findings.
        median_floor: The median noise floor.
    """

    cells: int
    false: int
    p_value: Number
    slowed: int | None = None
    median_floor: Number


class ScalingFinding(StoredRecord):
    """How one curriculum's time grows on the grid's instances, timed again.

    Attributes:
        d: The exponent α of the dimensions.
        size: The exponent β of the number of contexts; None where the grid does not tell.
        fixed: The fixed cost t₀ in seconds, median over blocks.
        cells: How many cells were fitted.
        working: In how many of them work dominates the fixed cost.
        misfit: The largest |ln(time/fit)| of the block means.
        range: Smallest and largest K·d in the fit.
        curve: (ln t₀, ln c, α, β) fitted to the block means, for drawing.
    """

    d: MeanInterval
    size: MeanInterval | None = None
    fixed: Number
    cells: int
    working: int
    misfit: Number
    range: tuple[int, int]
    curve: tuple[Number, ...]


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
    """The machine and the code of a measurement, as far as they are known."""

    versions: dict[str, str]
    revision: str | None
    dirty: bool | None
    hardware: dict[str, Any]
    governor: str
    boost: str
    virtual: bool
    blas: str


class OverheadSummary(StoredRecord):
    """All findings of a measurement.

    Attributes:
        settings: What was asked for.
        digest: Of the settings that the cells were measured with.
        machine: Where.
        clock: The clock that verdicts go by.
        wall_over_cpu: The ratio of the clocks that decided on it.
        twins: The A/A and the slowdown of all cells.
        cells: Recorded streams first, then the grid.
        scaling: By curriculum, where exponents can be told.
        quality: By self-paced curriculum, over all cells.
        training: None where no training runs were made; older files say {}.
    """

    settings: Settings
    digest: str
    machine: MachineState
    clock: Literal["wall", "cpu"]
    wall_over_cpu: Number
    twins: CheckFinding
    cells: tuple[CellFinding, ...]
    scaling: dict[str, ScalingFinding]
    quality: dict[str, QualityFinding]
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
