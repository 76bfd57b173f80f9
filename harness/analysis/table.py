"""Scored runs as estimates and comparisons ask for them: by label, scope and estimand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import MISSING, STEPS, Scale, broken_cells
from pacebench.harness.errors import UserError
from pacebench.harness.records import Status
from pacebench.harness.statistics.scores import FloatArray, Scores
from pacebench.harness.statistics.survival import restrict
from pacebench.harness.study.models import Study

SUITE = "suite"
# How each estimand is called in print.
MEASURES = {
    "return": "mean target return",
    "success": "success rate",
    "solved": "share of runs that solve the task",
    "normalised": "normalised score",
    "auc": "area under the learning curve",
    "cvar": "return on the worst 20 % of contexts",
    STEPS: "steps to threshold (restricted mean)",
}
# On one scale in all setups, so that a mean over setups means something.
COMPARABLE = ("normalised", "success", "solved")
# Where no range of returns is proven, normalised scores are clipped to this for comparisons.
CLIP = (0.0, 1.25)

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Accounting:
    """What became of the runs of one cell; `planned` is the denominator."""

    label: str
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
        """Returns plain values."""
        return asdict(self)


def tally(rows: pd.DataFrame) -> tuple[Accounting, ...]:
    """Counts the runs of every cell by status."""
    statuses = (*(status.value for status in Status), MISSING)
    cells = []
    for (label, setup), group in rows.groupby(["label", "setup"], sort=True):
        counts = group["status"].value_counts()
        numbers = {status.replace("-", "_"): int(counts.get(status, 0)) for status in statuses}
        cells.append(Accounting(str(label), str(setup), len(group), **numbers))
    return tuple(cells)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """All planned observations of a study with their scores.

    Attributes:
        study: The study as it is analysed.
        scales: The scale of each setup.
        rows: One row per observation: `label`, `setup`, `seed`, `status` and the estimands; unknown
            scores are NaN.
        seed: Root of all random streams.
        measures: The estimands that the rows hold, and how each is called in print.
    """

    study: Study
    scales: Mapping[str, Scale]
    rows: pd.DataFrame
    seed: np.random.SeedSequence
    measures: Mapping[str, str] = field(default_factory=lambda: MEASURES)

    def __post_init__(self) -> None:
        known = {*(status.value for status in Status), MISSING}
        strange = sorted(set(self.rows["status"].astype(str)) - known)
        if strange:
            raise UserError(f"unknown status '{strange[0]}'; known are {', '.join(sorted(known))}.")
        if self.rows.duplicated(["label", "setup", "seed"]).any():
            raise UserError(
                "a run occurs twice; the unit is the training run, so give one row per run, not "
                "one per episode."
            )

    @property
    def estimands(self) -> tuple[str, ...]:
        """What is estimated; a grid of one point has no area."""
        return tuple(name for name in self.measures if name != "auc" or self.has_area)

    @property
    def has_area(self) -> bool:
        """Whether learning curves have two points or more."""
        return len(self.study.evaluation_steps()) > 1

    @cached_property
    def accounting(self) -> tuple[Accounting, ...]:
        """What became of every planned observation, per cell."""
        return tally(self.rows)

    @cached_property
    def _broken(self) -> dict[tuple[str, str], str]:
        return broken_cells(self.rows)

    def broken(self, labels: Sequence[str], scope: str) -> str:
        """Returns why labels cannot be compared on a scope; empty where they can."""
        cells = [
            (label, setup)
            for name in labels
            for label in self.study.members(name)
            for setup in self.setups(scope)
        ]
        return ", and ".join(
            f"every run of {label} on {setup} crashed with {self._broken[label, setup]}"
            for label, setup in cells
            if (label, setup) in self._broken
        )

    @cached_property
    def _by_cell(self) -> dict[tuple[str, str], pd.DataFrame]:
        cells = {
            (str(label), str(setup)): group.set_index("seed").sort_index()
            for (label, setup), group in self.rows.groupby(["label", "setup"], sort=False)
        }
        for name, members in self.study.statistics.pools.items():
            for setup in self.study.setups:
                parts = [cells[label, setup] for label in members if (label, setup) in cells]
                if len(parts) == len(members):
                    cells[name, setup] = _pooled(parts)
        return cells

    def rng(self, *names: str) -> np.random.Generator:
        """Returns a stream of its own for a purpose, whatever else is computed."""
        digest = hashlib.sha256("\0".join(names).encode()).digest()[:16]
        words = tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
        key = (*self.seed.spawn_key, *words)
        return np.random.default_rng(np.random.SeedSequence(self.seed.entropy, spawn_key=key))

    def setups(self, scope: str) -> tuple[str, ...]:
        """Returns the setups of a scope."""
        return self.study.setups if scope == SUITE else (scope,)

    def scopes(self, estimand: str) -> tuple[str, ...]:
        """Returns the scopes on which an estimand is reported."""
        suite = estimand in COMPARABLE and len(self.study.setups) > 1
        return (*self.study.setups, SUITE) if suite else self.study.setups

    def cell(self, label: str, setup: str) -> pd.DataFrame:
        """Returns the observations of one cell by seed, in the order of the seed index."""
        found = self._by_cell.get((label, setup))
        return self.rows.iloc[:0].set_index("seed") if found is None else found

    def values(self, label: str, setup: str, estimand: str) -> pd.Series[float]:
        """Returns one number per observation by seed; NaN where it is unknown."""
        cell = self.cell(label, setup)
        if len(members := self.study.members(label)) > 1:
            # Not of the pooled column: steps are restricted run by run.
            arms = [self.values(member, setup, estimand) for member in members]
            return pd.concat(arms, axis=1, join="inner").mean(axis=1, skipna=False)
        found = cell[estimand].to_numpy(dtype=np.float64)
        if estimand == STEPS:
            known = ~cell["status"].isin([MISSING, Status.INFRASTRUCTURE]).to_numpy()
            found = np.where(known, restrict(found, float(self.study.budget)), np.nan)
        return pd.Series(found, index=cell.index)

    def bounds(self, setup: str, estimand: str) -> Bounds | None:
        """Returns the smallest and the largest score that is possible; None where not proven."""
        scale = self.scales[setup]
        if estimand in ("success", "solved"):
            return 0.0, 1.0
        if estimand == STEPS:
            return 0.0, float(self.study.budget)
        if not scale.bounded:
            return None
        if estimand == "return":
            return float(scale.raw(scale.lowest)), float(scale.raw(scale.highest))
        return scale.lowest, scale.highest

    def scope_bounds(self, scope: str, estimand: str) -> Bounds | None:
        """Returns bounds that hold on all setups of a scope."""
        found = [self.bounds(setup, estimand) for setup in self.setups(scope)]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return None
        return min(low for low, _ in known), max(high for _, high in known)

    def comparable_bounds(self, setup: str, estimand: str) -> Bounds | None:
        """Returns the range that comparisons are made in, to which scores are clipped if need be.

        Returns have none where none is proven: then a comparison rests on a model.
        """
        unproven = None if estimand in ("return", STEPS) or self.scales[setup].raw_only else CLIP
        return self.bounds(setup, estimand) or unproven

    def has_range(self, scope: str, estimand: str) -> bool:
        """Returns whether comparisons rest on a range of the scores, and on no model."""
        return all(self.comparable_bounds(setup, estimand) for setup in self.setups(scope))

    def smallest_effect(self, estimand: str, scope: str) -> float:
        """Returns the smallest effect of interest on the scale of an estimand."""
        effect = self.study.statistics.smallest_effect
        return effect * abs(self.scales[scope].unit) if estimand == "return" else effect

    def scores(
        self, label: str, scope: str, estimand: str, unknown: str = "left out"
    ) -> Scores | None:
        """Returns scores, seeds × setups; seeds without a score on any setup are left out.

        Args:
            label: Whose.
            scope: A setup, or `suite`.
            estimand: Which.
            unknown: `worst` or `best` gives unknown scores the end of their range.
        """
        key = label, scope, estimand, unknown
        if key not in self._scores:
            self._scores[key] = self._scores_of(*key)
        return self._scores[key]

    @cached_property
    def _scores(self) -> dict[tuple[str, str, str, str], Scores | None]:
        """What was asked for: estimates and comparisons ask for the same scores."""
        return {}

    def _scores_of(self, label: str, scope: str, estimand: str, unknown: str) -> Scores | None:
        columns = []
        for setup in self.setups(scope):
            column = self.values(label, setup, estimand)
            bounds = self.bounds(setup, estimand)
            if unknown != "left out" and bounds is not None:
                # Fewer steps are better.
                worst, best = bounds[::-1] if estimand == STEPS else bounds
                column = column.fillna(worst if unknown == "worst" else best)
            columns.append(column.rename(setup))
        frame = pd.concat(columns, axis=1, join="inner").dropna()
        if frame.empty:
            return None
        seeds = tuple(int(seed) for seed in frame.index)
        return Scores(label, tuple(frame.columns), seeds, frame.to_numpy(dtype=np.float64))

    @staticmethod
    def seeds_there(cells: Sequence[pd.DataFrame]) -> int:
        """Returns how many seeds every cell has, counted up to the first that one has not yet."""
        there = [set(cell.index[(cell["status"] != MISSING).to_numpy()]) for cell in cells]
        return next(seed for seed in count() if not all(seed in seeds for seeds in there))

    def paired(self, a: str, b: str, scope: str, estimand: str) -> Paired:
        """Returns two labels' scores by seed index, up to the first seed that is not there yet.

        Runs finish in an order that depends on how they went, so a later seed must not stand in
        for an earlier one. A run lost to the machine is there, and unknown.
        """
        setups = self.setups(scope)
        cells = [self.cell(label, setup) for label in (a, b) for setup in setups]
        order = range(self.seeds_there(cells))
        x, y = (
            np.array(
                [self.values(label, setup, estimand).reindex(order) for setup in setups],
                dtype=np.float64,
            ).T
            for label in (a, b)
        )
        bounds = [self.comparable_bounds(setup, estimand) for setup in setups]
        known = [pair for pair in bounds if pair is not None]
        return Paired(x, y, np.array(known).T if len(known) == len(setups) else None)


@dataclass(frozen=True, eq=False)
class Paired:
    """Scores of two arms, (seeds, setups); NaN for runs that were lost.

    Attributes:
        x: Of the first.
        y: Of the second.
        bounds: Smallest and largest possible score per setup, (2, setups), if known.
    """

    x: FloatArray
    y: FloatArray
    bounds: FloatArray | None

    @property
    def lost(self) -> int:
        """Runs whose score is unknown."""
        return int(np.isnan(self.x).sum() + np.isnan(self.y).sum())

    @property
    def clipped(self) -> int:
        """Runs whose score lies outside the range and is clipped to it."""
        if self.bounds is None:
            return 0
        low, high = self.bounds
        slack = 1e-9 * (high - low)
        return int(sum(((v < low - slack) | (v > high + slack)).sum() for v in (self.x, self.y)))

    @property
    def half_range(self) -> float:
        """How far the mean over setups of the differences can be from zero."""
        assert self.bounds is not None
        return float((self.bounds[1] - self.bounds[0]).mean())

    def differences(self, lost: str) -> FloatArray:
        """Returns the mean difference over setups of each seed.

        Args:
            lost: `worst` gives lost runs of the first arm their lowest score and of the second
                their highest, `best` the other way round.
        """
        assert self.bounds is not None
        low, high = self.bounds
        fills = (low, high) if lost == "worst" else (high, low)
        x, y = (
            np.where(np.isnan(values), fill, np.clip(values, low, high))
            for values, fill in zip((self.x, self.y), fills, strict=True)
        )
        return np.asarray((x - y).mean(axis=1))


def _pooled(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Returns which seeds of a pool are there, and whether its members solved the task."""
    status = pd.concat([part["status"] for part in parts], axis=1, join="inner")
    lost, missing = (
        (status == unknown).any(axis=1) for unknown in (Status.INFRASTRUCTURE.value, MISSING)
    )
    worst = np.select([missing, lost], [MISSING, Status.INFRASTRUCTURE.value], Status.OK.value)
    solved = pd.concat([part["solved"] for part in parts], axis=1, join="inner").min(axis=1)
    return pd.DataFrame({"status": worst, "solved": solved})
