"""What the curricula did, and where the wall clock went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pacebench import curricula
from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report.canvas import Figure
from pacebench.harness.report.data import ReportData, slug
from pacebench.harness.report.document import Block, Figures, Heading, Section, TableBlock, Text
from pacebench.harness.report.figures.curriculum import divergence_figure, path_figure, step_figure
from pacebench.harness.report.figures.timing import PHASES, timing_figure
from pacebench.harness.report.tables import Column, Table, fixed, number, percent

# A step that exceeds its budget by rounding alone is not a violation.
_TOLERANCE = 1e-6
_PROMISES = {
    "joint": "KL(new‖old) ≤ ε",
    "reverse": "KL(old‖new) ≤ ε",
    "block": "≈ ε for each block",
    "block-exact": "ε for each block",
}
# nats: a shift of a thousandth of a standard deviation. Numerical solvers come no closer than 1e-9.
_ARRIVED = 1e-6


def behaviour(view: ReportData) -> Section:
    """Returns distance to the target, realised steps against ε, and paths in context space."""
    if view.updates.empty:
        text = "No curriculum update was recorded: no curriculum of this study moves."
        return Section("behaviour", "Curriculum behaviour", [Text(text)])
    blocks: list[Block] = [
        Text(
            "How the sampling distributions moved. Every update is measured by the same exact "
            "KL(p_new‖p_old) in units of its ε, whatever the curriculum itself promises to bound: "
            "the joint step, the step in the other direction, or the mean and the spread one by "
            "one. An update above 1 broke the budget as a joint step."
        ),
        TableBlock(_table(view)),
    ]
    for setup in view.study.setups:
        here = view.updates[view.updates["setup"] == setup]
        if here.empty:
            continue
        figures = _figures(view, setup, here)
        if figures:
            blocks += [Heading(setup), Figures(figures)]
    return Section("behaviour", "Curriculum behaviour", blocks)


def is_paced(updates: pd.DataFrame) -> pd.Series:
    """Says of each update whether it was bound by a trust region."""
    return updates["epsilon"].notna() & (updates["step"] != "schedule")


def _figures(view: ReportData, setup: str, here: pd.DataFrame) -> list[Figure]:
    styles, budget, name = view.styles, view.study.budget, slug(setup)
    weak = view.exploratory
    found = [
        divergence_figure(f"kl-target-{name}", here, styles, budget, exploratory=weak),
        step_figure(f"kl-step-{name}", here[is_paced(here)], styles, budget, exploratory=weak),
    ]
    for d in range(view.setups[setup].dim):
        found.append(
            path_figure(
                f"context-{name}-{d}",
                here,
                view.setups[setup],
                d,
                styles,
                budget,
                exploratory=weak,
            )
        )
    return [figure for figure in found if figure is not None]


def _table(view: ReportData) -> Table:
    rows: list[dict[str, Any]] = []
    for setup in view.study.setups:
        for label in view.labels:
            mine = view.updates[(view.updates["setup"] == setup) & (view.updates["label"] == label)]
            if not mine.empty:
                promise = _promise(view.styles[label].name)
                rows.append(
                    {"setup": setup, "method": label, "promise": promise, **_behaviour(mine)}
                )
    return Table(
        "curriculum-behaviour",
        "",
        "Updates of all runs together. “Moved” counts those that changed the distribution at all "
        "(by more than 10⁻⁶ nats), and shares above ε are shares of them: once the target is "
        "reached nothing moves any more. “Rejected” counts updates short of the target that were "
        "not used. “On target” counts runs whose last distribution is the target (KL below 10⁻⁶ "
        "nats).",
        (
            Column("setup", "setup"),
            Column("method", "curriculum", kind="method"),
            Column("runs", "runs", number=True),
            Column("updates", "updates", number=True),
            Column("moved", "moved", number=True),
            Column("performance", "performance", percent(0), number=True),
            Column("convergence", "convergence", percent(0), number=True),
            Column("hold", "hold", percent(0), number=True),
            Column("rejected", "rejected", number=True),
            Column("promise", "promises"),
            Column("violations", "updates above ε", number=True),
            Column("violation_share", "share of moves", percent(1), number=True),
            Column("largest_ratio", "largest KL/ε", fixed(2), number=True),
            Column("final_kl", "final KL to target (median)", number(3), number=True),
            Column("on_target", "on target", number=True),
            Column("ess_share", "ESS / episodes (median)", percent(0), number=True),
        ),
        rows,
    )


def _promise(name: str) -> str:
    """Returns which KL a curriculum promises to keep within ε."""
    try:
        said = curricula.get(name).capabilities
    except LookupError:
        return ""
    return _PROMISES.get(said.trust_region or "", "") if said.self_paced else ""


def _behaviour(mine: pd.DataFrame) -> dict[str, Any]:
    last = mine.sort_values("env_steps").groupby("seed", observed=True).tail(1)
    paced = mine[is_paced(mine)]
    ratio = (paced["kl_step"] / paced["epsilon"]).astype(float)
    broken = int((ratio > 1 + _TOLERANCE).sum())
    kinds = mine["step"].value_counts(normalize=True)
    bound = len(paced) > 0
    moved = int((paced["kl_step"].astype(float) > _ARRIVED).sum())
    away = ~(mine["kl_target_forward"].astype(float) <= _ARRIVED)
    final = last["kl_target_forward"].astype(float)
    return {
        "runs": len(last),
        "updates": len(mine),
        "moved": moved if bound else None,
        **{k: float(kinds.get(k, 0.0)) if bound else None for k in _KINDS},
        "rejected": int((~mine["accepted"].astype(bool) & away).sum()),
        "violations": broken if bound else None,
        "violation_share": broken / moved if moved else None,
        "largest_ratio": float(ratio.max()) if bound else None,
        "final_kl": float(final.median()) if final.notna().any() else None,
        "on_target": int((final <= _ARRIVED).sum()),
        "ess_share": _ess(paced),
    }


_KINDS = ("performance", "convergence", "hold")


def _ess(paced: pd.DataFrame) -> float | None:
    if paced.empty or paced["ess"].isna().all():
        return None
    return float(np.nanmedian(paced["ess"].astype(float) / paced["episodes"].astype(float)))


def wall_clock(view: ReportData) -> Section:
    """Returns the split of wall time by phase."""
    known = [column for column, _ in PHASES.values() if column in view.scored]
    runs = view.scored[view.scored["how"] == MEASURED]
    if not known or runs.empty:
        return Section("time", "Wall clock", [Text("No timings were recorded.")])
    figures = [
        figure
        for setup in view.study.setups
        if (figure := _timing(view, runs[runs["setup"] == setup], setup)) is not None
    ]
    lead = (
        "Where the time of a run went. Runs that train side by side share the machine, so these "
        "are shares of a bill, not timings: `pacebench overhead` compares curricula in "
        "interleaved, randomised blocks."
    )
    table = _timing_table(view, runs)
    return Section("time", "Wall clock", [Text(lead), TableBlock(table), Figures(figures)])


def _timing(view: ReportData, runs: pd.DataFrame, setup: str) -> Figure | None:
    labels = [label for label in view.labels if (runs["label"] == label).any()]
    if not labels:
        return None
    return timing_figure(
        f"time-{slug(setup)}", runs, view.styles, labels, exploratory=view.exploratory
    )


def _timing_table(view: ReportData, runs: pd.DataFrame) -> Table:
    phases = {w: c for w, (c, _) in PHASES.items() if c in runs}
    rows: list[dict[str, Any]] = []
    for setup in view.study.setups:
        for label in view.labels:
            mine = runs[(runs["setup"] == setup) & (runs["label"] == label)]
            if mine.empty:
                continue
            updates = view.updates
            updates = updates[(updates["setup"] == setup) & (updates["label"] == label)]
            seconds = {c: float(mine[c].mean()) for c in phases.values()}
            total = sum(value for value in seconds.values() if value == value)
            own = seconds.get("seconds_curriculum", float("nan"))
            rows.append(
                {
                    "setup": setup,
                    "method": label,
                    "runs": len(mine),
                    **seconds,
                    "total": total,
                    "share": own / total if total else None,
                    "per_update": float(updates["seconds"].mean())
                    if "seconds" in updates and len(updates)
                    else None,
                    "per_thousand": 1000 * own / float(mine["env_steps"].mean()),
                }
            )
    return Table(
        "wall-clock",
        "",
        "Mean seconds per finished run and phase.",
        (
            Column("setup", "setup"),
            Column("method", "curriculum", kind="method"),
            Column("runs", "n", number=True),
            *(Column(c, f"{w}, s", number(3), number=True) for w, c in phases.items()),
            Column("total", "total, s", number(3), number=True),
            Column("share", "curriculum share", percent(2), number=True),
            Column("per_update", "s per update", number(3), number=True),
            Column("per_thousand", "curriculum s per 1 000 steps", number(3), number=True),
        ),
        rows,
    )
