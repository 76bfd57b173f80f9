"""Runs that did not end well: which score they get, and what the unknown ones could change.

The manifest is the denominator. Failures of the method score the floor. Failures of the machines
are unknown: they bound the answer from both sides and never vanish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.errors import UserError
from pacebench.harness.records import Status

MISSING = "missing"
FLOORED = (Status.DIVERGED.value, Status.TIMEOUT.value, Status.CRASHED.value)
UNRESOLVED = (Status.INFRASTRUCTURE.value, MISSING)
STATUSES = (Status.OK.value, *FLOORED, *UNRESOLVED)
KEYS = ["method", "setup", "seed"]
STEPS = "steps_to_threshold"

# (worst, best) score; for steps the worst is the horizon. None where it is not known.
Range = tuple[float | None, float | None]
Ranges = Mapping[str, Mapping[str, Range]]


@dataclass(frozen=True)
class Accounting:
    """What became of the runs of one cell; `planned` is the denominator."""

    method: str
    setup: str
    planned: int
    ok: int
    diverged: int
    timeout: int
    crashed_method: int
    crashed_infrastructure: int
    missing: int

    @property
    def floored(self) -> int:
        """Runs that score the floor."""
        return self.diverged + self.timeout + self.crashed_method

    @property
    def unresolved(self) -> int:
        """Runs whose score is unknown."""
        return self.crashed_infrastructure + self.missing

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, with the sums."""
        return {**asdict(self), "floored": self.floored, "unresolved": self.unresolved}


@dataclass(frozen=True, eq=False)
class Completion:
    """All planned runs, each with a score or marked unknown.

    Attributes:
        observed: Every planned run; failures hold the floor, unknown scores are NaN.
        worst: The same with every unknown score at its worst; NaN where the worst is not declared.
        best: The same with every unknown score at its best.
        accounting: One record per cell.
    """

    observed: pd.DataFrame
    worst: pd.DataFrame
    best: pd.DataFrame
    accounting: tuple[Accounting, ...]

    @property
    def unresolved(self) -> int:
        """Runs whose score is unknown."""
        return sum(cell.unresolved for cell in self.accounting)


def complete(
    runs: pd.DataFrame,
    manifest: Iterable[tuple[str, str, int]],
    columns: Sequence[str],
    ranges: Ranges,
) -> Completion:
    """Applies the policy for missing runs.

    Args:
        runs: One row per run: method, setup, seed, status and the `columns`.
        manifest: Every planned run as (method, setup, seed).
        columns: The scores to complete.
        ranges: Per column and setup the worst and the best possible score.

    Raises:
        UserError: If a run is listed twice or not in the manifest, has an unknown status, is ok
            without a score, or failed where no floor is declared.
    """
    planned = pd.DataFrame(list(manifest), columns=pd.Index(KEYS))
    _check(runs, planned, columns)
    observed = planned.merge(runs[[*KEYS, "status", *columns]], on=KEYS, how="left")
    observed["status"] = observed["status"].fillna(MISSING)
    observed = observed.sort_values(KEYS, ignore_index=True)
    failed = observed["status"].isin(FLOORED)
    unknown = observed["status"].isin(UNRESOLVED)
    worst, best = observed.copy(), observed.copy()
    for column in columns:
        floor = _end(observed["setup"], ranges, column, 0)
        top = _end(observed["setup"], ranges, column, 1)
        lacking = observed[failed & floor.isna()]
        if len(lacking):
            row = lacking.iloc[0]
            raise UserError(
                f"Run {row['method']} on {row['setup']} with seed {row['seed']} ended as "
                f"'{row['status']}', and no floor of '{column}' is declared for that setup; "
                f"declare the worst possible score."
            )
        for frame, end in ((observed, np.nan), (worst, floor), (best, top)):
            values = observed[column].astype(float).where(~failed, floor)
            frame[column] = values.where(~unknown, end)
    return Completion(observed, worst, best, tally(observed))


def _end(setups: pd.Series[str], ranges: Ranges, column: str, which: int) -> pd.Series[float]:
    declared = {setup: pair[which] for setup, pair in ranges.get(column, {}).items()}
    return setups.map(lambda setup: declared.get(setup)).astype(float)


def _check(runs: pd.DataFrame, planned: pd.DataFrame, columns: Sequence[str]) -> None:
    lacking = [name for name in (*KEYS, "status", *columns) if name not in runs.columns]
    if lacking:
        raise UserError(f"The table of runs lacks the column{_s(lacking)} {', '.join(lacking)}.")
    if planned.duplicated().any() or planned.empty:
        raise UserError("The manifest is empty or lists a run twice.")
    twice = runs[runs.duplicated(KEYS)]
    if len(twice):
        row = twice.iloc[0]
        raise UserError(
            f"Run {row['method']} on {row['setup']} with seed {row['seed']} occurs twice; the "
            f"unit is the training run, so give one row per run, not one per episode."
        )
    strange = sorted(set(runs["status"].astype(str)) - set(STATUSES))
    if strange:
        raise UserError(f"Unknown status '{strange[0]}'; known are {', '.join(STATUSES)}.")
    joined = runs[KEYS].merge(planned, on=KEYS, how="left", indicator=True)
    extra = joined[joined["_merge"] == "left_only"]
    if len(extra):
        row = extra.iloc[0]
        raise UserError(
            f"Run {row['method']} on {row['setup']} with seed {row['seed']} is not in the "
            f"manifest; only planned runs are analysed."
        )
    ok = runs[runs["status"] == Status.OK.value]
    for column in columns:
        # NaN steps mean "never reached", and have become the horizon before they come here.
        bad = ok[~np.isfinite(ok[column].astype(float))]
        if len(bad):
            row = bad.iloc[0]
            raise UserError(
                f"Run {row['method']} on {row['setup']} with seed {row['seed']} is ok but its "
                f"'{column}' is {row[column]}; a run without a score is not ok."
            )


def tally(runs: pd.DataFrame) -> tuple[Accounting, ...]:
    """Counts the runs of every cell (method, setup) by status."""
    cells = []
    for (method, setup), group in runs.groupby(["method", "setup"], sort=True):
        counts = group["status"].value_counts()
        numbers = {status.replace("-", "_"): int(counts.get(status, 0)) for status in STATUSES}
        cells.append(Accounting(str(method), str(setup), len(group), **numbers))
    return tuple(cells)


def _s(items: Sequence[str]) -> str:
    return "s" if len(items) > 1 else ""
