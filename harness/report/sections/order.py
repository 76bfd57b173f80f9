"""The order of the report: claims first, limits last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import Document, Section
from pacebench.harness.report.figures.lines import short_count
from pacebench.harness.report.sections import (
    aggregates,
    behaviour,
    claims,
    closing,
    curves,
    results,
    tuning,
)

# A section that has nothing to say about a study returns None.
SectionOf = Callable[[ReportData], Section | None]

SECTIONS: tuple[SectionOf, ...] = (
    claims.claims,
    claims.verdicts,
    results.results,
    aggregates.aggregates,
    aggregates.improvement,
    curves.learning,
    curves.efficiency,
    behaviour.behaviour,
    behaviour.wall_clock,
    tuning.tuning,
    closing.accounting,
    closing.provenance,
    closing.limits,
)


def document(view: ReportData, sections: Sequence[SectionOf] = SECTIONS) -> Document:
    """Returns the report of a view, whole unless only some sections are asked for."""
    study, n = view.study, view.analysis.runs
    return Document(
        title=study.name,
        question=study.question,
        facts=[
            f"{len(study.labels)} curricula",
            f"{len(study.setups)} setup{'s' if len(study.setups) > 1 else ''}",
            f"n = {n} searches of {study.seeds.count} runs each"
            if view.by_search
            else f"n = {n} of {study.seeds.count} runs per cell",
            f"learner {', '.join(view.learners)}",
            f"{short_count(study.budget)} steps per run",
        ],
        exploratory=view.analysis.exploratory,
        strength=_strength(view),
        sections=[made for section in sections if (made := section(view)) is not None],
    )


def _strength(view: ReportData) -> str:
    if view.exploratory:
        return "exploratory"
    return "confirmatory" if view.analysis.claims else ""
