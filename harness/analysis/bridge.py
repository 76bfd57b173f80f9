"""From a study's declarations and its scored runs to what the statistics take."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pacebench.harness.analysis.scores import Scale
from pacebench.harness.analysis.units import LEAST_REPLICATES
from pacebench.harness.errors import UserError
from pacebench.harness.statistics.missing import STEPS, Range
from pacebench.harness.statistics.specification import (
    EXPLORATORY_BELOW,
    NORMALISED,
    SUCCESS,
    SUITE,
    StatisticsSpec,
)
from pacebench.harness.study.models import Study

# The study file's estimands → the statistics' columns; an IQM aggregates runs, so it has none.
COLUMNS = {
    "return": "score",
    "success": SUCCESS,
    "normalised": NORMALISED,
    "auc": "auc",
    "cvar": "cvar",
}


def specification(
    study: Study,
    scales: Mapping[str, Scale],
    *,
    frozen: bool = False,
    searches: int | None = None,
    has_area: bool = True,
) -> StatisticsSpec:
    """Returns the declared analysis.

    Args:
        study: The study.
        scales: The scale of each setup.
        frozen: Whether the plan was frozen before the runs started.
        searches: Searches per tuned method, where a search is the observation.
        has_area: Whether the evaluation grid has at least two points.

    Raises:
        UserError: The primary estimand is none that runs can be compared by.
    """
    said = study.statistics
    if said.primary not in COLUMNS or (said.primary == "auc" and not has_area):
        raise UserError(
            f"study '{study.name}': statistics.primary: '{said.primary}' cannot be compared run "
            f"by run here; choose one of {', '.join(COLUMNS)} and keep it as secondary."
        )
    planned = study.seeds.count if searches is None else min(searches, study.seeds.count)
    if planned < 2:
        raise UserError(
            f"study '{study.name}': seeds.count: one run per cell has no spread; plan at least 3 "
            "seeds (10 for a claim, 20 recommended)."
        )
    effect = said.smallest_effect
    sesoi: dict[str, float | Mapping[str, float]] = {
        "score": {name: effect * abs(scale.unit) for name, scale in scales.items()},
        NORMALISED: effect,
        "auc": effect,
        "cvar": effect,
    }
    if said.primary == "success":
        sesoi[SUCCESS] = effect
    normalised: dict[str, Range] = {name: _range(scale) for name, scale in scales.items()}
    raw: dict[str, Range] = {
        name: (scales[name].raw(worst), None if best is None else scales[name].raw(best))
        for name, (worst, best) in normalised.items()
    }
    estimands = ["score", SUCCESS, NORMALISED, "auc", "cvar", STEPS]
    if not has_area:
        estimands.remove("auc")
    # A suite mean is one claim per comparison; everything else is claimed setup by setup.
    suite = said.primary == "normalised" and len(study.setups) > 1
    return StatisticsSpec(
        control=study.control,
        runs=planned,
        comparisons=study.comparisons,
        estimands=tuple(estimands),
        primary=COLUMNS[said.primary],
        scopes=(SUITE,) if suite else ("setups",),
        sesoi=sesoi,
        alpha=said.alpha,
        looks=tuple(said.looks),
        ranges={
            "score": raw,
            NORMALISED: normalised,
            "auc": normalised,
            "cvar": normalised,
        },
        horizons=dict.fromkeys(study.setups, float(study.budget)),
        paired=said.paired,
        frozen=frozen,
        least_runs=EXPLORATORY_BELOW if searches is None else LEAST_REPLICATES,
    )


def _range(scale: Scale) -> Range:
    """Returns the score of a failed run and the best possible one, where both bound all others."""
    bounds = scale.bounded and scale.floor <= scale.lowest
    return scale.floor, scale.highest if bounds else None


def run_table(scored: pd.DataFrame) -> pd.DataFrame:
    """Returns scored runs under the statistics' names."""
    names = {"label": "method", "return": "score"}
    table = scored.rename(columns=names)
    kept = ["method", "setup", "seed", "status", "score", SUCCESS, NORMALISED, "auc", "cvar", STEPS]
    return table[kept]
