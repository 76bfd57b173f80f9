"""The findings as a page of their own and as a section of another report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacebench.harness.overhead.compare import Agreement
from pacebench.harness.overhead.findings import OverheadSummary, load_summary
from pacebench.harness.report import document as doc
from pacebench.harness.report.overhead import tables
from pacebench.harness.report.overhead.claims import agreement_sentence, all_claims, headline_cells
from pacebench.harness.report.overhead.figures import all_figures, styles_of
from pacebench.harness.report.overhead.formats import duration, percent
from pacebench.harness.report.render import markdown, page
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.store.provenance import version_words

AGREEMENT = "agreement.json"
# Above this the machine was too noisy for small effects, and the page says so.
_NOISY = 1.05
_NO_FIT = "Too few cells are dominated by work, or the grid is too small, to say how times grow."


def section(path: Path | str) -> doc.Section:
    """Returns the findings of a results folder as one section of a report."""
    summary = load_summary(path)
    drawn = all_figures(summary)
    shown = [drawn[name] for name in ("time-d", "ratio-d", "quality", "share") if name in drawn]
    text, claims, table = _verdicts(summary)
    blocks: list[doc.Block] = [text, claims, doc.Figures(shown), table]
    return doc.Section("overhead", "What the curriculum costs", blocks)


def document(summary: OverheadSummary) -> doc.Document:
    """Returns the whole page."""
    drawn = all_figures(summary)
    noise = _noise(summary)
    warned = [doc.Warned("Exploratory: the machine was too noisy.", noise)] if noise else []
    time: list[doc.Block] = [
        doc.Figures([drawn["time-d"], drawn["time-k"], drawn["ratio-d"]]),
        doc.TableBlock(tables.scaling_table(summary)) if summary.scaling else doc.Text(_NO_FIT),
        doc.TableBlock(tables.times_table(summary)),
        doc.TableBlock(tables.ratio_table(summary)),
    ]
    quality: list[doc.Block] = [
        doc.Figures([drawn["quality"]] if "quality" in drawn else []),
        doc.TableBlock(tables.quality_table(summary)),
    ]
    sections = [
        doc.Section("verdicts", "What was found", [*warned, *_verdicts(summary)]),
        doc.Section("time", "Time per update", time),
        doc.Section("quality", "Quality next to speed", quality),
    ]
    if summary.training is not None:
        scores = [drawn[name] for name in ("share", "score-per-step", "score-per-second")]
        table = doc.TableBlock(tables.training_table(summary.training))
        trained = doc.Section("training", "In a training run", [doc.Figures(scores), table])
        sections.append(trained)
    sections.append(doc.Section("machine", "How it was measured", _method(summary)))
    return doc.Document(
        title="Wall-clock overhead",
        question="What does a closed form buy, against the published solver and a strong one?",
        facts=[
            f"{summary.settings.blocks} blocks",
            f"{len(summary.cells)} cells",
            f"limit {summary.settings.limit:g} s per update",
            f"noise floor {percent(summary.check.floor - 1)}",
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
        text = f"# {table.title}\n\n{table.markdown()}\n\n{table.caption}\n"
        (sheets / f"{table.name}.md").write_text(text, encoding="utf-8")
    write_atomic(folder / "report.md", markdown(whole).encode(), durable=False)
    write_atomic(folder / "index.html", page(whole, styles_of(summary)).encode(), durable=False)


def write_agreement(folder: Path, found: Agreement) -> dict[str, Any]:
    """Writes `agreement.json`; returns what it holds."""
    plain = {**found.model_dump(mode="json"), "sentence": agreement_sentence(found)}
    text = json.dumps(plain, indent=1, ensure_ascii=False)
    write_atomic(folder / AGREEMENT, (text + "\n").encode())
    return plain


def _verdicts(summary: OverheadSummary) -> tuple[doc.Text, doc.Claims, doc.TableBlock]:
    short = (
        "Every curriculum replayed the same updates, from the same distribution, with the same "
        f"contexts and values, in {summary.settings.blocks} interleaved blocks per cell, each "
        "block a fresh process on one thread. Ratios have paired t intervals over blocks; what "
        "lies within the noise floor of the A/A (one curriculum under two names) is inconclusive. "
        "Answers are judged beside their speed, by exact formulas."
    )
    table = tables.headline_table(headline_cells(summary))
    return doc.Text(short), doc.Claims(all_claims(summary)), doc.TableBlock(table)


def _noise(summary: OverheadSummary) -> list[str]:
    floor = summary.twins.median_floor
    if floor <= _NOISY:
        return []
    return [
        f"The machine was busy (load {summary.check.machine.load:g} during the self-check) and the "
        f"median noise floor of the cells is {percent(floor - 1)}: smaller differences were not "
        "looked for."
    ]


def _method(summary: OverheadSummary) -> list[doc.Block]:
    machine, settings = summary.machine, summary.settings
    items = [
        "State is restored before every update, outside the timed region; V₋ counts as not reached "
        "before, so that below it every method takes its performance step.",
        f"Warm-up by count: {settings.warm_up} untimed updates, one for what takes longer than "
        "10 ms. Garbage is collected between rounds, not during updates.",
        "Within a process the passes are interleaved in random order and then run backwards; an "
        "instance's time is the median over passes. Passes of quick updates begin with untimed "
        "ones.",
        "A cell is probed first: a curriculum whose updates take more than "
        f"{settings.limit:g} s on average is shown as over the limit.",
        "Synthetic instances lie on the way from a wide initial distribution to the target, with "
        "diagonal covariances; recorded ones come from training runs.",
    ]
    loads = [cell.machine.load for cell in summary.cells if cell.machine.load > 0]
    steal = max(cell.machine.steal for cell in summary.cells)
    cheapest = min(m.time.estimate for cell in summary.cells for m in cell.timed.values())
    hardware = machine.hardware
    pairs = [
        ("processor", f"{hardware['processor']}, {hardware['threads']} threads"),
        ("virtual machine", "yes" if machine.virtual else "no"),
        ("governor", f"{machine.governor}, boost {machine.boost}"),
        ("load", f"{min(loads):g} to {max(loads):g} over the cells" if loads else "unknown"),
        ("stolen time", f"at most {percent(steal)} of a block"),
        ("linear algebra", machine.blas),
        ("versions", version_words(dict(machine))),
        ("revision", f"{machine.revision}{' (changed since)' if machine.dirty else ''}"),
        ("cheapest update", duration(cheapest)),
    ]
    return [doc.Listing(items), doc.Pairs(pairs)]
