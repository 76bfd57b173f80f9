"""Where the wall clock went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.patches import Patch

from pacebench.harness.report.canvas import Canvas, Figure
from pacebench.harness.report.palette import Style

# Phase → column and colour; the colours belong to no curriculum and read on light and dark.
PHASES: dict[str, tuple[str, str]] = {
    "rollout": ("seconds_rollout", "#9aa5b1"),
    "policy update": ("seconds_policy", "#7b8794"),
    "curriculum update": ("seconds_curriculum", "#ee7733"),
    "evaluation": ("seconds_evaluation", "#c3cad2"),
}


def timing_figure(
    name: str,
    runs: pd.DataFrame,
    styles: Mapping[str, Style],
    labels: Sequence[str],
    *,
    exploratory: bool,
) -> Figure | None:
    """Draws the mean seconds per run by phase, one bar per curriculum."""
    phases = {word: c for word, c in PHASES.items() if c[0] in runs and runs[c[0]].notna().any()}
    if not phases:
        return None
    means = runs.groupby("label", observed=True)[[c for c, _ in phases.values()]].mean()
    title = f"Wall clock by phase, {runs['setup'].iloc[0]}"
    height = 1.25 + 0.34 * len(labels)
    with Canvas(name, title, styles=styles, height=height, exploratory=exploratory) as canvas:
        axes = canvas.axes
        for i, label in enumerate(labels):
            left = 0.0
            total = float(means.loc[label].sum())
            for word, (column, colour) in phases.items():
                seconds = float(means[column].loc[label])
                bars = axes.barh(i, seconds, left=left, height=0.62, color=colour, linewidth=0)
                share = f" ({seconds / total:.1%})" if total else ""
                canvas.mark(bars.patches, styles[label], f"{label}, {word}: {seconds:.3g} s{share}")
                left += seconds
        axes.set_yticks(range(len(labels)), [styles[label].short for label in labels])
        for tick, label in zip(axes.get_yticklabels(), labels, strict=True):
            canvas.mark(tick, styles[label])
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel("seconds per run (mean)")
        handles = [Patch(color=colour, label=word) for word, (_, colour) in phases.items()]
        canvas.figure.legend(handles=handles, loc="outside lower center", ncols=2)
        n = runs.groupby("label", observed=True).size()
        count = f"{n.min()}" if n.min() == n.max() else f"{n.min()}–{n.max()}"
        return canvas.finish(
            f"Mean wall-clock seconds of a run by phase over n = {count} finished runs per "
            "curriculum. Runs trained side by side share the machine: this is a split of the time, "
            "not a timing result; `pacebench overhead` measures curricula against each other."
        )
