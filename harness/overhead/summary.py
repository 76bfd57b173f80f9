"""From stored blocks to findings: times, ratios, noise floors, exponents, quality."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from scipy import stats

from pacebench.harness.overhead import findings, scaling
from pacebench.harness.overhead.cells import MEMORY, BlockRecord, CellRecord
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.quality import JudgedAnswer, judge_answers, pool_quality
from pacebench.harness.overhead.ratios import noise_floor, ratio, seconds
from pacebench.harness.overhead.replay import AGAIN, SLOWED
from pacebench.harness.overhead.settings import REFERENCE, TWIN, Settings

Clock = Literal["wall", "cpu"]
_CLOCKS: tuple[Clock, Clock] = ("wall", "cpu")
# Beyond this ratio of wall to processor time, updates were waiting for their turn.
_BUSY = 1.05
# One problem, the published solver and a strong one: their ratio is what the solver alone costs.
SAME_PROBLEM = ("spdl", "spdl-sqp")


def summarise(
    cells: Sequence[CellRecord],
    check: CellRecord,
    training: findings.TrainingSummary | None,
    settings: Settings,
    machine: findings.MachineState,
) -> findings.OverheadSummary:
    """Returns all findings."""
    clock, waiting = choose_clock([check, *cells])
    judged = [
        [row for _, answers in sorted(cell.answers.items()) for row in judge_answers(answers)]
        for cell in cells
    ]
    found = [
        _summarise_cell(cell, rows, settings, clock)
        for cell, rows in zip(cells, judged, strict=True)
    ]
    return findings.OverheadSummary(
        settings=settings,
        digest=settings.cell_digest(),
        machine=machine,
        clock=clock,
        wall_over_cpu=waiting,
        check=summarise_check(check, settings, clock),
        twins=_summarise_twins([cell.twin for cell in found]),
        cells=tuple(found),
        scaling=_summarise_scaling(cells, settings, clock),
        quality={
            name: pool_quality(mine)
            for name in settings.curricula
            if (mine := _of(name, [row for rows in judged for row in rows]))
        },
        training=training,
    )


def choose_clock(cells: Iterable[CellRecord]) -> tuple[Clock, float]:
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
    middle = float(np.mean(ratios)) if ratios else 1.0
    return ("cpu" if middle > _BUSY else "wall"), middle


def _of(method: str, rows: Iterable[JudgedAnswer]) -> list[JudgedAnswer]:
    return [row for row in rows if row.method == method]


def _summarise_cell(
    cell: CellRecord, judged: list[JudgedAnswer], settings: Settings, main: Clock
) -> findings.CellFinding:
    blocks = settings.blocks
    floors = {clock: _floor(cell, clock, blocks) for clock in _CLOCKS}
    methods = {
        name: _untimed(cell, name) or _timed(cell, name, _of(name, judged), floors, blocks, main)
        for name in settings.curricula
    }
    pairs = {}
    if all(isinstance(methods.get(name), findings.TimedMethod) for name in SAME_PROBLEM):
        a, b = (times(cell, name, main, blocks) for name in SAME_PROBLEM)
        pairs["/".join(SAME_PROBLEM)] = ratio(a, b, floors[main])
    return findings.CellFinding(
        **cell.stream.model_dump(include={"name", "kind", "d", "size"}),
        floor=floors[main],
        twin=_ratio(cell, TWIN, main, 1.0, blocks),
        methods=methods,
        pairs=pairs,
        machine=_disturbance(cell.blocks.values()),
    )


def _untimed(cell: CellRecord, name: str) -> findings.UntimedMethod | None:
    """Returns why a curriculum has no times in a cell; None where it has."""
    probe = cell.probes[name]
    if probe.failed is not None:
        return findings.UntimedMethod(status="failed", note=probe.failed)
    if probe.over == MEMORY:
        return findings.UntimedMethod(status="over", note="out of memory")
    if probe.over is not None:
        known = "" if probe.attempted else f"not attempted: over the limit at {probe.over} already"
        return findings.UntimedMethod(status="over", note=known)
    raised = [block.failed[name] for block in cell.blocks.values() if name in block.failed]
    return findings.UntimedMethod(status="failed", note=min(raised)) if raised else None


def _timed(
    cell: CellRecord,
    name: str,
    judged: list[JudgedAnswer],
    floors: dict[Clock, float],
    blocks: int,
    main: Clock,
) -> findings.TimedMethod:
    taken = {clock: seconds(times(cell, name, clock, blocks)) for clock in _CLOCKS}
    ratios = {
        clock: None if name == REFERENCE else _ratio(cell, name, clock, floors[clock], blocks)
        for clock in _CLOCKS
    }
    return findings.TimedMethod(
        **taken,
        time=taken[main],
        wall_ratio=ratios["wall"],
        cpu_ratio=ratios["cpu"],
        ratio=ratios[main],
        quality=pool_quality(judged) if judged else None,
    )


def times(cell: CellRecord, label: str, clock: Clock, blocks: int) -> Floats:
    """Returns the seconds per update of one contestant, one number per block.

    It is the geometric mean over the block's instances, so that it means the same whether a block
    replays one instance or all: the arithmetic mean of a few instances whose times spread over
    decades is mostly below that of many.
    """
    found = [cell.blocks[n].times[label] for n in sorted(cell.blocks) if n < blocks]
    return np.array([stats.gmean(block.wall if clock == "wall" else block.cpu) for block in found])


def _floor(cell: CellRecord, clock: Clock, blocks: int) -> float:
    return noise_floor(times(cell, REFERENCE, clock, blocks), times(cell, TWIN, clock, blocks))


def _ratio(cell: CellRecord, label: str, clock: Clock, floor: float, blocks: int) -> findings.Ratio:
    a, b = times(cell, label, clock, blocks), times(cell, REFERENCE, clock, blocks)
    return ratio(a, b, floor)


def summarise_check(cell: CellRecord, settings: Settings, clock: Clock) -> findings.CheckFinding:
    """Returns what the self-check shows: A/A, and the injected slowdown."""
    blocks = settings.check_blocks
    floor = _floor(cell, clock, blocks)
    return findings.CheckFinding(
        blocks=blocks,
        floor=floor,
        again=_ratio(cell, AGAIN, clock, floor, blocks),
        slowed=_ratio(cell, SLOWED, clock, floor, blocks),
        machine=_disturbance(cell.blocks.values()),
    )


def _summarise_twins(twins: Sequence[findings.Ratio]) -> findings.TwinsFinding:
    false = sum(twin.outcome is not findings.Speed.INCONCLUSIVE for twin in twins)
    test = stats.binomtest(false, len(twins), 0.05, alternative="greater")
    return findings.TwinsFinding(
        cells=len(twins),
        false=false,
        p_value=float(test.pvalue),
        median_floor=float(np.median([max(1 / twin.low, twin.high) for twin in twins])),
    )


def _summarise_scaling(
    cells: Sequence[CellRecord], settings: Settings, main: Clock
) -> dict[str, findings.ScalingFinding]:
    found: dict[str, findings.ScalingFinding] = {}
    for name in settings.curricula:
        mine = [c for c in cells if c.stream.kind == "synthetic" and _untimed(c, name) is None]
        if not mine:
            continue
        d = np.array([cell.stream.d for cell in mine], dtype=np.float64)
        size = np.array([cell.stream.size for cell in mine], dtype=np.float64)
        taken = np.stack([times(cell, name, main, settings.blocks) for cell in mine], axis=1)
        fit = scaling.fit(d, size, taken)
        if fit is not None:
            found[name] = fit
    return found


def _disturbance(blocks: Iterable[BlockRecord]) -> findings.Disturbance:
    """Returns the mean load, the largest stolen share and all preemptions of several blocks."""
    states = [block.machine for block in blocks]
    load = [state.load[0] for state in states if state.load]
    return findings.Disturbance(
        load=round(float(np.mean(load)), 2) if load else math.nan,
        steal=max((state.steal for state in states), default=0.0),
        preemptions=sum(state.preemptions for state in states),
    )
