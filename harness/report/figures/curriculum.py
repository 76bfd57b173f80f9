"""What the curricula did: KL to the target, realised steps against ε, paths in context space."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pacebench.harness.report import words
from pacebench.harness.report.canvas import INK, MUTED, Figure
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.figures.lines import Bundle, draw_bundles, finish_steps

# Matplotlib's own writes powers in mathematical notation, which user text forbids here.
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")

_POINTS = 80  # of a run's own curve: more cannot be seen, and the page has to stay light
_MOST_THREADS = 12  # runs drawn singly per method


def divergence_figure(data: ReportData, setup: str, updates: pd.DataFrame) -> Figure | None:
    """Draws KL(ψ‖p) over environment steps: how far the curriculum still is from its target."""
    bundles = _bundles(data, updates, "kl_target_forward")
    if not bundles:
        return None
    with data.canvas(f"kl-target-{setup}", f"Distance to the target, {setup}") as canvas:
        draw_bundles(canvas, bundles, steps=True)
        # Curricula that land on the target have a divergence of exactly zero.
        canvas.axes.set_yscale("symlog", linthresh=1e-2, linscale=0.4)
        canvas.axes.yaxis.set_major_formatter(PLAIN)
        canvas.axes.set_ylim(bottom=0)
        canvas.axes.set_ylabel("KL(target ‖ sampled), nats")
        finish_steps(canvas, bundles, data.study.budget)
        return canvas.finish(
            "KL(ψ‖p) of the distribution in use after each update, zero on the target. "
            f"{_median_words(bundles)} The axis is linear below 0.01."
        )


def step_figure(data: ReportData, setup: str, updates: pd.DataFrame) -> Figure | None:
    """Draws the realised KL of each update in units of ε."""
    paced = updates[updates["epsilon"].notna() & (updates["kl_step"].notna())]
    if paced.empty:
        return None
    paced = paced.assign(ratio=paced["kl_step"] / paced["epsilon"])
    bundles = _bundles(data, paced, "ratio")
    with data.canvas(f"kl-step-{setup}", f"Size of the steps against ε, {setup}") as canvas:
        draw_bundles(canvas, bundles, steps=True)
        axes = canvas.axes
        axes.axhline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=5)
        axes.text(
            data.study.budget, 1.0, "ε", ha="right", va="bottom", fontsize=10, color=INK,
            fontweight="bold",
        )  # fmt: skip
        axes.set_ylim(0, max(1.25, 1.05 * float(paced["ratio"].max())))
        axes.set_ylabel("KL(new ‖ old) / ε")
        finish_steps(canvas, bundles, data.study.budget)
        return canvas.finish(
            "Exact KL(p_new‖p_old) of each update divided by its ε; updates above the dashed line "
            f"moved further than ε (counted in the table). {_median_words(bundles)}"
        )


def path_figure(
    data: ReportData, setup: str, updates: pd.DataFrame, dimension: int
) -> Figure | None:
    """Draws the mean and the standard deviation of one context dimension over training."""
    known = updates[updates["mean"].notna() & updates["std"].notna()]
    if known.empty:
        return None
    known = known.assign(
        centre=[float(value[dimension]) for value in known["mean"]],
        spread=[float(value[dimension]) for value in known["std"]],
    )
    task = data.setups[setup]
    what = task.context_names[dimension]
    name, title = f"context-{setup}-{dimension}", f"{words.capital(what)}, {task.name}"
    with data.canvas(name, title, rows=2, height=4.1) as canvas:
        means, spreads = canvas.all_axes
        bundles = _bundles(data, known, "centre")
        draw_bundles(canvas, bundles, means, steps=True)
        draw_bundles(canvas, _bundles(data, known, "spread"), spreads, steps=True)
        for axes in (means, spreads):
            axes.margins(y=0.12)
        _ends(means, task.initial_mean[dimension], task.target_mean[dimension])
        variances = (task.initial_variance[dimension], task.target_variance[dimension])
        _ends(spreads, *(variance**0.5 for variance in variances))
        spreads.set_yscale("log")
        # Few labels over many decades, some more over few.
        low, high = spreads.get_ylim()
        subs = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
        spreads.yaxis.set_major_locator(LogLocator(subs=subs))
        spreads.yaxis.set_major_formatter(PLAIN)
        spreads.yaxis.set_minor_formatter(NullFormatter())
        means.set_ylabel("mean")
        spreads.set_ylabel("std (log)")
        finish_steps(canvas, bundles, data.study.budget)
        return canvas.finish(
            f"Mean and standard deviation of “{what}” under the sampling distribution, before "
            f"clipping to the bounds. {_median_words(bundles)}"
        )


def _bundles(data: ReportData, updates: pd.DataFrame, column: str) -> list[Bundle]:
    """Returns median, 5th and 95th percentile over runs, and some of the runs themselves."""
    grid = np.linspace(0, data.study.budget, _POINTS + 1)
    bundles = []
    for label, style in data.styles.items():
        mine = updates[updates["label"] == label]
        threads = {}
        for seed, run in mine.groupby("seed", observed=True, sort=True):
            finite = run[np.isfinite(run[column].astype(float))]
            if len(finite):
                # The last value at or before each point; none before the first.
                at = np.searchsorted(finite["env_steps"].to_numpy(np.float64), grid, "right") - 1
                values = finite[column].to_numpy(dtype=np.float64)[at]
                threads[f"{label}, seed {seed}"] = np.where(at < 0, np.nan, values)
        if not threads:
            continue
        with warnings.catch_warnings():
            # Where no run has a value yet, NaN is the answer.
            warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
            table = np.array(list(threads.values()))
            low, centre, high = np.nanpercentile(table, (5, 50, 95), axis=0)
        some = dict(list(threads.items())[:_MOST_THREADS])
        bundles.append(Bundle(style, grid, centre, low, high, some, runs=len(threads)))
    return bundles


def _ends(axes: Axes, initial: float, target: float) -> None:
    axes.axhline(initial, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    axes.axhline(target, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    for value, word in ((initial, "initial"), (target, "target")):
        axes.annotate(
            word, (1.0, value), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", va="center", fontsize=7.5, color=MUTED,
        )  # fmt: skip


def _median_words(bundles: list[Bundle]) -> str:
    counts = [bundle.runs for bundle in bundles]
    some = f"up to {_MOST_THREADS} of them" if max(counts) > _MOST_THREADS else "every run"
    return (
        f"Lines: median over n = {words.extent(counts)} runs each; shade: 5th to 95th percentile "
        f"(pointwise; a spread, not an interval); faint: {some}."
    )
