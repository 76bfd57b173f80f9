"""How often each kind of interval held the truth in simulations: the shipped table and its lookup.

`pacebench coverage` writes the table with `harness.statistics.simulation`; nothing here computes.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from pacebench.harness.statistics.interval import Coverage, Interval
from pacebench.harness.statistics.scores import FloatArray

TABLE = "coverage.json"
LEVEL = 0.95

Row = dict[str, Any]


@cache
def table() -> tuple[Row, ...]:
    """Returns the rows of the shipped table; empty where it was never produced."""
    source = resources.files("pacebench.harness.statistics") / TABLE
    if not source.is_file():
        return ()
    return tuple(json.loads(source.read_text(encoding="utf-8"))["rows"])


def classify(values: FloatArray, bounds: tuple[float, float] | None = None) -> str:
    """Returns the simulated shape that scores (runs × tasks) look most like.

    A rough guess from few runs, which is why the worst shape is printed beside it.

    Args:
        values: Scores, runs × tasks.
        bounds: Smallest and largest possible score, if known.
    """
    ends = bounds if bounds is not None else (0.0, 1.0)
    if np.isin(values, ends).all():
        rate = float(np.mean(values == ends[1]))
        return "binary-37" if 0.2 <= rate <= 0.8 else "binary-90"
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    residuals = (centred / np.where(spread > 0, spread, 1.0)).ravel()
    if residuals.size < 8 or residuals.std() == 0:
        return "fractions" if bounds is not None else "gaussian"
    scaled = (residuals - residuals.mean()) / residuals.std()
    skew, kurtosis = float((scaled**3).mean()), float((scaled**4).mean())
    # Sarle's coefficient is 5/9 for a uniform distribution and 1 for a coin.
    if (skew**2 + 1) / kurtosis > 0.65:
        return "bimodal"
    if bounds is not None:
        return "fractions"
    return "skewed" if abs(skew) > 0.8 else "gaussian"


def lookup(kind: str, estimand: str, runs: int, tasks: int, shape: str) -> Coverage | None:
    """Returns the simulated coverage in the nearest cell that is not more favourable.

    The cell has the most runs not above `runs` and the most tasks not above `tasks`; None where the
    kind was not simulated, or with fewer runs than any simulated cell.
    """
    rows = [row for row in table() if row["kind"] == kind and row["estimand"] == estimand]
    rows = [row for row in rows if row["runs"] <= runs and row["tasks"] <= tasks]
    if not rows:
        return None
    near = max(rows, key=lambda row: (row["tasks"], row["runs"]))
    cell = [r for r in rows if (r["runs"], r["tasks"]) == (near["runs"], near["tasks"])]
    match = [row for row in cell if row["shape"] == shape]
    worst = min(cell, key=lambda row: float(row["coverage"]))
    row = match[0] if match else worst
    return Coverage(
        share=row["coverage"],
        error=row["error"],
        runs=row["runs"],
        tasks=row["tasks"],
        shape=row["shape"],
        worst=worst["coverage"],
        worst_shape=worst["shape"],
        matched=bool(match),
    )


def at_level(
    level: float, kind: str, estimand: str, runs: int, tasks: int, *shapes: str
) -> Coverage | None:
    """Returns the simulated coverage for the least favourable of some shapes.

    None at levels other than 95 %, at which the simulations were done.
    """
    if not math.isclose(level, LEVEL):
        return None
    found = [lookup(kind, estimand, runs, tasks, shape) for shape in shapes]
    known = [item for item in found if item is not None]
    return min(known, key=lambda item: item.share, default=None)


def attach(interval: Interval, *shapes: str) -> Interval:
    """Returns the interval with its simulated coverage, of the least favourable of the shapes."""
    i = interval
    found = at_level(i.level, i.kind, i.estimand, i.runs, i.tasks, *shapes)
    return replace(interval, coverage=found)
