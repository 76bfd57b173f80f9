"""From stored blocks to findings: times, ratios, noise floors, exponents, quality; plain JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from pacebench import curricula
from pacebench.harness.overhead import quality, scaling
from pacebench.harness.overhead.cells import Cell
from pacebench.harness.overhead.instances import Floats
from pacebench.harness.overhead.ratios import Ratio, Speed, noise_floor, ratio, seconds
from pacebench.harness.overhead.replay import AGAIN, SLOWED
from pacebench.harness.overhead.settings import REFERENCE, TWIN, Settings

CLOCKS = ("wall", "cpu")
# Beyond this ratio of wall to processor time, updates were waiting for their turn.
BUSY = 1.05
# One problem, the published solver and a strong one: their ratio is what the solver alone costs.
SAME_PROBLEM = ("spdl", "spdl-sqp")


def choose_clock(cells: Iterable[Cell]) -> tuple[str, float]:
    """Returns the clock that verdicts go by, and the ratio of wall to processor time behind it.

    An update computes on one thread and waits for nothing, so on a quiet machine both clocks agree
    and the wall clock is reported. On a busy one the wall clock counts the turns of others, and
    more of them the longer an update takes, so a ratio of wall times would be biased; processor
    time is reported then. The rule looks at the ratio of the clocks alone, never at a result.
    """
    ratios = [
        float(np.mean(found["wall"]) / np.mean(found["cpu"]))
        for cell in cells
        for block in cell.blocks.values()
        for found in block["times"].values()
    ]
    middle = float(np.mean(ratios)) if ratios else 1.0
    return ("cpu" if middle > BUSY else "wall"), middle


def summarise_cells(
    cells: Sequence[Cell],
    judged: dict[str, list[dict[str, Any]]],
    settings: Settings,
    clock: str,
) -> list[dict[str, Any]]:
    """Returns one entry per cell.

    Args:
        cells: The measured cells.
        judged: Rows of `judge_cell` by name of the cell.
        settings: What was asked for.
        clock: The clock that verdicts go by.
    """
    return [_summarise_cell(cell, judged[cell.source.name], settings, clock) for cell in cells]


def _summarise_cell(
    cell: Cell, judged: list[dict[str, Any]], settings: Settings, main: str
) -> dict[str, Any]:
    floors = {clock: _floor(cell, clock, settings.blocks) for clock in CLOCKS}
    methods: dict[str, Any] = {}
    for name in settings.curricula:
        methods[name] = _summarise_method(cell, name, floors, settings, main)
        rows = [row for row in judged if row["method"] == name]
        if rows:
            methods[name]["quality"] = pool_quality(rows)
    twin = {clock: _ratio(cell, TWIN, clock, 1.0, settings.blocks) for clock in CLOCKS}
    pairs = {}
    if all(methods.get(name, {}).get("status") == "ok" for name in SAME_PROBLEM):
        a, b = (times(cell, name, main, settings.blocks) for name in SAME_PROBLEM)
        pairs["/".join(SAME_PROBLEM)] = ratio(a, b, floors[main]).to_dict()
    source = cell.source
    return {
        "name": source.name,
        "kind": source.kind,
        "d": source.d,
        "size": source.size,
        "floor": floors[main],
        "floors": floors,
        "twin": twin[main].to_dict(),
        "twins": {clock: found.to_dict() for clock, found in twin.items()},
        "methods": methods,
        "pairs": pairs,
        "machine": pool_machine(cell.blocks.values()),
    }


def _summarise_method(
    cell: Cell, name: str, floors: dict[str, float], settings: Settings, main: str
) -> dict[str, Any]:
    probe = cell.probes[name]
    if "failed" in probe:
        return {"status": "failed", "note": str(probe["failed"])}
    if "over" in probe:
        if probe["over"] == "memory":
            return {"status": "over", "note": "out of memory"}
        tried = probe["attempted"]
        where = "" if tried else f"not attempted: over the limit at {probe['over']} already"
        return {"status": "over", "note": where}
    broken = {
        block["failed"][name] for block in cell.blocks.values() if name in block.get("failed", {})
    }
    if broken:
        return {"status": "failed", "note": sorted(broken)[0]}
    found: dict[str, Any] = {"status": "ok", "note": ""}
    for clock in CLOCKS:
        found[clock] = seconds(times(cell, name, clock, settings.blocks)).to_dict()
        if name != REFERENCE:
            against = _ratio(cell, name, clock, floors[clock], settings.blocks)
            found[f"{clock}_ratio"] = against.to_dict()
    found["time"] = found[main]
    if name != REFERENCE:
        found["ratio"] = found[f"{main}_ratio"]
    return found


def times(cell: Cell, label: str, clock: str, blocks: int) -> Floats:
    """Returns the seconds per update of one entry, one number per block.

    It is the geometric mean over the block's instances, so that it means the same whether a block
    replays one instance or all: the arithmetic mean of a few instances whose times spread over
    decades is mostly below that of many.
    """
    done = [cell.blocks[n]["times"][label] for n in sorted(cell.blocks) if n < blocks]
    return np.array([float(np.exp(np.mean(np.log(found[clock])))) for found in done])


def _floor(cell: Cell, clock: str, blocks: int) -> float:
    return noise_floor(times(cell, REFERENCE, clock, blocks), times(cell, TWIN, clock, blocks))


def _ratio(cell: Cell, label: str, clock: str, floor: float, blocks: int) -> Ratio:
    a, b = times(cell, label, clock, blocks), times(cell, REFERENCE, clock, blocks)
    return ratio(a, b, floor)


def summarise_check(cell: Cell, settings: Settings, main: str) -> dict[str, Any]:
    """Returns what the self-check shows: A/A, and the injected slowdown, by both clocks."""
    found: dict[str, Any] = {"blocks": settings.check_blocks}
    for clock in CLOCKS:
        floor = _floor(cell, clock, settings.check_blocks)
        again = _ratio(cell, AGAIN, clock, floor, settings.check_blocks)
        slowed = _ratio(cell, SLOWED, clock, floor, settings.check_blocks)
        found[clock] = {"floor": floor, "again": again.to_dict(), "slowed": slowed.to_dict()}
    found |= found[main]
    found["machine"] = pool_machine(cell.blocks.values())
    return found


def summarise_twins(cells: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns how many A/A intervals exclude 1, and whether chance explains that many."""
    twins = [cell["twin"] for cell in cells]
    false = sum(twin["outcome"] != Speed.INCONCLUSIVE.value for twin in twins)
    test = stats.binomtest(false, len(twins), 0.05, alternative="greater")
    return {
        "cells": len(twins),
        "false": false,
        "p_value": float(test.pvalue),
        "median_floor": float(np.median([max(1 / twin["low"], twin["high"]) for twin in twins])),
    }


