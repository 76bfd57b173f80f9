"""The findings as a page of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacebench.harness.overhead.compare import Agreement
from pacebench.harness.overhead.findings import OverheadSummary
from pacebench.harness.report import document as doc
from pacebench.harness.report.overhead import figures, tables
from pacebench.harness.report.overhead.claims import agreement_sentence, all_claims, headline_cells
from pacebench.harness.report.overhead.tables import percent
from pacebench.harness.report.render import markdown, page
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.provenance import version_words

AGREEMENT = "agreement.json"
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
_OLD = (
    "Measured before instances and blocks were crossed: half of the blocks replayed the same "
    "instances as the other half, so intervals rest on five replicates, not ten, and there is no "
    "ratio of totals. Measure again."
)


def document(summary: OverheadSummary) -> doc.Document:
    """Returns the whole page."""
    look = figures.styles_of(summary)
    noise = _noise(summary)
    found: list[doc.Block] = [
        *([doc.Warned("Exploratory: the machine was too noisy.", noise)] if noise else []),
        *([] if summary.crossed else [doc.Warned(_OLD)]),
        doc.Text(_SHORT),
        doc.Claims(list(all_claims(summary))),
        tables.headline_table(headline_cells(summary), crossed=summary.crossed),
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
    sections = [
        doc.Section("verdicts", "What was found", found),
        doc.Section("time", "Time per update", time),
        doc.Section("quality", "Quality next to speed", quality),
    ]
    if summary.training is not None:
        table = tables.training_table(summary.training)
        sections.append(doc.Section("training", "In a training run", [table]))
    sections.append(doc.Section("machine", "How it was measured", _method(summary)))
    return doc.Document(
        title="Wall-clock overhead",
        question="What does a closed form buy, against the published solver and a strong one?",
        facts=[
            f"{summary.settings.blocks} blocks",
            f"{len(summary.cells)} cells",
            f"limit {summary.settings.limit:g} s per update",
            f"noise floor {percent(summary.twins.median_floor - 1)}",
        ],
        exploratory=noise,
        strength="exploratory" if noise else "",
        sections=sections,
    )


def write_pages(folder: Path, summary: OverheadSummary) -> None:
    """Writes page, Markdown, tables and figures."""
    whole = document(summary)
    drawings, sheets = make_folder(folder / "figures"), make_folder(folder / "tables")
    for figure in whole.figures():
        figure.write(drawings)
    for table in whole.tables():
        table.write(sheets)
    write_atomic(folder / "report.md", markdown(whole).encode(), durable=False)
    html = page(whole, figures.styles_of(summary))
    write_atomic(folder / "index.html", html.encode(), durable=False)


def write_agreement(folder: Path, found: Agreement) -> dict[str, Any]:
    """Writes `agreement.json`; returns what it holds."""
    plain = {**found.model_dump(mode="json"), "sentence": agreement_sentence(found)}
    text = json.dumps(plain, indent=1, ensure_ascii=False)
    write_atomic(folder / AGREEMENT, (text + "\n").encode())
    return plain


def _noise(summary: OverheadSummary) -> list[str]:
    floor = summary.twins.median_floor
    if floor <= _NOISY:
        return []
    load = max(cell.machine.load for cell in summary.cells)
    return [
        f"The machine was busy (load up to {load:g}) and the median noise floor of the cells is "
        f"{percent(floor - 1)}: smaller differences were not looked for."
    ]


def _method(summary: OverheadSummary) -> list[doc.Block]:
    machine = summary.machine
    loads = [cell.machine.load for cell in summary.cells]
    items = [
        "State is restored before every update, outside the timed region; V₋ counts as not reached "
        "before, so that below it every method takes its performance step.",
        "Untimed updates come first. Within a process the passes are interleaved in random order "
        "and then run backwards; an instance's time is the median over passes. Garbage is "
        "collected between rounds, not during updates.",
        "A cell is probed first: a curriculum whose updates take more than "
        f"{summary.settings.limit:g} s on average is shown as over the limit.",
        "Synthetic instances lie on the way from a wide initial distribution to the target, with "
        "diagonal covariances; recorded ones come from training runs.",
    ]
    pairs = [
        ("processor", f"{machine.hardware['processor']}, {machine.hardware['threads']} threads"),
        ("load", f"{min(loads):g} to {max(loads):g} over the cells"),
        ("stolen time", f"at most {percent(max(c.machine.steal for c in summary.cells))}"),
        ("versions", version_words(dict(machine))),
        ("revision", f"{machine.revision}{' (changed since)' if machine.dirty else ''}"),
    ]
    return [doc.Listing(items), doc.Pairs(pairs)]
