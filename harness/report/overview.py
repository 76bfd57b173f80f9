"""The first screen of a report as plain values, from which indexes and comparisons are made."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.document import Document
from pacebench.harness.store import provenance
from pacebench.harness.store.ledger import now

SUMMARY = "summary.json"
VERSION = 1


def summary(made: Document, data: ReportData) -> str:
    """Returns question, answer, grid and scores of a report as JSON."""
    scored = data.scored[data.scored["how"] != "unresolved"]
    found: dict[str, Any] = {
        "version": VERSION,
        "study": made.title,
        "question": made.question,
        "answer": made.answer,
        "facts": list(made.facts),
        "strength": made.strength,
        "grid": asdict(made.grid) if made.grid else None,
        "verdicts": data.analysis.verdicts(),
        "runs": len(data.runs),
        "known": len(scored),
        "date": now(),
        "revision": provenance.code_words(provenance.provenance()),
        "labels": list(data.study.labels),
        "names": {label: style.name for label, style in data.styles.items()},
        "settings": {
            "learner": ", ".join(data.learners),
            "environment steps per run": data.study.budget,
            "held-out contexts": data.study.evaluation.contexts,
            "root seed": data.study.seeds.root,
        },
        "scores": {
            setup: {
                label: [
                    [_round(run["return"]), bool(run["solved"] >= 0.5)]
                    for run in of_cell(scored, setup, label).sort_values("seed").to_dict("records")
                ]
                for label in data.study.labels
            }
            for setup in data.study.setups
        },
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _round(value: Any) -> float | None:
    return float(f"{float(value):.6g}") if np.isfinite(value) else None
