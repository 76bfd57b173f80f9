"""Everything a report is made from, gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pacebench.envs.setup import Setup
from pacebench.harness.analysis.freeze import PlanHistory
from pacebench.harness.analysis.history import History
from pacebench.harness.analysis.scores import Scale
from pacebench.harness.report.canvas import Canvas
from pacebench.harness.report.palette import Style
from pacebench.harness.report.palette import styles as styles_of
from pacebench.harness.seeding import StudyRole, study_sequence
from pacebench.harness.statistics.analysis import Analysis
from pacebench.harness.statistics.contrasts import ContrastResult
from pacebench.harness.statistics.estimates import Estimate
from pacebench.harness.statistics.interval import Interval, level_words, shape_words
from pacebench.harness.statistics.specification import SUITE
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import TuningRecord

_KINDS = {
    "welch-t": "Welch–Satterthwaite t",
    "paired-t": "paired t",
    "simultaneous-t": "simultaneous t",
    "expanded-percentile": "expanded percentile (Hesterberg)",
    "percentile (rliable)": "percentile bootstrap (rliable)",
    "wilson": "Wilson",
    "learned-miller-thomas": "Learned-Miller–Thomas",
    "mover-learned-miller-thomas": "difference of two Learned-Miller–Thomas",
    "mover-wilson": "difference of two Wilson",
    "logit-brunner-munzel": "logit Brunner–Munzel",
    "max-t": "max-t",
    "kolmogorov": "Kolmogorov",
}


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report is made from.

    Attributes:
        study: The study as it is analysed: where searches are the observations, with one entry
            per tuned method.
        declared: The study as its file says.
        setups: Its setups by name.
        scales: Their scales.
        runs: One row per planned run.
        scored: One row per observation: a run, or a search of a tuned method.
        curves: The target score of every observation over the evaluation grid.
        updates: Every curriculum update of planned runs.
        retired: Number of runs that an earlier version of the study asked for.
        analysis: What the statistics say.
        frozen: The frozen plan, if there is one.
        history: What the diary says.
        provenance: Terms and values about code, machine and plan.
        notes: Sentences about the data that the reader must know.
        tuning: What tuning found, where methods were tuned.
    """

    study: Study
    declared: Study
    setups: Mapping[str, Setup]
    scales: Mapping[str, Scale]
    runs: pd.DataFrame
    scored: pd.DataFrame
    curves: pd.DataFrame
    updates: pd.DataFrame
    retired: int
    analysis: Analysis
    frozen: PlanHistory | None
    history: History
    provenance: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    tuning: TuningRecord | None = None
    styles: Mapping[str, Style] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "styles", styles_of(self.study))

    @property
    def exploratory(self) -> bool:
        """Whether the report carries the watermark."""
        return bool(self.analysis.exploratory)

    @property
    def unknown(self) -> str:
        """What captions say of runs without a result, with a space before it; empty without."""
        count = sum(cell.unresolved for cell in self.analysis.accounting)
        if count == 0:
            return ""
        runs = f"{count} planned run{'s' if count > 1 else ''}"
        suite = ", and over all setups with all runs of their seed" if len(self.scopes) > 1 else ""
        return (
            f" {runs} without a result {'are' if count > 1 else 'is'} left out here{suite}; how "
            "far they could move the means is in the results per setup."
        )

    @property
    def by_search(self) -> bool:
        """Whether a tuned method's observations are searches instead of runs."""
        return self.study is not self.declared

    @property
    def tuned(self) -> frozenset[str]:
        """The methods whose values a search found."""
        return frozenset(entry.shown for entry in self.study.curricula if entry.tuned)

    @property
    def labels(self) -> tuple[str, ...]:
        """The curricula in the order of the study file."""
        return self.study.labels

    @property
    def learners(self) -> tuple[str, ...]:
        """The learners' names."""
        study = self.study
        return tuple(sorted({study.learner_of(entry).name for entry in study.curricula}))

    def canvas(self, name: str, title: str, **options: Any) -> Canvas:
        """Returns a canvas with this report's styles and watermark."""
        return Canvas(name, title, styles=self.styles, exploratory=self.exploratory, **options)

    def rng(self, *key: int) -> np.random.Generator:
        """Returns a stream of the study's own for what the report resamples."""
        sequence = study_sequence(self.study.seeds.root, StudyRole.BOOTSTRAP, 1, *key)
        return np.random.default_rng(sequence)

    def estimate(
        self, method: str, scope: str, column: str, functional: str = "mean"
    ) -> Estimate | None:
        """Returns one estimate, None where it was not made."""
        for item in self.analysis.estimates:
            if (item.method, item.scope, item.column, item.functional) == (
                method,
                scope,
                column,
                functional,
            ):
                return item
        return None

    def contrasts(self, column: str, scope: str) -> list[ContrastResult]:
        """Returns the comparisons of one column on one scope, in the order of the study."""
        place = {label: i for i, label in enumerate(self.labels)}
        found = [
            item
            for item in self.analysis.contrasts
            if item.comparison.column == column and item.comparison.scope == scope
        ]
        return sorted(
            found, key=lambda c: (place[c.comparison.method], place[c.comparison.control])
        )

    @property
    def scopes(self) -> tuple[str, ...]:
        """The setups, and the suite where there are several."""
        return (*self.study.setups, SUITE) if len(self.study.setups) > 1 else self.study.setups


