"""How many seeds a study needs for the smallest effect it cares about, and what it can detect.

With a pilot the actual analysis is simulated on the pilot's spread. Without one the answer is given
for a range of spreads, because a study that has not been run does not know its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacebench import envs
from pacebench.harness.analysis.bridge import COLUMNS, run_table
from pacebench.harness.analysis.scores import scale_of, score_runs
from pacebench.harness.errors import UserError
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.statistics.power import (
    RECOMMENDED,
    SampleSizePlan,
    minimum_detectable_effect,
    plan,
    runs_needed,
)
from pacebench.harness.statistics.rehearsal import Design
from pacebench.harness.statistics.scores import RunScore, Scores
from pacebench.harness.statistics.sequential import schedule
from pacebench.harness.statistics.specification import EXPLORATORY_BELOW, NORMALISED, SUITE
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.load import load_results
from pacebench.harness.store.manifest import study_of
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study

# Standard deviations between seeds on the normalised score, from tame to two-humped.
SPREADS = (0.05, 0.1, 0.2, 0.3, 0.4)
LIMIT = 500


@dataclass(frozen=True)
class Spread:
    """What a study needs and can do if seeds vary this much.

    Attributes:
        spread: Standard deviation between seeds on the normalised score.
        runs: Runs per cell for the smallest effect; None beyond `LIMIT`.
        detectable: Minimum detectable effect with the planned runs.
    """

    spread: float
    runs: int | None
    detectable: float


@dataclass(frozen=True)
class Forecast:
    """What planning says about a study.

    Attributes:
        study: Its name.
        planned: Runs per cell as the study stands.
        effect: Smallest effect of interest on the normalised score.
        family: Number of declared comparisons.
        power: Wanted power.
        paired: Whether pairs of runs are declared.
        spreads: Without a pilot: one row per assumed spread.
        scopes: With a pilot: what it says per setup, or for the suite.
    """

    study: str
    planned: int
    effect: float
    family: int
    power: float
    paired: bool = False
    spreads: tuple[Spread, ...] = ()
    scopes: Mapping[str, SampleSizePlan] | None = None

    def notes(self) -> tuple[str, ...]:
        """Returns what holds whatever the spread."""
        notes = []
        if self.paired and self.scopes is None:
            notes.append(
                "Pairs are declared; how alike they are is not known, and this takes them for "
                "unrelated. A pilot with --pilot shows it."
            )
        if self.planned < EXPLORATORY_BELOW:
            notes.append(
                f"Fewer than {EXPLORATORY_BELOW} runs per cell make the report exploratory; "
                f"{RECOMMENDED} are recommended."
            )
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return {
            "study": self.study,
            "planned": self.planned,
            "smallest_effect": self.effect,
            "comparisons": self.family,
            "power": self.power,
            "spreads": [vars(row) for row in self.spreads],
            "pilot": {scope: p.to_dict() for scope, p in (self.scopes or {}).items()} or None,
        }


def forecast(study: Study, pilot: Path | None = None, power: float = 0.8) -> Forecast:
    """Plans a study.

    Args:
        study: The study to be run.
        pilot: Results folder of a pilot, run with other seeds.
        power: Wanted power for the smallest effect of interest.

    Raises:
        UserError: The study compares nothing, or the pilot does not fit it.
    """
    scopes = _scopes(study)
    family = len(study.comparisons) * len(scopes)
    if family == 0:
        raise UserError(f"study '{study.name}' compares nothing; add a second curriculum.")
    facts: dict[str, Any] = {
        "study": study.name,
        "planned": study.seeds.count,
        "effect": study.statistics.smallest_effect,
        "family": family,
        "power": power,
        "paired": study.statistics.paired,
    }
    if pilot is not None:
        return Forecast(**facts, scopes=_from_pilot(study, pilot, power, scopes))
    tasks = len(study.setups) if scopes == (SUITE,) else 1
    alpha = _last_level(study) / family
    rows = tuple(
        Spread(
            spread,
            _needed(spread, tasks, facts["effect"], alpha, power),
            _detectable(spread, tasks, study.seeds.count, alpha, power),
        )
        for spread in SPREADS
    )
    return Forecast(**facts, spreads=rows)


def _last_level(study: Study) -> float:
    """Returns what declared looks leave of alpha for the last one, which is planned with."""
    declared = study.statistics
    if not declared.looks:
        return declared.alpha
    return schedule(study.seeds.count, declared.looks, declared.alpha).alphas[-1]


def _scopes(study: Study) -> tuple[str, ...]:
    suite = study.statistics.primary == "normalised" and len(study.setups) > 1
    return (SUITE,) if suite else study.setups


def _detectable(spread: float, tasks: int, runs: int, alpha: float, power: float) -> float:
    if runs < 2:
        return math.inf
    # Two means over `tasks` setups of equal spread; Holm's first step is Bonferroni.
    error = spread * math.sqrt(2 / (runs * tasks))
    return minimum_detectable_effect(error, 2 * tasks * (runs - 1), alpha, power)


def _needed(spread: float, tasks: int, effect: float, alpha: float, power: float) -> int | None:
    error = spread / math.sqrt(tasks)  # with two runs per cell
    return runs_needed(error, 2 * tasks, 2, effect, alpha, power, LIMIT)


def _column(study: Study) -> str:
    """Returns the column that is planned for, on the scale of the smallest effect."""
    primary = study.statistics.primary
    return NORMALISED if primary == "return" else COLUMNS[primary]


def _from_pilot(
    study: Study, folder: Path, power: float, scopes: tuple[str, ...]
) -> dict[str, SampleSizePlan]:
    results = load_results(folder)
    own = {run.run_id for run in expand(study)}
    refuse_overlap(folder, set(results.runs["run_id"]), study.name, own)
    pilot = study_of(results.manifest)
    shared = [name for name in study.setups if name in pilot.setups]
    if len(shared) < len(study.setups):
        lacking = sorted(set(study.setups) - set(shared))
        raise UserError(f"{folder}: the pilot has no runs on '{lacking[0]}'; add that setup to it.")
    scales = {name: scale_of(envs.setup(name), study.statistics.floor) for name in pilot.setups}
    table = run_table(score_runs(results, pilot, scales))
    Ledger(folder).append("plan", study=study.name)
    column = _column(study)
    declared = study.comparisons
    planned = {}
    for i, scope in enumerate(scopes):
        setups = study.setups if scope == SUITE else (scope,)
        scores = _pilot_scores(table, study, setups, column)
        family = [(a, b) for a, b in declared if a in scores and b in scores]
        if not family:
            raise UserError(
                f"{folder}: the pilot holds no two methods that '{study.name}' compares; run at "
                f"least {declared[0][0]} and {declared[0][1]} in it."
            )
        # The simulated family is that of one scope, as far as piloted; Bonferroni for the rest.
        share = len(family) / (len(declared) * len(scopes))
        planned[scope] = plan(
            scores,
            Design(
                family,
                study.statistics.smallest_effect,
                study.statistics.alpha * share,
                study.statistics.paired,
                study.statistics.looks,
            ),
            study.seeds.count,
            np.random.default_rng(study_sequence(study.seeds.root, StudyRole.BOOTSTRAP, 2, i)),
            power=power,
            limit=LIMIT,
        )
    return planned


def refuse_overlap(folder: Path | str, pilot: set[str], study: str, own: set[str]) -> None:
    """Stops a pilot that holds runs of the study it is to plan.

    Raises:
        UserError: They share a run.
    """
    shared = pilot & own
    if shared:
        raise UserError(
            f"{folder}: {len(shared)} of its runs belong to '{study}' itself, and runs that judge "
            "a study must not plan it; run the pilot with another seeds.root."
        )


def _pilot_scores(
    table: pd.DataFrame, study: Study, setups: tuple[str, ...], column: str
) -> dict[str, Scores]:
    found = {}
    for label in study.labels:
        mine = table[(table["method"] == label) & table["setup"].isin(setups)]
        mine = mine[mine[column].notna()]
        tasks = mine.groupby("seed", observed=True)["setup"].nunique()
        common = tasks.index[tasks == len(setups)]
        kept = mine[mine["seed"].isin(common)]
        if len(kept):
            rows = zip(kept["setup"], kept["seed"], kept[column], strict=True)
            found[label] = Scores.from_runs(
                label, [RunScore(str(s), int(n), float(v)) for s, n, v in rows]
            )
    return found
