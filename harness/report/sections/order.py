"""The order of the report: the answer first, limits last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pacebench.harness.report import document as doc
from pacebench.harness.report import words
from pacebench.harness.report.answer import answer, grid
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.sections.behaviour import behaviour
from pacebench.harness.report.sections.claims import claims, contrasts, wealth
from pacebench.harness.report.sections.closing import accounting, limits, provenance
from pacebench.harness.report.sections.cost import cost
from pacebench.harness.report.sections.curves import efficiency, learning
from pacebench.harness.report.sections.episodes import episodes
from pacebench.harness.report.sections.learner import learner
from pacebench.harness.report.sections.scores import results
from pacebench.harness.report.sections.tuning import tuning

# A section that has nothing to say about a study returns None.
SectionOf = Callable[[ReportData], doc.Section | None]

SECTIONS: tuple[SectionOf, ...] = (
    claims,
    wealth,
    results,
    learning,
    behaviour,
    episodes,
    efficiency,
    learner,
    cost,
    tuning,
    accounting,
    provenance,
    limits,
)


def document(data: ReportData, sections: Sequence[SectionOf] = SECTIONS) -> doc.Document:
    """Returns the report of a study, whole unless only some sections are asked for."""
    study, n = data.study, data.analysis.runs
    best = "confirmatory" if data.analysis.claims else ""
    most = f"at most {study.seeds.count}" if study.seeds.adaptive else f"{study.seeds.count}"
    return doc.Document(
        title=study.name,
        question=study.question,
        facts=[
            words.plural(len(study.labels), "method"),
            words.plural(len(study.setups), "setup"),
            f"n = {n} searches of {study.seeds.count} runs each"
            if data.by_search
            else f"n = {_seeds(data)} of {most} runs per cell",
            *([f"learner {', '.join(data.learners)}"] if data.learners else ()),
            *([f"{words.short_count(study.budget)} steps per run"] if data.has_steps else ()),
        ],
        exploratory=data.analysis.exploratory,
        strength="exploratory" if data.exploratory else best,
        sections=[made for section in sections if (made := section(data)) is not None],
        answer=answer(study, data.family, exploratory=data.exploratory, unit=data.unit),
        grid=grid(study, data.family),
        contrasts=contrasts(data),
    )


def _seeds(data: ReportData) -> str:
    """Returns the known runs per cell; the cells of an adaptive study differ."""
    if not data.study.seeds.adaptive:
        return str(data.analysis.runs)
    return words.extent(cell.planned - cell.unresolved for cell in data.analysis.accounting)