def summarise_scaling(cells: Sequence[Cell], settings: Settings, main: str) -> dict[str, Any]:
    """Returns the fitted exponents of every curriculum."""
    found: dict[str, Any] = {}
    for name in settings.curricula:
        mine = [
            cell
            for cell in cells
            if cell.source.kind == "synthetic"
            and "seconds" in cell.probes[name]
            and all(name in block["times"] for block in cell.blocks.values())
        ]
        if not mine:
            continue
        d = np.array([cell.source.d for cell in mine], dtype=np.float64)
        size = np.array([cell.source.size for cell in mine], dtype=np.float64)
        taken = np.stack([times(cell, name, main, settings.blocks) for cell in mine], axis=1)
        fit = scaling.fit(d, size, taken)
        if fit is not None:
            found[name] = fit.to_dict() | {"curve": scaling.curve(d, size, taken).tolist()}
    return found


def judge_cell(cell: Cell) -> list[dict[str, Any]]:
    """Returns one row per instance and method: gap, budget used, violations, rejection."""
    rows: list[dict[str, Any]] = []
    for index, stored in sorted(cell.answers.items()):
        staying = quality.Answer(**stored["staying"])
        answers = {
            name: quality.Answer(**answer) for name, answer in stored.items() if name != "staying"
        }
        converging = staying.value >= 0.0
        gaps = {
            problem: quality.gaps(answers, staying, problem, converging=converging)
            for problem in (quality.FORWARD, quality.REVERSE)
        }
        for name, answer in answers.items():
            problem = quality.problem_of(name)
            assert problem is not None
            rows.append(
                {
                    "cell": cell.source.name,
                    "instance": index,
                    "method": name,
                    "problem": problem,
                    "converging": converging,
                    "gap": gaps[problem][name],
                    "budget": quality.budget(answer, problem),
                    "over_budget": quality.over_budget(answer, problem),
                    "value": answer.value,
                    "short": quality.short_of_value(answer, converging=converging),
                    "rejected": not answer.accepted,
                    "iterations": answer.iterations,
                    "case": f"{answer.step}: {answer.case}",
                }
            )
    return rows


def pool_quality(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the quality of one method over several instances."""
    gaps = np.array([row["gap"] for row in rows], dtype=np.float64)
    scored = gaps[np.isfinite(gaps)]
    budgets = np.array([row["budget"] for row in rows])
    return {
        "problem": rows[0]["problem"],
        "updates": len(rows),
        "scored": len(scored),
        "gap_median": float(np.median(scored)) if len(scored) else None,
        "gap_worst": float(scored.max()) if len(scored) else None,
        "budget_median": float(np.median(budgets)),
        "budget_worst": float(budgets.max()),
        "over_budget": sum(row["over_budget"] for row in rows),
        "short": sum(row["short"] for row in rows),
        "infeasible": sum(row["over_budget"] or row["short"] for row in rows),
        "converging": sum(row["converging"] for row in rows),
        "value_worst": min((row["value"] for row in rows if row["converging"]), default=None),
        "rejected": sum(row["rejected"] for row in rows),
        "iterations": float(np.mean([row["iterations"] for row in rows])),
    }


def pool_machine(blocks: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Returns the mean load, the largest stolen share and all preemptions of several blocks."""
    states = [block["machine"] for block in blocks]
    load = [state["load"][0] for state in states if state.get("load")]
    return {
        "load": round(float(np.mean(load)), 2) if load else math.nan,
        "steal": max((state.get("steal", 0.0) for state in states), default=0.0),
        "preemptions": sum(state["preemptions"] for state in states),
    }


def self_paced(names: Iterable[str]) -> list[str]:
    """Returns the self-paced among some curricula, which alone solve a problem."""
    return [name for name in names if curricula.get(name).capabilities.self_paced]
