"""What the curricula did: the way through context space, distances, steps against ε."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from pacebench.envs.distributions import MixtureSpec, Vector
from pacebench.envs.setup import Setup
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.panels import Ellipse, FloatArray, Line, Panel, PanelPlot

FRAMES = 24  # of the animation, after the first
_POINTS = 60  # of a curve: more cannot be seen

# Column, what it is, and the title of its figure.
_DISTANCES = (
    ("sliced_wasserstein", "sliced Wasserstein distance to the target", "Distance to the target"),
    ("kl_target_forward", "KL(target ‖ sampled), nats", "KL to the target"),
)
# The page shows it where scripts run.
SLIDER = (
    '<div class="slider" hidden><button type="button" class="play" aria-label="Play">▶</button>'
    f'<input type="range" min="0" max="{FRAMES}" value="{FRAMES}" '
    'aria-label="Share of training"><output>100 %</output></div>'
)


def travel_figures(data: ReportData, setup: str, updates: pd.DataFrame) -> list[PanelPlot]:
    """Draws the sampling distributions over time for each pair of dimensions, fastest first."""
    task = data.setups[setup]
    known = updates[updates["mean"].notna() & updates["std"].notna()]
    moves = {}
    for label in data.styles:
        mine = known[known["label"] == label]
        if not mine.empty:
            moves[label] = _frames(mine, data.study.budget, task)
    if not moves or task.dim < 2:
        return []
    start, goal = np.array(task.initial_mean), np.array(task.target_mean)
    wide, narrow = np.sqrt(task.initial_variance), np.sqrt(task.target_variance)
    far = np.abs(goal - start) / np.maximum(wide, narrow)
    pairs = sorted(combinations(range(task.dim), 2), key=lambda p: -(far[p[0]] + far[p[1]]))
    return [_travel(data, setup, moves, pair) for pair in pairs]


def _frames(updates: pd.DataFrame, budget: int, task: Setup) -> FloatArray:
    """Returns mean and std at fixed times, (frames, 2, d): the median over runs of each."""
    grid = np.linspace(0, budget, FRAMES + 1)
    first = np.stack([task.initial_mean, np.sqrt(task.initial_variance)])
    runs = []
    for _, run in updates.groupby("seed", observed=True, sort=True):
        values = np.stack([np.stack(run["mean"].tolist()), np.stack(run["std"].tolist())], axis=1)
        # The last value at or before each time.
        at = np.searchsorted(run["env_steps"].to_numpy(np.float64), grid, "right") - 1
        # A curriculum whose first update did not move stood there from the beginning.
        still = np.allclose(values[0], values[-1])
        before = values[0] if still else first
        runs.append(np.where(at[:, None, None] < 0, before, values[np.maximum(at, 0)]))
    return np.asarray(np.median(runs, axis=0))


def _travel(
    data: ReportData, setup: str, moves: dict[str, FloatArray], pair: tuple[int, int]
) -> PanelPlot:
    task, (i, j) = data.setups[setup], pair
    ends = [
        (kind, np.array([[mean[i], mean[j], variance[i] ** 0.5, variance[j] ** 0.5]]))
        for kind, mean, variance in (
            ("initial", task.initial_mean, task.initial_variance),
            *(("target", *part) for part in _modes(task)),
        )
    ]
    both = np.concatenate([end for _, end in ends])
    axes = []
    for place, d in enumerate(pair):
        moved = np.concatenate([frames[..., d] for frames in moves.values()])
        reach = [both[:, place] - both[:, place + 2], both[:, place] + both[:, place + 2]]
        reach += [moved[:, 0] - moved[:, 1], moved[:, 0] + moved[:, 1]]
        axes.append(Axis.over(np.concatenate(reach).tolist(), task.context_names[d], count=3))
    panels = []
    for label, frames in moves.items():
        style = data.styles[label]
        way = np.concatenate([frames[:, 0, [i, j]], frames[:, 1, [i, j]]], axis=1)
        drawn = [Ellipse(end, kind) for kind, end in ends] + [Ellipse(way, "now")]
        path = Line(way[:, 0], way[:, 1], "path")
        panels.append(Panel(style.short, [style], [path], ellipses=drawn))
    names = " and ".join(task.context_names[d] for d in pair)
    return data.figure(
        PanelPlot(
            f"travel-{setup}-{i}-{j}",
            f"{setup}: {names}",
            "One standard deviation of the sampling distribution (median over runs) and the path "
            "of its mean. Dotted: where it begins; grey: the target.",
            axes[0],
            axes[1],
            panels,
        )
    )


def _modes(task: Setup) -> list[tuple[Vector, Vector]]:
    """Returns means and variances of the target's components; of most targets there is one."""
    if isinstance(task.target, MixtureSpec):
        return list(zip(task.target.means, task.target.variances, strict=True))
    return [(task.target_mean, task.target_variance)]


