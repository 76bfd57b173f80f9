"""How the learner fared: its own account of its policy updates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import MEASURED
from pacebench.harness.report import document as doc
from pacebench.harness.report.data import ReportData, of_cell
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.axis import Axis
from pacebench.harness.report.figures.travel import over_time
from pacebench.harness.report.tables import CELL, Column, Table, counts, number, percent
from pacebench.harness.store.runs import DIAGNOSED, DIAGNOSTICS
from pacebench.harness.store.study_files import StudyFiles
from pacebench.harness.store.tables import from_parquet

# Column, the title of its figure, and what is measured.
_SHOWN = {
    "approx_kl": ("Approximate KL", "KL(old ‖ new policy), estimated"),
    "clip_fraction": ("Clipping", "share of clipped ratios"),
    "entropy": ("Entropy", "entropy of the policy, nats"),
    "value_loss": ("Value loss", "squared error of the critic"),
    "explained_variance": ("Explained variance", "share explained by the critic"),
    "gradient_norm": ("Gradient norm", "before clipping"),
}
_LOG = ("value_loss", "gradient_norm")


def read_diagnostics(files: StudyFiles, runs: pd.DataFrame) -> pd.DataFrame:
    """Returns what the learners of a study's first runs told, one row per policy update."""
    found = []
    first = (
        runs[runs["how"] == MEASURED]
        .sort_values("seed")
        .groupby(["setup", "label"], observed=True)
        .head(DIAGNOSED)
    )
    for run in first.to_dict("records"):
        name = f"runs/{run['run_id']}/{DIAGNOSTICS}"
        if files.exists(name):
            told = from_parquet(files.read(name), DIAGNOSTICS).to_pandas()
            found.append(told.assign(setup=run["setup"], label=run["label"], seed=run["seed"]))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def learner(data: ReportData) -> doc.Section | None:
    """Returns the learner's diagnostics over time and at the end, folded; None without any."""
    if data.diagnostics.empty:
        return None
    blocks: list[doc.Block] = [_table(data)]
    for setup in data.study.setups:
        here = data.diagnostics[data.diagnostics["setup"] == setup]
        drawn = [
            figure
            for column in _SHOWN
            if (figure := _figure(data, setup, here, column)) is not None
        ]
        blocks += [doc.Fold(f"On {setup}", [doc.Figures(drawn)])] if drawn else []
    return doc.Section("learner", "The learner", blocks)


def _figure(data: ReportData, setup: str, here: pd.DataFrame, column: str) -> Figure | None:
    values = here[column].to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    # Single updates far outside would flatten everything else.
    title, label = _SHOWN[column]
    y = Axis.over(np.percentile(values, (1, 99)), label, log=column in _LOG, count=3)
    caption = (
        "Median over runs (thick), 5th to 95th percentile (shade) and the medians of the others in "
        "grey; the axis holds 98 % of all updates."
    )
    return over_time(data, setup, here, column, f"learner-{column}-{setup}", title, y, caption)


def _table(data: ReportData) -> Table:
    rows = []
    late = data.diagnostics[data.diagnostics["env_steps"] > 0.9 * data.study.budget]
    for setup, label in data.cells():
        mine = of_cell(late, setup, label)
        if not mine.empty:
            ends = mine.groupby("seed")[list(_SHOWN)].mean().median()
            told = {name: float(ends[name]) if np.isfinite(ends[name]) else None for name in _SHOWN}
            rows.append({"setup": setup, "method": label, "runs": mine["seed"].nunique(), **told})
    return Table(
        "learner",
        "",
        "What policy updates looked like in the last tenth of training: the mean of each run, and "
        "the median over runs. They say whether the learner was well, not which method is better: "
        "a curriculum changes what the critic must explain.",
        (
            *CELL,
            *counts("runs"),
            Column("approx_kl", "approximate KL", number(2), number=True),
            Column("clip_fraction", "clipped", percent(0), number=True),
            Column("entropy", "entropy", number(3), number=True),
            Column("value_loss", "value loss", number(3), number=True),
            Column("explained_variance", "explained variance", percent(0), number=True),
            Column("gradient_norm", "gradient norm", number(3), number=True),
        ),
        rows,
        # An off-policy learner has no ratios to clip.
        optional=list(_SHOWN),
    )
