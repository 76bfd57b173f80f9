"""From stored blocks to findings: times, ratios, noise floors, exponents, quality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from pacebench.harness.overhead import findings, scaling
from pacebench.harness.overhead.cells import CellRecord
from pacebench.harness.overhead.crossed import per_update, seconds, total
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.quality import judge_all, pool_quality
from pacebench.harness.overhead.settings import REFERENCE, SLOWED, TWIN, Settings
from pacebench.harness.overhead.timing import Clock

MainClock = Literal["wall", "cpu"]
# Beyond this ratio of wall to processor time, updates were waiting for their turn.
_BUSY = 1.05
# One problem, the published solver and a strong one: their ratio is what the solver alone costs.
SAME_PROBLEM = ("spdl", "spdl-sqp")


def summarise(
    cells: Sequence[CellRecord],
    training: findings.TrainingSummary | None,
    settings: Settings,
    machine: findings.MachineState,
) -> findings.OverheadSummary:
    """Returns all findings."""
    clock, waiting = choose_clock(cells)
    judged = judge_all({cell.stream.name: cell.answers for cell in cells})
    found = [_summarise_cell(cell, judged, settings, clock) for cell in cells]
    return findings.OverheadSummary(
        settings=settings,
        digest=settings.cell_digest(),
        machine=machine,
        clock=clock,
        wall_over_cpu=waiting,
        twins=summarise_check(found),
        cells=tuple(found),
        scaling=_summarise_scaling(cells, settings, clock),
        quality={
            name: quality
            for name in settings.curricula
            if (quality := pool_quality(judged[judged["method"] == name])) is not None
        },
        training=training,
    )


def choose_clock(cells: Iterable[CellRecord]) -> tuple[MainClock, float]:
    """Returns the clock that verdicts go by, and the ratio of wall to processor time behind it.

    An update computes on one thread and waits for nothing, so on a quiet machine both clocks agree
    and the wall clock is reported. On a busy one the wall clock counts the turns of others, and
    more of them the longer an update takes, so a ratio of wall times would be biased; processor
    time is reported then. The rule looks at the ratio of the clocks alone, never at a result.
    """
    ratios = [
        float(np.mean(found.wall) / np.mean(found.cpu))
        for cell in cells
        for block in cell.blocks.values()
        for found in block.times.values()
    ]
    waiting = float(stats.gmean(ratios))
    return ("cpu" if waiting > _BUSY else "wall"), waiting


def _summarise_cell(
    cell: CellRecord, judged: pd.DataFrame, settings: Settings, main: MainClock
) -> findings.CellFinding:
    def times(label: str, clock: Clock = main) -> Floats:
        return cell.times(label, clock, settings.blocks)

    reference = times(REFERENCE)
    twin = per_update(times(TWIN), reference)
    floor = max(1.0 / twin.low, twin.high)
    mine = judged[judged["cell"] == cell.stream.name]
    methods: dict[str, findings.TimedMethod | findings.UntimedMethod] = {}
    for name in settings.curricula:
        quality = pool_quality(mine[mine["method"] == name])
        methods[name] = _untimed(cell, name) or _timed(times, name, quality, floor, main)
    pairs, (a, b) = {}, SAME_PROBLEM
    if all(isinstance(methods.get(name), findings.TimedMethod) for name in SAME_PROBLEM):
        pairs["/".join(SAME_PROBLEM)] = per_update(times(a), times(b), floor)
    blocks = cell.blocks.values()
    load = round(float(np.mean([block.load for block in blocks])), 2)
    return findings.CellFinding(
        name=cell.stream.name,
        kind=cell.stream.kind,
        d=cell.stream.d,
        size=cell.stream.size,
        stream=cell.stream.fingerprint,
        floor=floor,
        twin=twin,
        slowed=per_update(times(SLOWED), reference, floor),
        methods=methods,
        pairs=pairs,
        machine=findings.Disturbance(load=load, steal=max(block.steal for block in blocks)),
    )


def _untimed(cell: CellRecord, name: str) -> findings.UntimedMethod | None:
    """Returns why a curriculum has no times in a cell; None where it has."""
    probe = cell.probes[name]
    if probe.failed is not None:
        return findings.UntimedMethod(status="failed", note=probe.failed)
    if probe.over == "memory":
        return findings.UntimedMethod(status="over", note="out of memory")
    if probe.over is not None:
        known = "" if probe.attempted else f"not attempted: over the limit at {probe.over} already"
        return findings.UntimedMethod(status="over", note=known)
    raised = [block.failed[name] for block in cell.blocks.values() if name in block.failed]
    return findings.UntimedMethod(status="failed", note=min(raised)) if raised else None


def _timed(
    times: Callable[[str, Clock], Floats],
    name: str,
    quality: findings.QualityFinding | None,
    floor: float,
    main: MainClock,
) -> findings.TimedMethod:
    clocks: tuple[Clock, ...] = ("wall", "cpu", "step")
    taken = {clock: seconds(times(name, clock)) for clock in clocks}
    ratios = {}
    if name != REFERENCE:
        whole = times(name, main), times(REFERENCE, main)
        own = times(name, "step"), times(REFERENCE, "step")
        ratios = {
            "ratio": per_update(*whole, floor),
            "total": total(*whole, floor),
            "step_ratio": per_update(*own, floor),
            "step_total": total(*own, floor),
        }
    return findings.TimedMethod(
        **taken,
        **ratios,
        time=taken[main],
        mean_time=float(times(name, main).mean()),
        quality=quality,
    )


def summarise_check(cells: Sequence[findings.CellFinding]) -> findings.CheckFinding:
    """Returns what the self-check shows: A/A, and the injected slowdown."""
    false = sum(cell.twin.outcome is not findings.Speed.INCONCLUSIVE for cell in cells)
    found = [cell.slowed.outcome for cell in cells if cell.slowed is not None]
    test = stats.binomtest(false, len(cells), 0.05, alternative="greater")
    return findings.CheckFinding(
        cells=len(cells),
        false=false,
        p_value=float(test.pvalue),
        slowed=sum(outcome is findings.Speed.SLOWER for outcome in found),
        median_floor=float(np.median([cell.floor for cell in cells])),
    )


def _summarise_scaling(
    cells: Sequence[CellRecord], settings: Settings, main: MainClock
) -> dict[str, findings.ScalingFinding]:
    found: dict[str, findings.ScalingFinding] = {}
    for name in settings.curricula:
        mine = [c for c in cells if c.stream.kind == "synthetic" and _untimed(c, name) is None]
        if not mine:
            continue
        d = np.array([cell.stream.d for cell in mine], dtype=np.float64)
        size = np.array([cell.stream.size for cell in mine], dtype=np.float64)
        taken = [stats.gmean(cell.times(name, main, settings.blocks)) for cell in mine]
        fit = scaling.fit(d, size, np.stack(taken, axis=1))
        if fit is not None:
            found[name] = fit
    return found
