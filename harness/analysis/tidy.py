"""A study's scores as one tidy table, from which every export is made."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pacebench.harness.analysis import scores
from pacebench.harness.store.load import load_results
from pacebench.harness.store.manifest import study_of

# The columns of an exported table; docs/your-numbers.md says what each is.
TIDY_COLUMNS = (
    "method",
    "task",
    "seed",
    "step",
    "score",
    "success",
    "normalised",
    "status",
    "scored_as",
    "run_id",
)


def tidy_scores(root: Path | str) -> pd.DataFrame:
    """Returns one row per planned run and evaluation, `TIDY_COLUMNS`.

    The last row of a run is its score: of a run that failed by its own doing the floor, of one that
    was lost or is not there yet nothing.

    Raises:
        UserError: There are no results, or they cannot be scored.
    """
    results = load_results(root)
    study = study_of(results.manifest)
    scales = scores.scales_of(study)
    curves = scores.target_curves(results, study, scales)
    final = scores.score_runs(results, study, scales, curves)
    table = curves.merge(final[[*scores.KEY, "status"]], on=scores.KEY, validate="many_to_one")
    last = table["step"] == study.evaluation_steps()[-1]
    for name in ("return", "normalised", "success"):
        own = table[scores.KEY].merge(final[[*scores.KEY, name]], on=scores.KEY, how="left")[name]
        table.loc[last, name] = own.to_numpy()[last]
    names = {"label": "method", "setup": "task", "return": "score", "how": "scored_as"}
    table = table.rename(columns=names)[list(TIDY_COLUMNS)]
    table["success"] = table["success"].astype(float)
    return table.astype({"method": str, "task": str}).reset_index(drop=True)
