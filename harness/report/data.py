"""Everything a report is made from, gathered once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pandas as pd

from pacebench.envs.setup import Setup
from pacebench.harness.analysis.analyse import Analysis
from pacebench.harness.analysis.comparisons import ComparisonResult
from pacebench.harness.analysis.estimates import Estimate
from pacebench.harness.analysis.foreign import ForeignStudy
from pacebench.harness.analysis.freeze import PlanHistory
from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.scores import MEASURED, UNRESOLVED, Scale
from pacebench.harness.analysis.table import SUITE
from pacebench.harness.report import words
from pacebench.harness.report.answer import in_order
from pacebench.harness.report.document import Picture
from pacebench.harness.report.figure import Figure
from pacebench.harness.report.figures.rows import Dot
from pacebench.harness.report.palette import Style
from pacebench.harness.report.palette import styles as styles_of
from pacebench.harness.report.tables import MOST_ROWS
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import TuningRecord

F = TypeVar("F", bound=Figure)
# Observations of each cell that a page shows singly, however many cells there are.
_LEAST_SINGLE = 40


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report is made from."""

    # The study as it is analysed: where searches are the observations, with one entry per tuned
    # method.
    study: Study
    declared: Study  # the study as its file says
    setups: Mapping[str, Setup]  # its setups by name
    scales: Mapping[str, Scale]  # their scales
    runs: pd.DataFrame  # one row per planned run
    scored: pd.DataFrame  # one row per observation: a run, or a search of a tuned method
    curves: pd.DataFrame  # the target score of every observation over the evaluation grid
    updates: pd.DataFrame  # every curriculum update of planned runs
    analysis: Analysis  # what the statistics say
    retired: int = 0  # number of runs that an earlier version of the study asked for
    frozen: PlanHistory | None = None  # the frozen plan, if there is one
    history: History = field(default_factory=History)  # what the ledger says
    provenance: Sequence[tuple[str, str]] = ()  # terms and values about code, machine and plan
    notes: Sequence[str] = ()  # sentences about the data that the reader must know
    tuning: TuningRecord | None = None  # what tuning found, where methods were tuned
    # The last lines of each run's log, by run.
    logs: Mapping[str, str] = field(default_factory=dict)
    # What learners told of their policy updates; empty where they told nothing.
    diagnostics: pd.DataFrame = field(default_factory=pd.DataFrame)
    # Target episodes of stored policies; empty where there are none.
    episodes: Sequence[Picture] = ()
    # Where the scores were not made here, what they were read from.
    foreign: ForeignStudy | None = None

    @cached_property
    def styles(self) -> Mapping[str, Style]:
        """How each curriculum looks, by label."""
        return styles_of(self.study)

    def style(self, name: str) -> Style:
        """Returns the look of what a comparison names; a pool of labels looks like its first."""
        return replace(self.styles[self.study.members(name)[0]], label=name)

    @property
    def exploratory(self) -> bool:
        """Whether the report carries the watermark."""
        return bool(self.analysis.exploratory)

    @property
    def unknown(self) -> str:
        """What captions say of runs without a result, after a space; empty if there are none."""
        count = sum(cell.unresolved for cell in self.analysis.accounting)
        if count == 0:
            return ""
        suite = ", and over all setups with all runs of their seed" if len(self.scopes) > 1 else ""
        runs = words.plural(count, "planned run")
        return (
            f" {runs} without a result {'are' if count > 1 else 'is'} left out here{suite}; how "
            "far they could move the means is in the results per setup."
        )

    @property
    def solved_words(self) -> str:
        """When a run counts as solved."""
        if self.foreign is not None:
            return self.foreign.solved_words
        return f"success on {self.study.statistics.solved:.0%} of the contexts or more"

    @property
    def by_search(self) -> bool:
        """Whether a tuned method's observations are searches instead of runs."""
        return self.study is not self.declared

    @property
    def unit(self) -> str:
        """What the observations are."""
        return "searches" if self.by_search else "seeds"

    @property
    def tuned(self) -> frozenset[str]:
        """The methods whose values a search found."""
        return frozenset(entry.shown for entry in self.study.curricula if entry.tuned)

    @property
    def learners(self) -> tuple[str, ...]:
        """The learners' names, where they are known."""
        if self.foreign is not None:
            return ()
        study = self.study
        return tuple(sorted({study.learner_of(entry).name for entry in study.curricula}))

    @property
    def has_steps(self) -> bool:
        """Whether it is known how many steps a run has."""
        return self.foreign is None or self.foreign.stepped

    @property
    def trained(self) -> str:
        """What runs were trained with, after a comma; empty where nothing is known of it."""
        learner = f", learner {' and '.join(self.learners)}" if self.learners else ""
        return learner + (f", {self.study.budget:,} steps" if self.has_steps else "")

    @property
    def score_word(self) -> str:
        """What a run scores, in words."""
        return "mean target return" if self.foreign is None else "score"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The setups, and the suite where there are several."""
        return (*self.study.setups, SUITE) if len(self.study.setups) > 1 else self.study.setups

    def figure(self, plot: F) -> F:
        """Returns a figure as it is written; of an exploratory report, every file of it says so."""
        stamp = " (exploratory)" if self.exploratory else ""
        return replace(plot, name=words.slug(plot.name), stamp=stamp)

    @cached_property
    def units(self) -> dict[tuple[str, str, int], int]:
        """The numbers by which the page knows observations, by label, setup and seed."""
        keys = (
            (label, setup, int(seed))
            for setup, label in self.cells()
            for seed in self.shown(setup, label)["seed"]
        )
        return {key: number for number, key in enumerate(keys)}

    @property
    def most_shown(self) -> int:
        """How many observations of a cell the page shows singly, so that any browser opens it."""
        return max(MOST_ROWS // len(self.cells()), _LEAST_SINGLE)

    @property
    def thinned(self) -> str:
        """What captions say where not every run is shown, after a space; empty where all are."""
        most = self.most_shown
        if self.scored.groupby(["setup", "label"]).size().max() <= most:
            return ""
        return f" Of cells with more runs the first {most} seeds are drawn; numbers are of all."

    def shown(self, setup: str, label: str) -> pd.DataFrame:
        """Returns the observations of one cell that the page shows singly: those of first seeds."""
        return of_cell(self.scored, setup, label).sort_values("seed").head(self.most_shown)

    def dots(self, setup: str, label: str, column: str) -> list[Dot]:
        """Returns every known run of a cell, and whether it solved the task."""
        found = []
        for run in self.known(setup, label).to_dict("records"):
            kind = "solved" if run["solved"] >= 0.5 else "open"
            kind = kind if run["how"] == MEASURED else "failed"
            unit = self.units.get((label, setup, int(run["seed"])))
            found.append(Dot(float(run[column]), unit, kind))
        return [dot for dot in found if np.isfinite(dot.value)]

    @cached_property
    def family(self) -> list[ComparisonResult]:
        """The weighted comparisons, in the order of scopes and study file."""
        return self.comparisons(weighted=True)

    def rng(self, *key: int) -> np.random.Generator:
        """Returns a stream of the study's own for what the report resamples."""
        sequence = study_sequence(self.study.seeds.root, StudyRole.BOOTSTRAP, 1, *key)
        return np.random.default_rng(sequence)

    def cells(self) -> list[tuple[str, str]]:
        """Returns every setup with every curriculum, in the order of the study file."""
        return [(setup, label) for setup in self.study.setups for label in self.study.labels]

    def known(self, setup: str, label: str) -> pd.DataFrame:
        """Returns the observations of one cell that have a score, by seed."""
        mine = of_cell(self.scored, setup, label)
        return mine[mine["how"] != UNRESOLVED].sort_values("seed")

    def updates_of(self, setup: str, label: str) -> pd.DataFrame:
        """Returns the curriculum updates of one cell."""
        return self._updates.get((setup, label), self.updates[:0])

    @cached_property
    def _updates(self) -> dict[tuple[str, str], pd.DataFrame]:
        return dict(iter(self.updates.groupby(["setup", "label"], sort=False)))  # type: ignore[arg-type]

    def estimate(
        self, label: str, scope: str, estimand: str, functional: str = "mean"
    ) -> Estimate | None:
        """Returns one estimate, None where it was not made."""
        return self._estimates.get((label, scope, estimand, functional))

    @cached_property
    def _estimates(self) -> dict[tuple[str, str, str, str], Estimate]:
        made = self.analysis.estimates
        return {(item.label, item.scope, item.estimand, item.functional): item for item in made}

    def comparisons(self, **wanted: object) -> list[ComparisonResult]:
        """Returns the comparisons of such questions, in the order of scopes and study file."""
        found = (
            item
            for item in self.analysis.comparisons
            if all(getattr(item.question, name) == value for name, value in wanted.items())
        )
        return in_order(self.study, found)


def of_cell(frame: pd.DataFrame, setup: str, label: str) -> pd.DataFrame:
    """Returns the rows of a frame that belong to one curriculum on one setup."""
    return frame[(frame["setup"] == setup) & (frame["label"] == label)]
