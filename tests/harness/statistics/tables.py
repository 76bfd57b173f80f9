"""Small studies whose scores are given: what an analysis sees, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pacebench import envs
from pacebench.harness.analysis.scores import scale_of
from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.study.models import Study

RANGE = 100.0  # returns lie between 0 and this, whatever range the setup itself declares


def study(
    labels: tuple[str, ...], setups: tuple[str, ...] = ("point-mass-1",), **statistics: Any
) -> Study:
    """Returns a study; the first label is the control unless another is declared."""
    return Study.model_validate(
        {
            "name": "made-up",
            "question": "Which one is better?",
            "curricula": labels,
            "setups": setups,
            "seeds": {"count": 20},
            "budget": 1_000,
            "statistics": statistics,
        }
    )


def score_table(
    returns: Mapping[str, npt.ArrayLike],
    setups: tuple[str, ...] = ("point-mass-1",),
    seed: int = 0,
    *,
    bounded: bool = True,
    **statistics: Any,
) -> ScoreTable:
    """Returns a study's scored runs, all of them finished.

    Args:
        returns: Final returns by label, (seeds,) or (seeds, setups).
        setups: Registered setups.
        seed: Root of the random streams.
        bounded: Whether the range of returns is known.
        **statistics: The study's statistics section.
    """
    asked = study(tuple(returns), setups, **statistics)
    low, high = (0.0, RANGE) if bounded else (None, None)
    scales = {
        name: scale_of(
            replace(envs.setup(name), min_return=low, max_return=high), asked.statistics.floor
        )
        for name in setups
    }
    parts = []
    for label, given in returns.items():
        values = np.asarray(given, dtype=np.float64).reshape(-1, len(setups))
        for column, setup in enumerate(setups):
            normalised = scales[setup].normalise(values[:, column])
            solved = (normalised >= asked.statistics.solved).astype(float)
            parts.append(
                pd.DataFrame(
                    {
                        "label": label,
                        "setup": setup,
                        "seed": np.arange(len(values)),
                        "status": "ok",
                        "how": "measured",
                        "return": values[:, column],
                        "normalised": normalised,
                        "success": solved,
                        "solved": solved,
                        "auc": normalised,
                        "cvar": normalised,
                        "steps_to_threshold": np.where(solved > 0, 500.0, np.nan),
                    }
                )
            )
    rows = pd.concat(parts, ignore_index=True)
    return ScoreTable(asked, scales, rows, np.random.SeedSequence(seed))


ESTIMANDS = ["return", "normalised", "success", "solved", "auc", "cvar", "steps_to_threshold"]


def with_rows(table: ScoreTable, rows: pd.DataFrame) -> ScoreTable:
    """Returns the same study with other rows."""
    return ScoreTable(table.study, table.scales, rows, table.seed)


def lose(table: ScoreTable, label: str, seeds: npt.ArrayLike, status: str) -> ScoreTable:
    """Returns the table without the scores of some runs, which end with another status."""
    rows = table.rows.copy()
    hit = (rows["label"] == label) & rows["seed"].isin(np.atleast_1d(seeds))
    rows.loc[hit, "status"] = status
    rows.loc[hit, "how"] = "unresolved"
    rows.loc[hit, ESTIMANDS] = np.nan
    return with_rows(table, rows)
