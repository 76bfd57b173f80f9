"""What the curricula did: KL to the target, realised steps against ε, paths in context space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from pacebench.envs.setup import Setup
from pacebench.harness.report.canvas import INK, MUTED, Canvas, Figure
from pacebench.harness.report.figures.lines import (
    Bundle,
    Thread,
    carried_forward,
    draw_bundles,
    percentiles,
    step_axis,
)
from pacebench.harness.report.palette import Style

FloatArray = NDArray[np.float64]

# Matplotlib's own writes powers in mathematical notation, which user text forbids here.
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")

_POINTS = 80  # of a run's own curve: more cannot be seen, and the page has to stay light
_MOST_THREADS = 12  # runs drawn singly per method


def divergence_figure(
    name: str, updates: pd.DataFrame, styles: Mapping[str, Style], budget: int, *, exploratory: bool
) -> Figure | None:
    """Draws KL(ψ‖p) over environment steps: how far the curriculum still is from its target."""
    title = f"Distance to the target, {_setup_of(updates)}"
    with Canvas(name, title, styles=styles, exploratory=exploratory) as canvas:
        bundles = _bundles(updates, "kl_target_forward", styles, budget)
        if not bundles:
            return None
        draw_bundles(canvas, bundles, steps=True)
        # Curricula that land on the target have a divergence of exactly zero.
        canvas.axes.set_yscale("symlog", linthresh=1e-2, linscale=0.4)
        canvas.axes.yaxis.set_major_formatter(PLAIN)
        canvas.axes.set_ylim(bottom=0)
        canvas.axes.set_ylabel("KL(target ‖ sampled), nats")
        step_axis(canvas.axes, budget)
        canvas.legend(bundle.style.label for bundle in bundles)
        return canvas.finish(
            "KL(ψ‖p) of the distribution in use after each update, zero on the target. "
            f"{_median_words(bundles)} The axis is linear below 0.01."
        )


def step_figure(
    name: str, updates: pd.DataFrame, styles: Mapping[str, Style], budget: int, *, exploratory: bool
) -> Figure | None:
    """Draws the realised KL of each update in units of ε."""
    paced = updates[updates["epsilon"].notna() & (updates["kl_step"].notna())]
    if paced.empty:
        return None
    paced = paced.assign(ratio=paced["kl_step"] / paced["epsilon"])
    title = f"Size of the steps against ε, {_setup_of(updates)}"
    with Canvas(name, title, styles=styles, exploratory=exploratory) as canvas:
        bundles = _bundles(paced, "ratio", styles, budget)
        draw_bundles(canvas, bundles, steps=True)
        axes = canvas.axes
        axes.axhline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=5)
        axes.text(
            budget, 1.0, "ε", ha="right", va="bottom", fontsize=10, color=INK, fontweight="bold"
        )
        axes.set_ylim(0, max(1.25, 1.05 * float(paced["ratio"].max())))
        axes.set_ylabel("KL(new ‖ old) / ε")
        step_axis(axes, budget)
        canvas.legend(bundle.style.label for bundle in bundles)
        return canvas.finish(
            "Exact KL(p_new‖p_old) of each update divided by its ε; updates above the dashed line "
            f"moved further than ε (counted in the table). {_median_words(bundles)}"
        )


def path_figure(
    name: str,
    updates: pd.DataFrame,
    setup: Setup,
    dimension: int,
    styles: Mapping[str, Style],
    budget: int,
    *,
    exploratory: bool,
) -> Figure | None:
    """Draws the mean and the standard deviation of one context dimension over training."""
    known = updates[updates["mean"].notna() & updates["std"].notna()]
    if known.empty:
        return None
    known = known.assign(
        centre=[float(value[dimension]) for value in known["mean"]],
        spread=[float(value[dimension]) for value in known["std"]],
    )
    what = setup.context_names[dimension]
    title = f"{what[:1].upper()}{what[1:]}, {setup.name}"
    with Canvas(name, title, styles=styles, rows=2, height=4.1, exploratory=exploratory) as canvas:
        means, spreads = canvas.all_axes
        bundles = _bundles(known, "centre", styles, budget)
        draw_bundles(canvas, bundles, means, steps=True)
        draw_bundles(canvas, _bundles(known, "spread", styles, budget), spreads, steps=True)
        for axes in (means, spreads):
            axes.margins(y=0.12)
        _ends(means, setup.initial_mean[dimension], setup.target_mean[dimension])
        _ends(
            spreads,
            setup.initial_variance[dimension] ** 0.5,
            setup.target_variance[dimension] ** 0.5,
        )
        spreads.set_yscale("log")
        spreads.yaxis.set_major_locator(LogLocator(subs=_sub_decades(spreads.get_ylim())))
        spreads.yaxis.set_major_formatter(PLAIN)
        spreads.yaxis.set_minor_formatter(NullFormatter())
        means.set_ylabel("mean")
        spreads.set_ylabel("std (log)")
        step_axis(spreads, budget)
        canvas.legend(bundle.style.label for bundle in bundles)
        return canvas.finish(
            f"Mean and standard deviation of “{what}” under the sampling distribution, before "
            f"clipping to the bounds. {_median_words(bundles)}"
        )


def _bundles(
    updates: pd.DataFrame, column: str, styles: Mapping[str, Style], budget: int
) -> list[Bundle]:
    """Returns median, 5th and 95th percentile over runs, and some of the runs themselves."""
    grid = np.linspace(0, budget, _POINTS + 1)
    bundles = []
    for label, style in styles.items():
        mine = updates[updates["label"] == label]
        runs, seeds = [], []
        for seed, run in mine.groupby("seed", observed=True, sort=True):
            finite = run[np.isfinite(run[column].astype(float))]
            if len(finite):
                x = finite["env_steps"].to_numpy(dtype=np.float64)
                runs.append((x, finite[column].to_numpy(dtype=np.float64)))
                seeds.append(str(seed))
        if not runs:
            continue
        table = carried_forward(runs, grid)
        threads = [
            Thread(grid, row, f"{label}, seed {seed}")
            for seed, row in list(zip(seeds, table, strict=True))[:_MOST_THREADS]
        ]
        middle = percentiles(table)
        bundles.append(
            Bundle(style, grid, middle["centre"], middle["low"], middle["high"], threads, len(runs))
        )
    return bundles


def _ends(axes: Axes, initial: float, target: float) -> None:
    axes.axhline(initial, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    axes.axhline(target, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    for value, word in ((initial, "initial"), (target, "target")):
        axes.annotate(
            word, (1.0, value), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", va="center", fontsize=7.5, color=MUTED,
        )  # fmt: skip


def _sub_decades(limits: tuple[float, float]) -> tuple[float, ...]:
    """Returns which multiples of powers of ten to label, so that any range has a few labels."""
    return (1.0,) if limits[1] > 100 * limits[0] else (1.0, 2.0, 5.0)


def _median_words(bundles: list[Bundle]) -> str:
    counts = {bundle.runs for bundle in bundles}
    each = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)}–{max(counts)}"
    some = f"up to {_MOST_THREADS} of them" if max(counts) > _MOST_THREADS else "every run"
    return (
        f"Lines: median over n = {each} runs each; shade: 5th to 95th percentile (pointwise; a "
        f"spread, not an interval); faint: {some}."
    )


def _setup_of(updates: pd.DataFrame) -> str:
    return str(updates["setup"].iloc[0])
