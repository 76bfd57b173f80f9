"""The findings as a page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.report import document as doc
from pacebench.harness.report.overhead import figures, tables
from pacebench.harness.report.overhead.claims import all_claims, headline_cells
from pacebench.harness.report.overhead.tables import percent
from pacebench.harness.report.palette import Style, looks
from pacebench.harness.report.render import markdown, page
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.provenance import version_words

# Above this the machine was too noisy for small effects, and the page says so.
_NOISY = 1.05
_NO_FIT = "Too few cells are dominated by work, or the grid is too small, to say how times grow."
_SHORT = (
    "Every curriculum replayed the same updates, from the same distribution, with the same "
    "contexts and values, interleaved on one thread in blocks, each a fresh process. What lies "
    "within the noise floor of the A/A (one curriculum under two names) is inconclusive. Answers "
    "are judged beside their speed, by exact formulas. “Published solver” is `spdl`: the published "
    "algorithm and optimiser settings (SciPy's trust-constr) with our analytic gradients; the "
    "original implementation, which differentiates automatically, is slower still."
)
_METHOD = (
    "State is restored before every update, outside the timed region; V₋ counts as not reached "
    "before, so that below it every method takes its performance step.",
    "Untimed updates come first. Within a process the passes are interleaved in random order and "
    "then run backwards; an instance's time is the median over passes. Garbage is collected "
    "between rounds, not during updates.",
    "Synthetic instances lie on the way from a wide initial distribution to the target, with "
    "diagonal covariances; recorded ones come from training runs.",
)


def document(summary: OverheadSummary, look: Mapping[str, Style]) -> doc.Document:
    """Returns the whole page."""
    noise = _noise(summary)
    found: list[doc.Block] = [
        *([doc.Warned("Exploratory: the machine was too noisy.", noise)] if noise else []),
        doc.Text(_SHORT),
        doc.Claims(list(all_claims(summary))),
        tables.headline_table(headline_cells(summary)),
    ]
    time: list[doc.Block] = [
        doc.Figures([figures.time_figure(summary, look), figures.ratio_figure(summary, look)]),
        tables.scaling_table(summary) if summary.scaling else doc.Text(_NO_FIT),
        tables.ratio_table(summary),
    ]
    quality: list[doc.Block] = [
        doc.Figures(figures.quality_figures(summary, look)),
        tables.quality_table(summary),
    ]
    training = [] if summary.training is None else [tables.training_table(summary.training)]
    sections = [
        doc.Section("verdicts", "What was found", found),
        doc.Section("time", "Time per update", time),
        doc.Section("quality", "Quality next to speed", quality),
        doc.Section("training", "In a training run", training),
        doc.Section("machine", "How it was measured", [doc.Listing(_METHOD), _machine(summary)]),
    ]
    return doc.Document(
        title="Wall-clock overhead",
        question="What does a closed form buy, against the published solver and a strong one?",
        facts=[
            f"{summary.settings.blocks} blocks",
            f"{len(summary.cells)} cells",
            f"limit {summary.settings.limit:g} s per update",
            f"noise floor {percent(summary.median_floor - 1)}",
        ],
        exploratory=noise,
        strength="exploratory" if noise else "",
        sections=[section for section in sections if section.blocks],
    )


def write_pages(folder: Path, summary: OverheadSummary) -> None:
    """Writes page, Markdown, tables and figures."""
    look = looks([(name, name) for name in summary.settings.curricula])
    whole = document(summary, look)
    drawings, sheets = make_folder(folder / "figures"), make_folder(folder / "tables")
    for figure in whole.figures():
        figure.write(drawings)
    for table in whole.tables():
        table.write(sheets)
    write_atomic(folder / "report.md", markdown(whole).encode(), durable=False)
    write_atomic(folder / "index.html", page(whole, look).encode(), durable=False)


def _noise(summary: OverheadSummary) -> list[str]:
    if summary.median_floor <= _NOISY:
        return []
    load = max(cell.load for cell in summary.cells)
    return [
        f"The machine was busy (load up to {load:.2g}) and the median noise floor of the cells is "
        f"{percent(summary.median_floor - 1)}: smaller differences were not looked for."
    ]


def _machine(summary: OverheadSummary) -> doc.Pairs:
    machine, loads = summary.machine, [cell.load for cell in summary.cells]
    stolen = percent(max(cell.steal for cell in summary.cells))
    return doc.Pairs(
        [
            ("processor", "{processor}, {threads} threads".format(**machine.hardware)),
            ("load", f"{min(loads):.2g} to {max(loads):.2g} over the cells"),
            ("stolen time", f"at most {stolen}"),
            ("versions", version_words(dict(machine))),
            ("revision", f"{machine.revision}{' (changed since)' if machine.dirty else ''}"),
        ]
    )