def distance_figures(data: ReportData, setup: str, updates: pd.DataFrame) -> list[Figure]:
    """Draws how far the sampling distribution still is from the target, by every known measure."""
    caption = (
        "Median over runs (thick), 5th to 95th percentile (shade) and the medians of the others "
        "in grey. The lowest line of a panel stands for everything below it, zero included."
    )
    found = []
    for column, label, title in _DISTANCES:
        if column in updates and np.isfinite(updates[column].astype(float)).any():
            top = float(updates[column].max())
            y = Axis.over([top, top / 1e3], f"{label} (log)", log=True, most=1e5)
            name = f"{column}-{setup}"
            found.append(over_time(data, setup, updates, column, name, title, y, caption))
    return [figure for figure in found if figure is not None]


def step_figure(data: ReportData, setup: str, updates: pd.DataFrame) -> Figure | None:
    """Draws the realised KL of each update in units of ε."""
    paced = updates[updates["epsilon"].notna() & updates["kl_step"].notna()]
    if paced.empty:
        return None
    paced = paced.assign(ratio=paced["kl_step"] / paced["epsilon"])
    top = max(1.25, 1.05 * float(paced["ratio"].max()))
    y = Axis.over([], "KL(new ‖ old) / ε", limits=(0.0, top), count=3)
    caption = (
        "KL(p_new‖p_old) of each update divided by its ε, median and 5th to 95th percentile over "
        "runs; exact unless a panel says estimated. Updates above the dashed line moved further "
        "than ε."
    )
    name, title = f"kl-step-{setup}", "Size of the steps against ε"
    return over_time(data, setup, paced, "ratio", name, title, y, caption, ((1.0, "ε"),))


def over_time(
    data: ReportData,
    setup: str,
    updates: pd.DataFrame,
    column: str,
    name: str,
    title: str,
    y: Axis,
    caption: str,
    rules: tuple[tuple[float, str], ...] = (),
) -> Figure | None:
    """Draws a column over environment steps, a panel per method; None where nobody has a value."""
    grid = np.linspace(0, data.study.budget, _POINTS + 1)
    panels = []
    here = dict(iter(updates[updates["setup"] == setup].groupby("label", observed=True)))
    for label, style in data.styles.items():
        mine = here.get(label, updates[:0])
        _, runs = at_times(mine, column, grid)
        if not len(runs):
            continue
        low, centre, high = _quantiles(runs, (0.05, 0.5, 0.95))
        line = Line(grid, centre, steps=True)
        note = f"n = {len(runs)}{_estimated(mine, column)}"
        panels.append(Panel(style.short, [style], [line], (grid, low, high), note=note))
    if not panels:
        return None
    x = Axis.over([], "environment steps", limits=(0.0, float(data.study.budget)), count=2)
    plot = PanelPlot(name, f"{title}, {setup}", caption, x, y, panels, rules, compared=True)
    return data.figure(plot)


def _quantiles(runs: FloatArray, shares: tuple[float, ...]) -> FloatArray:
    """Returns quantiles over the runs that have a value, (shares, times); NaN where none has.

    As `np.nanquantile`, which goes through the times one by one.
    """
    ordered = np.sort(runs, axis=0)  # NaN comes last
    known = np.isfinite(runs).sum(axis=0)
    place = np.array(shares)[:, None] * np.maximum(known - 1, 0)
    low, high = (
        np.take_along_axis(ordered, end(place).astype(np.int64), axis=0)
        for end in (np.floor, np.ceil)
    )
    return np.asarray(low + (place - np.floor(place)) * (high - low))


def _estimated(updates: pd.DataFrame, column: str) -> str:
    """Returns the word for a KL that has no formula and was estimated from samples."""
    if column == "sliced_wasserstein":
        return ""
    return ", estimated" if is_estimated(updates).any() else ""


def is_estimated(updates: pd.DataFrame) -> pd.Series:
    """Says of each update whether its KL was estimated from samples."""
    if "kl_estimated" not in updates:
        return pd.Series(False, index=updates.index)
    return updates["kl_estimated"].astype("boolean").fillna(False).astype(bool)


def at_times(updates: pd.DataFrame, column: str, grid: FloatArray) -> tuple[list[int], FloatArray]:
    """Returns seeds, and a column of each at fixed times, (seeds, times); NaN before its first.

    Runs of which no value is known are left out.
    """
    values = updates[column].to_numpy(dtype=np.float64, na_value=np.nan)
    there = np.flatnonzero(np.isfinite(values))
    seeds, run = np.unique(updates["seed"].to_numpy()[there], return_inverse=True)
    order = np.argsort(run, kind="stable")
    there, run = there[order], run[order]
    steps = updates["env_steps"].to_numpy(dtype=np.float64)[there]
    # One search for all runs: the times of each are moved past those of the run before.
    apart = max(float(grid.max()), float(steps.max(initial=0.0))) + 1
    begins = np.searchsorted(run, np.arange(len(seeds)))
    asked = apart * np.arange(len(seeds))[:, None] + grid
    # The last value at or before each time; none before the first.
    at = np.searchsorted(apart * run + steps, asked, "right") - 1
    known = values[there][at] if len(there) else np.empty(asked.shape)
    return seeds.tolist(), np.where(at < begins[:, None], np.nan, known)
