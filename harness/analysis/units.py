"""What one observation is: a training run, or a whole search with its training runs.

A claim about "method plus tuning" is a claim about searches: two runs of one configuration say
nothing about what another search would have found. Where every tuned method was searched often
enough, each search becomes one observation, the mean of its runs; methods that were not tuned keep
their runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pacebench.harness.analysis.scores import MEASURED, MISSING, SCORES, UNRESOLVED
from pacebench.harness.records import Status
from pacebench.harness.study.models import Comparison, CurriculumEntry, Study, Tuned


@dataclass(frozen=True)
class Units:
    """Searches as observations.

    Attributes:
        study: The study with one entry per method instead of one per search.
        origins: From the label of a search's configuration to where it comes from.
        replicates: Searches per tuned method, the fewest.
    """

    study: Study
    origins: Mapping[str, Tuned]
    replicates: int

    @classmethod
    def of(cls, study: Study) -> Units | None:
        """Returns the searches of a study; None where its runs are the observations."""
        if not study.by_search:
            return None
        origins = {entry.shown: entry.tuned for entry in study.curricula if entry.tuned}
        return cls(_one_entry_per_method(study), origins, study.replicates)

    def scored(self, runs: pd.DataFrame, budget: int) -> pd.DataFrame:
        """Returns one row per observation; a search with an unknown run is unknown."""
        table = self._named(runs)
        # A run that never reached V₋ took at least the whole budget, and is averaged as such.
        table["steps_to_threshold"] = table["steps_to_threshold"].fillna(float(budget))
        timings = [name for name in map(str, runs) if name.startswith("seconds_")]
        means = [*SCORES, "steps_to_threshold", *timings]
        grouped = table.groupby(["label", "setup", "seed", "run_id"], sort=False, observed=True)
        units = grouped[means].mean().reset_index()
        units["env_steps"] = grouped["env_steps"].sum().to_numpy()
        known = grouped["how"].agg(lambda how: (how != UNRESOLVED).all()).to_numpy(dtype=bool)
        units.loc[~known, list(SCORES)] = np.nan
        units["how"] = np.where(known, MEASURED, UNRESOLVED)
        waiting = grouped["status"].agg(lambda s: (s == MISSING).any()).to_numpy(dtype=bool)
        lost = np.where(waiting, MISSING, Status.INFRASTRUCTURE.value)
        units["status"] = np.where(known, "ok", lost)
        units.loc[units["steps_to_threshold"] >= budget, "steps_to_threshold"] = np.nan
        return pd.concat([self._untouched(runs), units], ignore_index=True)

    def curves(self, curves: pd.DataFrame) -> pd.DataFrame:
        """Returns one learning curve per observation."""
        measures = ["return", "discounted_return", "success", "normalised"]
        table = self._named(curves)
        grouped = table.groupby(
            ["label", "setup", "seed", "run_id", "step"], sort=False, observed=True
        )
        units = grouped[measures].mean().reset_index()
        known = grouped["how"].agg(lambda how: (how != UNRESOLVED).all()).to_numpy(dtype=bool)
        units.loc[~known, measures] = np.nan
        units["how"] = np.where(known, MEASURED, UNRESOLVED)
        return pd.concat([self._untouched(curves), units], ignore_index=True)

    def updates(self, updates: pd.DataFrame) -> pd.DataFrame:
        """Returns every update under its method's name."""
        names = {label: o.method for label, o in self.origins.items()}
        return updates.assign(label=updates["label"].map(lambda label: names.get(label, label)))

    def _untouched(self, table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["label"].isin(list(self.origins))]

    def _named(self, table: pd.DataFrame) -> pd.DataFrame:
        mine = table[table["label"].isin(list(self.origins))].copy()
        origins = mine["label"].map(dict(self.origins))
        mine["label"] = [origin.method for origin in origins]
        mine["seed"] = [origin.replicate for origin in origins]
        mine["run_id"] = [f"search {origin.replicate + 1}" for origin in origins]
        return mine


def _one_entry_per_method(study: Study) -> Study:
    names = {e.shown: e.tuned.method if e.tuned else e.shown for e in study.curricula}
    entries: dict[str, CurriculumEntry] = {}
    for entry in study.curricula:
        name = names[entry.shown]
        entries.setdefault(name, entry.model_copy(update={"label": name}))
    said = study.statistics
    pairs = said.comparisons
    if not isinstance(pairs, str):
        weights: dict[Any, float] = {}
        for declared in pairs:
            key = (names[declared.pair[0]], names[declared.pair[1]]), declared.setups
            weights[key] = weights.get(key, 0.0) + declared.weight
        pairs = tuple(
            Comparison(pair=pair, weight=weight, setups=setups)
            for (pair, setups), weight in weights.items()
        )
    update = {"control": names[study.control], "comparisons": pairs}
    statistics = said.model_copy(update=update)
    return study.model_copy(update={"curricula": tuple(entries.values()), "statistics": statistics})
