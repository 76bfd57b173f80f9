"""From stored blocks to findings: times, ratios, noise floors, exponents, quality."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from pacebench.harness.overhead import findings, scaling
from pacebench.harness.overhead.cells import CLOCKS, CellRecord
from pacebench.harness.overhead.crossed import per_update, seconds, total
from pacebench.harness.overhead.quality import judge_all, pool_quality
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings

MainClock = Literal["wall", "cpu"]
# Beyond this ratio of wall to processor time, updates were waiting for their turn.
_BUSY = 1.05
# One problem, the published solver and a strong one: their ratio is what the solver alone costs.
_SOLVERS = ("spdl", "spdl-sqp")


def summarise(
    cells: Sequence[CellRecord],
    training: findings.TrainingSummary | None,
    settings: Settings,
    machine: dict[str, Any],
) -> findings.OverheadSummary:
    """Returns all findings."""
    clock, waiting = choose_clock(cells)
    judged = judge_all({cell.stream.name: cell.answers for cell in cells})
    quality = {name: pool_quality(judged[judged["method"] == name]) for name in settings.curricula}
    fits = {name: scaling.fit(name, cells, clock) for name in settings.curricula}
    return findings.OverheadSummary(
        settings=settings,
        machine=machine,
        clock=clock,
        wall_over_cpu=waiting,
        cells=tuple(_summarise_cell(cell, judged, clock) for cell in cells),
        scaling={name: fit for name, fit in fits.items() if fit is not None},
        quality={name: found for name, found in quality.items() if found is not None},
        training=training,
    )


def choose_clock(cells: Iterable[CellRecord]) -> tuple[MainClock, float]:
    """Returns the clock that verdicts go by, and the ratio of wall to processor time behind it.

    On a busy machine the wall clock counts the turns of others, and more of them the longer an
    update takes, so a ratio of wall times would be biased; processor time is reported then. The
    rule looks at the ratio of the clocks alone, never at a result.
    """
    ratios = [
        float(np.mean(found["wall"]) / np.mean(found["cpu"]))
        for cell in cells
        for block in cell.blocks.values()
        for found in block.times.values()
    ]
    waiting = float(stats.gmean(ratios))
    return ("cpu" if waiting > _BUSY else "wall"), waiting


def _summarise_cell(
    cell: CellRecord, judged: pd.DataFrame, clock: MainClock
) -> findings.CellFinding:
    reference = cell.times(REFERENCE, clock)
    twin = per_update(cell.times(TWIN, clock), reference)
    mine = judged[judged["cell"] == cell.stream.name]
    solvers = [cell.times(name, clock) for name in _SOLVERS if name in cell.seconds]
    blocks = cell.blocks.values()
    return findings.CellFinding(
        name=cell.stream.name,
        stream=cell.stream.fingerprint,
        kind=cell.stream.kind,
        d=cell.stream.d,
        size=cell.stream.size,
        instances=len(reference),
        blocks=len(blocks),
        floor=max(1.0 / twin.low, twin.high),
        twin=twin,
        slowed=per_update(cell.times(SLOWED, clock), reference),
        methods={
            name: _method(cell, name, clock, pool_quality(mine[mine["method"] == name]))
            for name in cell.seconds
        },
        untimed=cell.untimed,
        solver=per_update(*solvers) if len(solvers) == 2 else None,
        load=float(np.mean([block.load for block in blocks])),
        steal=max(block.steal for block in blocks),
    )


def _method(
    cell: CellRecord, name: str, clock: MainClock, quality: findings.QualityFinding | None
) -> findings.MethodFinding:
    taken = {each: seconds(cell.times(name, each)) for each in CLOCKS}
    whole = cell.times(name, clock), cell.times(REFERENCE, clock)
    own = cell.times(name, "step"), cell.times(REFERENCE, "step")
    return findings.MethodFinding(
        **taken,
        time=taken[clock],
        mean_time=whole[0].mean(),
        ratio=per_update(*whole),
        total=total(*whole),
        step_ratio=per_update(*own),
        step_total=total(*own),
        quality=quality,
    )
