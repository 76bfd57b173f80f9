"""What the curricula did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from pacebench import curricula
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures import travel
from pacebench.harness.report.figures.panels import PanelPlot
from pacebench.harness.report.tables import CELL, Column, Table, counts, fixed, number, percent

# A step that exceeds its budget by rounding alone is not a violation.
_TOLERANCE = 1e-6
_PROMISES = {
    "joint": "KL(new‖old) ≤ ε",
    "reverse": "KL(old‖new) ≤ ε",
    "block": "≈ ε for each block",
    "block-exact": "ε for each block",
}
_STEPS = ("performance", "convergence", "hold")
# What only methods with a budget have.
_OF_A_BUDGET = (
    *("moved", *_STEPS, "promise", "violations", "violation_share"),
    *("largest_ratio", "ess_share"),
)
_BUDGET_NOTES = (
    "Every update is measured by the same KL(p_new‖p_old) in units of its ε, whatever the "
    "curriculum itself promises to bound; an estimated KL is a mean over samples and cannot show "
    "that a bound was exceeded. Moved: by more than 10⁻⁶ nats. "
)
# nats: a shift of a thousandth of a standard deviation. Numerical solvers come no closer than 1e-9.
_ARRIVED = 1e-6


def behaviour(data: ReportData) -> doc.Section:
    """Returns the way through context space, and folded: distances, steps against ε, a table."""
    if data.updates.empty:
        text = "No curriculum update was recorded: no curriculum of this study moves."
        return doc.Section("behaviour", "Curriculum behaviour", [doc.Text(text)])
    shown: list[PanelPlot] = []
    further: list[Figure | None] = []
    distances: list[Figure | None] = []
    steps: list[Figure | None] = []
    for setup in data.study.setups:
        here = data.updates[data.updates["setup"] == setup]
        ways = travel.travel_figures(data, setup, here)
        shown += ways[:1]
        further += ways[1:]
        distances += travel.distance_figures(data, setup, here)
        steps.append(travel.step_figure(data, setup, here[_is_paced(here)]))
    blocks: list[doc.Block] = []
    if shown:
        shown[0] = replace(shown[0], lead=travel.SLIDER)
        blocks.append(doc.Figures(shown))
    for title, figures in (
        ("Other pairs of context dimensions", further),
        ("Distance to the target", distances),
        ("Size of the steps against ε", steps),
    ):
        drawn = [figure for figure in figures if figure is not None]
        blocks += [doc.Fold(title, [doc.Figures(drawn)])] if drawn else []
    blocks.append(doc.Fold("Curriculum behaviour as a table", [_table(data)]))
    return doc.Section("behaviour", "Curriculum behaviour", blocks)


def _is_paced(updates: pd.DataFrame) -> pd.Series:
    """Says of each update whether it was bound by a trust region."""
    return updates["epsilon"].notna() & (updates["step"] != "schedule")


def _table(data: ReportData) -> Table:
    rows = []
    for setup, label in data.cells():
        mine = data.updates_of(setup, label)
        if not mine.empty:
            promise = _promise(data.styles[label].name)
            rows.append({"setup": setup, "method": label, "promise": promise, **_behaviour(mine)})
    paced = any("moved" in row for row in rows)
    above = "; shares above ε are shares of those that moved at all" if paced else ""
    return Table(
        "curriculum-behaviour",
        "",
        f"Updates of all runs together{above}. “On target” counts runs whose last distribution is "
        "the target.",
        (
            *CELL,
            *counts("runs", "updates", "moved"),
            *(Column(kind, kind, percent(0), number=True) for kind in _STEPS),
            *counts("rejected"),
            Column("promise", "promises"),
            Column("violations", "updates above ε", number=True),
            Column("violation_share", "share of moves", percent(1), number=True),
            Column("largest_ratio", "largest KL/ε", fixed(2), number=True),
            Column("final_kl", "final KL to target (median)", number(3), number=True),
            Column("estimated", "KL is"),
            Column("distance", "final distance to target (median)", number(3), number=True),
            Column("on_target", "on target", number=True),
            Column("ess_share", "ESS / episodes (median)", percent(0), number=True),
        ),
        rows,
        optional=["distance", "estimated"],
        # Where no method has a budget ε, nothing is said of one.
        unshown=[*_OF_A_BUDGET, "final_kl"],
        notes=(_BUDGET_NOTES if paced else "")
        + "Rejected: updates short of the target that were not used. On target: KL below 10⁻⁶ "
        "nats, empty for a method without a KL; under `fit: gaussian` the KL is that to the fitted "
        "Gaussian. The distance, which every method has, is the sliced "
        "1-Wasserstein distance to the target itself.",
    )


def _promise(name: str) -> str:
    """Returns which KL a curriculum promises to keep within ε."""
    try:
        said = curricula.get(name).capabilities
    except LookupError:
        return ""
    return _PROMISES.get(said.trust_region or "", "") if said.self_paced else ""


def _behaviour(mine: pd.DataFrame) -> dict[str, Any]:
    """Returns what is counted of one cell's updates; what needs an ε only where there is one."""
    by_run = mine.sort_values("env_steps").groupby("seed", observed=True)
    # Of each column the last value that was recorded: with `record_every` some updates have none.
    last = by_run.last()
    away = ~(by_run["kl_target_forward"].ffill().astype(float) <= _ARRIVED)
    final = last["kl_target_forward"].astype(float)
    far = last["sliced_wasserstein"].astype(float) if "sliced_wasserstein" in last else None
    estimated = travel.is_estimated(mine)
    known = bool(final.notna().any())
    found: dict[str, Any] = {
        "runs": len(last),
        "updates": len(mine),
        "rejected": int((~mine["accepted"].astype(bool) & away).sum()),
        "final_kl": float(final.median()) if known else None,
        "distance": float(far.median()) if far is not None and far.notna().any() else None,
        "on_target": int((final <= _ARRIVED).sum()) if known else None,
        "estimated": "estimated" if estimated.any() else None,
    }
    paced = mine[_is_paced(mine)]
    if paced.empty:
        return found
    kinds = mine["step"].value_counts(normalize=True)
    ratio = (paced["kl_step"] / paced["epsilon"]).astype(float)
    # An estimate may lie above a bound that is kept.
    violations = None if estimated.any() else int((ratio > 1 + _TOLERANCE).sum())
    moved = int((paced["kl_step"].astype(float) > _ARRIVED).sum())
    ess = (paced["ess"].astype(float) / paced["episodes"].astype(float)).median()
    return found | {
        "moved": moved,
        **{kind: float(kinds.get(kind, 0.0)) for kind in _STEPS},
        "violations": violations,
        "violation_share": violations / moved if moved and violations is not None else None,
        "largest_ratio": float(ratio.max()),
        "ess_share": float(ess),
    }
