"""The simulations behind the coverage table: known truths, many data sets, our own interval code.

Every cell has its own seed, so any one can be made again alone and must come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pacebench.harness.statistics import (
    bootstrap,
    bounded,
    curves,
    estimands,
    improvement,
    intervals,
    profiles,
    welch,
)
from pacebench.harness.statistics.interval import SUCCESSES
from pacebench.harness.statistics.scores import FloatArray

LEVEL = 0.95
# Questions that share α are asked at higher levels; differences are simulated at these too.
LEVELS = (LEVEL, 0.975, 0.99, 0.995)
RUNS = (3, 5, 10, 20, 50)
TASKS = (1, 2, 4)
SHAPES = ("gaussian", "skewed", "bimodal", "binary-37", "binary-90", "fractions")
# Two arms of different shapes, in the order in which they are subtracted.
UNEQUAL = (
    *(f"tight against {share}" for share in SUCCESSES),
    *(f"{share} against tight" for share in SUCCESSES),
)
_BOUNDED = ("binary-37", "binary-90", "fractions")
_SMOOTH = ("gaussian", "skewed", "bimodal", "fractions")
_ROOT = 20_250_607
_OFFSETS = np.array([0.0, 0.4, -0.3, 0.1])
_SCALES = np.array([1.0, 0.7, 1.3, 0.9])


# What the streams of a group's cells are named by; 5 belonged to a group that is gone.
_KEYS = {
    "t": 0,
    "bounded": 1,
    "bootstrap": 2,
    "improvement": 3,
    "profile": 4,
    "curve": 6,
    "pair": 7,
}


class CoverageCell(NamedTuple):
    """What is simulated together: one group of intervals on one kind of data."""

    group: str
    shape: str
    runs: int
    tasks: int

    def rng(self) -> np.random.Generator:
        """Returns the cell's own generator."""
        key = (_KEYS[self.group], (*SHAPES, *UNEQUAL).index(self.shape), self.runs, self.tasks)
        return np.random.default_rng(np.random.SeedSequence(_ROOT, spawn_key=key))


def draw(shape: str, sets: int, runs: int, tasks: int, rng: np.random.Generator) -> FloatArray:
    """Returns data sets (sets, runs, tasks) of one shape.

    Unbounded shapes differ between tasks in place and spread; bounded ones live in [0, 1].
    """
    size = (sets, runs, tasks)
    if shape in ("binary-37", "binary-90"):
        return (rng.random(size) < float(shape[-2:]) / 100).astype(np.float64)
    if shape == "fractions":
        return np.asarray(rng.beta(4.0, 1.5, size))
    if shape == "gaussian":
        raw = rng.standard_normal(size)
    elif shape == "skewed":
        # Most runs good, a tail of bad ones, as returns often are.
        raw = 2.0 - rng.gamma(2.0, 1.0, size)
    elif shape == "bimodal":
        # Three runs in ten never learn.
        raw = np.where(rng.random(size) < 0.3, -1.5, 0.5) + 0.2 * rng.standard_normal(size)
    else:
        raise ValueError(shape)
    return np.asarray(_OFFSETS[:tasks] + _SCALES[:tasks] * raw)