def scope_words(scope: str) -> str:
    """Returns how a scope is printed."""
    return "all setups" if scope == SUITE else scope


def slug(text: str) -> str:
    """Returns a setup's name as part of a file name."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in text)


def interval_cells(
    interval: Interval | None, shown: str, prefix: str = ""
) -> dict[str, tuple[float, float] | float | None]:
    """Returns an interval as a row of a table holds it: both ends to show, and each for the CSV."""
    ends = None if interval is None else (interval.low, interval.high)
    low, high = ends or (None, None)
    return {shown: ends, f"{prefix}low": low, f"{prefix}high": high}


def interval_words(found: Iterable[Interval | None]) -> str:
    """Returns what a caption says of its intervals: level, kind, n and simulated coverage."""
    known = [item for item in found if item is not None]
    if not known:
        return "No interval can be given from so few runs; the points are the runs themselves."
    words = []
    for kind in dict.fromkeys(item.kind for item in known):
        mine = [item for item in known if item.kind == kind]
        level = f"{level_words(mine[0].level)} %"
        runs = _range([item.runs for item in mine])
        words.append(f"{level} {_KINDS.get(kind, kind)} intervals, n = {runs} runs per cell; ")
        words[-1] += coverage_words(mine)
    return ". ".join(words) + "."


def percentile_words(found: Iterable[Interval | None]) -> str:
    """Returns what captions say of the intervals that other papers print; empty without any."""
    known = [item for item in found if item is not None]
    return f"\nFor comparison, as other papers print it: {interval_words(known)}" if known else ""


def coverage_words(found: Sequence[Interval]) -> str:
    """Returns the simulated coverage of intervals of one kind."""
    covered = [item.coverage for item in found if item.coverage is not None]
    if not covered:
        return "coverage not simulated for this case"
    parts = []
    for shape in dict.fromkeys(c.shape for c in covered if c.matched):
        shares = sorted(
            {f"{100 * c.share:.1f}" for c in covered if c.matched and c.shape == shape}, key=float
        )
        shown = shares[0] if len(shares) == 1 else f"{shares[0]}–{shares[-1]}"
        parts.append(f"{shown} % for {shape_words(shape)}")
    low = min(covered, key=lambda c: c.worst)
    parts.append(f"{100 * low.worst:.1f} % for the worst shape, {shape_words(low.worst_shape)}")
    cells = ", ".join(dict.fromkeys(c.cell for c in covered))
    text = f"simulated coverage {', '.join(parts)} ({cells})"
    if not all(c.matched for c in covered):
        text += "; some of these data have a shape that was not simulated"
    lacking = dict.fromkeys(item.estimand for item in found if item.coverage is None)
    if lacking:
        text += f"; not simulated for every {' and '.join(lacking)}"
    if any(item.under_covers for item in found):
        text += "; such intervals are narrower than they claim"
    return text


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"
