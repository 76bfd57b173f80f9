"""What every table of comparisons has in common."""

from __future__ import annotations

from typing import Any

from pacebench.harness.analysis.comparisons import ComparisonResult
from pacebench.harness.report import words
from pacebench.harness.report.answer import SIGNS
from pacebench.harness.report.tables import Column, interval_cells

PAIR = (
    Column("method", "method", kind="method"),
    Column("control", "compared with", kind="method"),
    Column("setup", "setup"),
)
VERDICT = Column("verdict", "verdict", lambda value: f"{SIGNS[value]} {value}", kind="verdict")


def pair_cells(item: ComparisonResult) -> dict[str, Any]:
    """Returns who was compared with whom, where, and what came out."""
    asked, shown = item.question, item.shown
    return {
        "setup": words.scope(asked.scope),
        "method": asked.a,
        "control": asked.b,
        "estimand": asked.estimand,
        "verdict": item.verdict.value,
        "difference": shown.estimate if shown else None,
        **interval_cells("interval", shown),
        "alpha": asked.alpha,
        "runs": item.seeds,
    }
