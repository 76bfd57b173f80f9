"""How often each kind of interval held the truth in simulations: the shipped table and its lookup.

`pacebench coverage` writes the table with `harness.statistics.simulation`; nothing here computes.
"""

from __future__ import annotations

import json
import operator
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from pacebench.harness.statistics.interval import SUCCESSES, Coverage, Interval
from pacebench.harness.statistics.scores import FloatArray

TABLE = "coverage.json"
LEVEL = 0.95
# Shares of the extent of both methods' scores: a heap is narrower, two heaps are further apart.
_TIGHT, _APART = 0.2, 0.5
# Intervals that miss at most so many times as often as they should say something of another level.
_NEAR = 3

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


def classify_pair(a: FloatArray, b: FloatArray, bounds: tuple[float, float] | None = None) -> str:
    """Returns the simulated pair of shapes that two methods' scores (runs × tasks) look most like.

    One shape where both have it; else two, of which only a tight heap against two heaps far apart
    was simulated.

    Args:
        a: Scores of the first method.
        b: Scores of the second.
        bounds: Smallest and largest possible score, if known.
    """
    if a.shape[1] == 1:
        extent = float(max(a.max(), b.max()) - min(a.min(), b.min()))
        arms = [_heaps(values[:, 0], extent) for values in (a, b)]
        if None not in arms and arms[0] != arms[1]:
            return " against ".join(map(str, arms))
    shapes = [classify(values, bounds) for values in (a, b)]
    return shapes[0] if shapes[0] == shapes[1] else " against ".join(shapes)


def _heaps(values: FloatArray, extent: float) -> str | None:
    """Returns `tight`, or which share of runs is in the larger of two heaps; None if neither.

    Of the simulated shares it is the next above: rarer failures are the less favourable case.

    Args:
        values: One score per run.
        extent: Distance between the lowest and the highest score of both methods.
    """
    ordered = np.sort(values)
    if ordered[-1] - ordered[0] <= _TIGHT * extent:
        return "tight"
    gaps = np.diff(ordered)
    if gaps.max() < _APART * extent:
        return None
    lower = (int(gaps.argmax()) + 1) / len(values)
    share = 100 * max(lower, 1 - lower)
    return str(min((s for s in SUCCESSES if s >= share), default=SUCCESSES[-1]))


@cache
def lookup(
    kind: str, estimand: str, runs: int, tasks: int, shape: str, level: float = LEVEL
) -> Coverage | None:
    """Returns the simulated coverage in the nearest cell that is not more favourable.

    The cell has the most runs not above `runs`, the most tasks not above `tasks`, and the highest
    level not above `level` and near it. None where no such cell was simulated.
    """
    rows = [row for row in table() if row["kind"] == kind and row["estimand"] == estimand]
    rows = [row for row in rows if row["runs"] <= runs and row["tasks"] <= tasks]
    rows = [r for r in rows if _NEAR * (1 - level) >= 1 - r["level"] >= 1 - level - 1e-9]
    if not rows:
        return None
    place = operator.itemgetter("tasks", "runs", "level")
    near = max(map(place, rows))
    cell = [row for row in rows if place(row) == near]
    match = [row for row in cell if row["shape"] == shape]
    worst = min(cell, key=lambda row: float(row["coverage"]))
    row = match[0] if match else worst
    return Coverage(
        share=row["coverage"],
        level=row["level"],
        error=row["error"],
        runs=row["runs"],
        tasks=row["tasks"],
        shape=row["shape"],
        worst=worst["coverage"],
        worst_shape=worst["shape"],
        matched=bool(match),
    )


def attach(interval: Interval, shape: str) -> Interval:
    """Returns the interval with its simulated coverage for data of a shape."""
    i = interval
    found = lookup(i.kind, i.estimand, i.runs, i.tasks, shape, i.level)
    return replace(interval, coverage=found)
