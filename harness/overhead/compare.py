"""Do two measurements of the same streams agree?"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from pydantic import computed_field
from scipy import stats
from statsmodels.stats.multitest import multipletests

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.crossed import LEVEL
from pacebench.harness.overhead.findings import Ratio, StoredRecord, load_summary
from pacebench.harness.statistics import welch
from pacebench.harness.store.files import write_atomic

AGREEMENT = "agreement.json"


class RatioShift(StoredRecord):
    """A ratio in two measurements, its relative change (`shift`), and the p-value of no change."""

    cell: str
    method: str
    ratio: float
    other: float
    shift: float
    p_value: float


class Agreement(StoredRecord):
    """How two measurements compare: all shared ratios, and those that differ by Holm's rule."""

    rows: tuple[RatioShift, ...]
    disagreeing: tuple[RatioShift, ...]

    @computed_field
    def agree(self) -> bool:
        """Whether no ratio differs."""
        return not self.disagreeing

    @computed_field
    def sentence(self) -> str:
        """Whether two measurements of the same streams agree, in words."""
        count, changes = len(self.rows), [abs(row.shift) for row in self.rows]
        alone = sum(row.p_value < 0.05 for row in self.rows)
        worst = max(self.rows, key=lambda row: abs(math.log1p(row.shift)))
        return (
            f"Of {count} ratios that both have on the same instances, {alone} differ at the 5 % "
            f"level taken alone ({0.05 * count:.1f} expected by chance) and "
            f"{len(self.disagreeing)} after Holm's correction: the measurements "
            f"{'do not agree' if self.disagreeing else 'agree'} within their intervals. Median "
            f"change {np.median(changes):.1%}, largest {worst.shift:+.0%} ({worst.method} in "
            f"{worst.cell})."
        )


def compare_runs(folder: Path, other: Path) -> Agreement:
    """Compares every ratio per update that both have on the very same instances.

    Both replay the same instances, so how much instances differ cancels in the difference of the
    two mean logarithms. What is left is timing, whose variance the intervals for the same instances
    give: Welch's t, with Holm's correction over all ratios at 5 %. What is found is also written
    into the first folder.

    Raises:
        UserError: They have no ratio on the same instances in common.
    """
    ours, theirs = _ratios(folder), _ratios(other)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        raise UserError(
            f"{folder} and {other} have no ratio on the same instances in common; measure the same "
            "cells in both with this version of `pacebench overhead`."
        )
    rows = tuple(_shift(key[0], key[2], ours[key], theirs[key]) for key in shared)
    rejected = multipletests([row.p_value for row in rows], 0.05, method="holm")[0]
    disagreeing = tuple(row for row, bad in zip(rows, rejected, strict=True) if bad)
    found = Agreement(rows=rows, disagreeing=disagreeing)
    write_atomic(folder / AGREEMENT, (found.model_dump_json(indent=1) + "\n").encode())
    return found


def _ratios(folder: Path) -> dict[tuple[str, str, str], tuple[Ratio, int]]:
    """Returns the ratios per update with their number of blocks, by cell, stream and method."""
    return {
        (cell.name, cell.stream, name): (found.ratio, cell.blocks)
        for cell in load_summary(folder).cells
        for name, found in cell.rivals.items()
    }


def _shift(cell: str, method: str, *pair: tuple[Ratio, int]) -> RatioShift:
    dfs = np.array([blocks - 1.0 for _, blocks in pair])
    widths = np.log([ratio.same_instances.high / ratio.same_instances.low for ratio, _ in pair])
    variances = (0.5 * widths / stats.t.ppf(0.5 + LEVEL / 2, dfs)) ** 2
    ratio, other = (found.estimate for found, _ in pair)
    test = welch.pool(np.log(np.array(other / ratio)), variances, dfs)
    p_value, shift = float(welch.p_value(test)), other / ratio - 1
    return RatioShift(
        cell=cell, method=method, ratio=ratio, other=other, shift=shift, p_value=p_value
    )
