"""A report as JSON: every run for its page, and its first screen for indexes and comparisons."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.document import Document
from pacebench.harness.report.figures.panels import FloatArray
from pacebench.harness.report.figures.travel import at_times
from pacebench.harness.report.sections.curves import curve_of
from pacebench.harness.store import provenance
from pacebench.harness.store.ledger import now

SUMMARY = "summary.json"
VERSION = 1

_TIMES = 16  # of a run's distance to the target
_LOG_LINES = 4


def embedded(data: ReportData) -> str:
    """Returns the observations as JSON that may stand inside a page."""
    logs: dict[str, int] = {}
    runs = []
    for s, setup in enumerate(data.study.setups):
        for m, label in enumerate(data.study.labels):
            shown = data.shown(setup, label)
            seeds, _, values = curve_of(data, setup, label)
            curves = dict(zip(seeds, values, strict=True))
            updates = data.updates_of(setup, label)
            updates = updates[updates["seed"].isin(shown["seed"])]
            counts = updates["seed"].value_counts()
            far = _distances(updates, np.linspace(0, data.study.budget, _TIMES + 1))
            for run in shown.to_dict("records"):
                seed = int(run["seed"])
                lines = "\n".join(data.logs.get(str(run["run_id"]), "").splitlines()[-_LOG_LINES:])
                distance, exact = far.get(seed, ((), True))
                runs.append(
                    {
                        "id": str(run["run_id"]),
                        "m": m,
                        "s": s,
                        "seed": seed,
                        "status": str(run["status"]),
                        "solved": bool(run["solved"] >= 0.5),
                        "return": _digits(run["return"]),
                        "success": _digits(run["success"]),
                        "steps": _digits(run["steps_to_threshold"]),
                        "updates": int(counts.get(seed, 0)),
                        "curve": [_digits(v) for v in curves.get(seed, ())],
                        "far": [_digits(v) for v in distance],
                        **({} if exact else {"wasserstein": True}),
                        **({"log": logs.setdefault(lines, len(logs))} if lines else {}),
                    }
                )
    found = {
        "study": data.study.name,
        "methods": list(data.study.labels),
        "setups": list(data.study.setups),
        "grid": list(data.study.evaluation_steps()),
        "budget": data.study.budget,
        "search": data.by_search,
        "score": data.score_word.removeprefix("mean "),
        **({"foreign": True} if data.foreign else {}),
        "runs": runs,
        "logs": list(logs),
    }
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Nothing that a user wrote may end the element that it stands in.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _distances(updates: pd.DataFrame, times: FloatArray) -> dict[int, tuple[Sequence[float], bool]]:
    """Returns how far each run was from the target over time, and whether that is a KL, by seed."""
    # Every curriculum has the distance; runs from before it have the KL.
    found: dict[int, tuple[Sequence[float], bool]] = {}
    for column in ("kl_target_forward", "sliced_wasserstein"):
        if column in updates:
            exact = column.startswith("kl")
            seeds, values = at_times(updates, column, times)
            found |= {s: (v, exact) for s, v in zip(seeds, values.tolist(), strict=True)}
    return found


def _digits(value: Any, digits: int = 4) -> float | None:
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


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
                    [_digits(run["return"], 6), bool(run["solved"] >= 0.5)]
                    for run in of_cell(scored, setup, label).sort_values("seed").to_dict("records")
                ]
                for label in data.study.labels
            }
            for setup in data.study.setups
        },
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
