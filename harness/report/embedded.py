"""What the page knows of every run: behind each dot, drawn when it is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figures.panels import FloatArray
from pacebench.harness.report.figures.travel import at_times
from pacebench.harness.report.sections.curves import curve_of

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
            updates = of_cell(data.updates, setup, label)
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
                        "return": _short(run["return"]),
                        "success": _short(run["success"]),
                        "steps": _short(run["steps_to_threshold"]),
                        "updates": int(counts.get(seed, 0)),
                        "curve": [_short(v) for v in curves.get(seed, ())],
                        "far": [_short(v) for v in distance],
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


def _short(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.4g}") if math.isfinite(number) else None