def draw_pair(
    shape: str, sets: int, runs: int, tasks: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Returns data sets of two methods, of one shape or of an unequal pair of them."""
    if shape not in UNEQUAL:
        return draw(shape, sets, runs, tasks, rng), draw(shape, sets, runs, tasks, rng)
    a, b = (_gate(arm, (sets, runs, tasks), rng) for arm in shape.split(" against "))
    return a, b


def _gate(arm: str, size: tuple[int, int, int], rng: np.random.Generator) -> FloatArray:
    """Runs that find the gate end at 85 ± 1.7, the others at 15 ± 2; a tight arm always does."""
    found = rng.random(size) < (1.0 if arm == "tight" else float(arm) / 100)
    noise = rng.standard_normal(size)
    return np.where(found, 85 + 1.7 * noise, 15 + 2 * noise)


def true_difference(shape: str) -> float:
    """Returns the true difference of the means of `draw_pair`."""
    if shape not in UNEQUAL:
        return 0.0
    a, b = (
        0.0 if arm == "tight" else 70 * (1 - float(arm) / 100) for arm in shape.split(" against ")
    )
    return b - a


@cache
def _population(shape: str, tasks: int) -> FloatArray:
    rng = np.random.default_rng(np.random.SeedSequence(_ROOT, spawn_key=(99,)))
    return np.asarray(draw(shape, 1, 1_000_000, tasks, rng)[0])


def truth(shape: str, tasks: int, estimand: str) -> float:
    """Returns the true value, exact for means and from a million runs per task otherwise."""
    if estimand == "mean":
        by_shape = {"fractions": 4 / 5.5, "binary-37": 0.37, "binary-90": 0.9, "bimodal": -0.1}
        centre = by_shape.get(shape, 0.0)
        if shape in _BOUNDED:
            return centre
        return float(np.mean(_OFFSETS[:tasks] + _SCALES[:tasks] * centre))
    return float(estimands.FUNCTIONALS[estimand](_population(shape, tasks)))


class Tally:
    """Counts hits of intervals against a truth."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, float], list[float]] = {}

    def add(
        self,
        kind: str,
        estimand: str,
        low: FloatArray,
        high: FloatArray,
        true: float,
        level: float = LEVEL,
    ) -> None:
        """Counts a batch; an interval without width or without ends counts as a miss."""
        low, high = np.atleast_1d(low), np.atleast_1d(high)
        degenerate = ~(high > low)
        hits = (low <= true) & (true <= high) & ~degenerate
        row = self.rows.setdefault((kind, estimand, level), [0.0, 0.0, 0.0, 0.0])
        row[0] += hits.size
        row[1] += hits.sum()
        row[2] += degenerate.sum()
        row[3] += np.where(degenerate, 0.0, high - low).sum()


def _t_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    values, other = draw_pair(cell.shape, sets, cell.runs, cell.tasks, cell.rng())
    moments = welch.difference_moments(values, other)
    for level in LEVELS:
        low, high = welch.bounds(moments, level)
        tally.add("welch-t", "difference", low, high, true_difference(cell.shape), level)
    if cell.shape in UNEQUAL:
        return
    true = truth(cell.shape, cell.tasks, "mean")
    low, high = welch.bounds(welch.mean_moments(values), LEVEL)
    tally.add("welch-t", "mean", low, high, true)
    if cell.shape in _BOUNDED:
        low, high = bounded.wilson(estimands.mean(values), cell.runs * cell.tasks, LEVEL)
        tally.add("wilson", "success", low, high, true)


def _bounded_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    rng = cell.rng()
    values = draw(cell.shape, sets, cell.runs, cell.tasks, rng)
    uniforms = bounded.uniform_order_statistics(cell.runs, cell.tasks, 2_000, rng)
    low, high = bounded.learned_miller_thomas(values, 0.0, 1.0, LEVEL, uniforms)
    tally.add("learned-miller-thomas", "mean", low, high, truth(cell.shape, cell.tasks, "mean"))


def _bootstrap_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    rng = cell.rng()
    smooth = cell.shape in _SMOOTH
    # Where scores are coins the IQM jumps between 0 and 1: only the mean makes sense.
    # The median over tasks is the mean where there is one task.
    left_out = {"median"} if cell.tasks == 1 else set()
    names = [n for n in estimands.FUNCTIONALS if n not in left_out and (smooth or n == "mean")]
    truths = {name: truth(cell.shape, cell.tasks, name) for name in names}
    for values in draw(cell.shape, sets, cell.runs, cell.tasks, rng):
        found = bootstrap.resample(values, names, 1_000, rng)
        tails = {
            "percentile (rliable)": bootstrap.percentile_tail(LEVEL),
            "expanded-percentile": intervals.expanded_tail(values, LEVEL),
        }
        for kind, tail in tails.items():
            for name in names:
                low, high = bootstrap.quantiles(found[name], tail)
                tally.add(kind, name, np.array(low), np.array(high), truths[name])


def _improvement_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    rng = cell.rng()
    true = _true_improvement(cell.shape, cell.tasks)
    for _ in range(0, sets, 500):
        a, b = _apart(cell.shape, min(500, sets), cell.runs, cell.tasks, rng)
        effect = improvement.moments(a, b)
        low, high = improvement.logit_bounds(effect, LEVEL)
        apart = (effect.error == 0) & ((effect.estimate == 0) | (effect.estimate == 1))
        won = effect.estimate == 1
        pairs = cell.runs * cell.tasks
        ends = np.array([improvement.separated_bounds(w, pairs, LEVEL) for w in (False, True)])
        low = np.where(apart, ends[won.astype(int), 0], low)
        high = np.where(apart, ends[won.astype(int), 1], high)
        tally.add("logit-brunner-munzel", "improvement", low, high, true)


def _apart(
    shape: str, sets: int, runs: int, tasks: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Two methods of the same shape, the second clearly worse; or an unequal pair as it is."""
    a, b = draw_pair(shape, sets, runs, tasks, rng)
    if shape in UNEQUAL:
        return a, b
    if shape in ("binary-37", "binary-90"):
        return a, b * (rng.random(b.shape) < 0.7)
    return a, b - (0.15 if shape == "fractions" else 0.6 * _SCALES[:tasks])


@cache
def _true_improvement(shape: str, tasks: int) -> float:
    rng = np.random.default_rng(np.random.SeedSequence(_ROOT, spawn_key=(98,)))
    a, b = _apart(shape, 1, 2_000_000, tasks, rng)
    return float(np.mean((a > b) + 0.5 * (a == b)))


def _profile_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    rng = cell.rng()
    grid = np.unique(np.quantile(_population(cell.shape, cell.tasks), np.linspace(0, 1, 202)[1:-1]))
    true = profiles.profile(_population(cell.shape, cell.tasks), grid)
    half = profiles.half_width(cell.runs, cell.tasks, LEVEL)
    distance = np.array(
        [
            np.abs(profiles.profile(values, grid) - true).max()
            for values in draw(cell.shape, sets, cell.runs, cell.tasks, rng)
        ]
    )
    tally.add("kolmogorov", "profile", distance - half, distance + half, 0.0)


def _curve_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    """Curves of 20 points whose errors are a random walk of the cell's shape around the mean."""
    rng = cell.rng()
    points = 20
    for _ in range(sets):
        noise = draw(cell.shape, points, cell.runs, 1, rng)[:, :, 0].T
        noise = noise - truth(cell.shape, 1, "mean")
        process = np.cumsum(noise, axis=1) / np.sqrt(np.arange(1, points + 1))
        error = process.std(axis=0, ddof=1) / math.sqrt(cell.runs)
        if not (error > 0).all():
            tally.add("max-t", "curve", np.zeros(1), np.zeros(1), 0.0)
            continue
        critical = curves.max_t_quantile(process, LEVEL, rng, draws=500)
        largest = np.abs(process.mean(axis=0) / error).max()
        tally.add("max-t", "curve", np.array(largest - critical), np.array(largest + critical), 0.0)


def _pair_group(cell: CoverageCell, sets: int, tally: Tally) -> None:
    """Percentile intervals of the pairs of `_apart`."""
    rng = cell.rng()
    true = _true_improvement(cell.shape, cell.tasks)
    tail = bootstrap.percentile_tail(LEVEL)
    a, b = _apart(cell.shape, sets, cell.runs, cell.tasks, rng)
    gap = _true_gap(cell.shape, cell.tasks)
    for x, y in zip(a, b, strict=True):
        found = bootstrap.resample_pair(x, y, 1_000, rng)
        for name, value in (("difference", gap), ("improvement", true)):
            low, high = bootstrap.quantiles(found[name], tail)
            tally.add("percentile (rliable)", name, np.array(low), np.array(high), value)


def _true_gap(shape: str, tasks: int) -> float:
    """Returns the true difference of the means of `_apart`."""
    if shape in UNEQUAL:
        return true_difference(shape)
    if shape in ("binary-37", "binary-90"):
        return 0.3 * truth(shape, tasks, "mean")
    return 0.15 if shape == "fractions" else 0.6 * float(_SCALES[:tasks].mean())


Group = Callable[[CoverageCell, int, Tally], None]
# Group → (function, data sets per cell, shapes, numbers of tasks).
GROUPS: dict[str, tuple[Group, int, tuple[str, ...], tuple[int, ...]]] = {
    "t": (_t_group, 20_000, (*SHAPES, *UNEQUAL), TASKS),
    "bounded": (_bounded_group, 4_000, _BOUNDED, TASKS),
    "bootstrap": (_bootstrap_group, 1_200, SHAPES, TASKS),
    "improvement": (_improvement_group, 5_000, (*SHAPES, *UNEQUAL), TASKS),
    "profile": (_profile_group, 4_000, _SMOOTH, TASKS),
    "curve": (_curve_group, 1_200, ("gaussian", "skewed", "bimodal"), (1,)),
    "pair": (_pair_group, 1_200, (*SHAPES, *UNEQUAL), TASKS),
}


def cells() -> Iterator[CoverageCell]:
    """Yields every cell of the table; unequal pairs are simulated on one task."""
    for group, (_, _, shapes, tasks) in GROUPS.items():
        for shape in shapes:
            for number in (1,) if shape in UNEQUAL else tasks:
                for runs in RUNS:
                    yield CoverageCell(group, shape, runs, number)


def simulate(cell: CoverageCell, sets: int | None = None) -> list[dict[str, Any]]:
    """Returns the table's rows of one cell.

    Args:
        cell: Which.
        sets: Data sets; the shipped table's number unless given.
    """
    function, default, _, _ = GROUPS[cell.group]
    tally = Tally()
    function(cell, default if sets is None else sets, tally)
    rows = []
    for (kind, estimand, level), (count, hits, degenerate, width) in tally.rows.items():
        share = hits / count
        rows.append(
            {
                "kind": kind,
                "estimand": estimand,
                "level": level,
                "shape": cell.shape,
                "runs": cell.runs,
                "tasks": cell.tasks,
                "coverage": round(share, 5),
                "error": round(math.sqrt(max(share * (1 - share), 1 / count) / count), 5),
                "zero_width": round(degenerate / count, 5),
                "width": float(f"{width / max(count - degenerate, 1):.5g}"),
                "sets": int(count),
            }
        )
    return rows
