"""The findings as a page of their own and as a section of another report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacebench.harness.errors import UserError
from pacebench.harness.overhead import figures, tables
from pacebench.harness.overhead.words import duration, headline_cells, percent
from pacebench.harness.report.document import (
    Block,
    Claim,
    Claims,
    Document,
    Figures,
    Listing,
    Pairs,
    Section,
    TableBlock,
    Text,
    Warned,
)
from pacebench.harness.report.render import markdown, page
from pacebench.harness.store.files import make_folder, write_atomic

Finding = dict[str, Any]
SUMMARY = "summary.json"
# Above this the machine was too noisy for small effects, and the page says so.
NOISY = 1.05


def load_summary(path: Path | str) -> Finding:
    """Returns the findings of a results folder.

    Raises:
        UserError: There are none.
    """
    file = Path(path) / SUMMARY
    try:
        found: Finding = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(
            f"{file} is missing or not readable; run `pacebench overhead --out {path}` first."
        ) from None
    return found


def section(path: Path | str) -> Section:
    """Returns the findings of a results folder as one section of a report."""
    summary = load_summary(path)
    drawn = {figure.name: figure for figure in figures.all_figures(summary)}
    shown = [drawn[name] for name in ("time-d", "ratio-d", "quality", "share") if name in drawn]
    blocks: list[Block] = [
        Text(_method_in_short(summary)),
        Claims([Claim(**claim) for claim in summary["claims"]]),
        Figures(shown),
        TableBlock(tables.headline_table(headline_cells(summary))),
    ]
    return Section("overhead", "What the curriculum costs", blocks)


def document(summary: Finding) -> Document:
    """Returns the whole page."""
    drawn = {figure.name: figure for figure in figures.all_figures(summary)}
    made = {table.name: table for table in tables.all_tables(summary)}
    settings, noise = summary["settings"], _noise(summary)
    doubts: list[Block] = [Warned("Exploratory: the machine was too noisy.", noise)]
    sections = [
        Section(
            "verdicts",
            "What was found",
            [
                *(doubts if noise else ()),
                Text(_method_in_short(summary)),
                Claims([Claim(**claim) for claim in summary["claims"]]),
                TableBlock(tables.headline_table(headline_cells(summary))),
            ],
        ),
        Section(
            "time",
            "Time per update",
            [
                Figures([drawn["time-d"], drawn["time-k"], drawn["ratio-d"]]),
                TableBlock(made["scaling"]),
                TableBlock(made["times"]),
                TableBlock(made["ratios"]),
            ],
        ),
        Section(
            "quality",
            "Quality next to speed",
            [
                Figures([drawn[name] for name in ("quality",) if name in drawn]),
                TableBlock(made["quality"]),
            ],
        ),
    ]
    if summary["training"]:
        names = ("share", "score-per-step", "score-per-second")
        sections.append(
            Section(
                "training",
                "In a training run",
                [Figures([drawn[name] for name in names]), TableBlock(made["training"])],
            )
        )
    sections.append(Section("machine", "How it was measured", _method(summary)))
    return Document(
        title="Wall-clock overhead",
        question="What does a closed form buy, against the published solver and a strong one?",
        facts=[
            f"{settings['blocks']} blocks",
            f"{len(summary['cells'])} cells",
            f"limit {settings['limit']:g} s per update",
            f"noise floor {percent(summary['check']['floor'] - 1)}",
        ],
        exploratory=noise,
        strength="exploratory" if noise else "",
        sections=sections,
    )


def write_pages(folder: Path) -> None:
    """Writes page, Markdown, tables and figures of the findings in a folder."""
    summary = load_summary(folder)
    whole = document(summary)
    drawings, sheets = make_folder(folder / "figures"), make_folder(folder / "tables")
    for figure in whole.figures():
        figure.write(drawings)
    for table in whole.tables():
        table.write(sheets)
        text = f"# {table.title}\n\n{table.markdown()}\n\n{table.caption}\n"
        (sheets / f"{table.name}.md").write_text(text, encoding="utf-8")
    write_atomic(
        folder / "index.html", page(whole, figures.styles_of(summary)).encode(), durable=False
    )
    write_atomic(folder / "report.md", markdown(whole).encode(), durable=False)


def _noise(summary: Finding) -> list[str]:
    floor = summary["twins"]["median_floor"]
    if floor <= NOISY:
        return []
    load = summary["check"]["machine"]["load"]
    return [
        f"The machine was busy (load {load:g} during the self-check) and the median noise floor of "
        f"the cells is {percent(floor - 1)}: smaller differences were not looked for."
    ]


def _method_in_short(summary: Finding) -> str:
    settings = summary["settings"]
    return (
        f"Every curriculum replayed the same updates, from the same distribution, with the same "
        f"contexts and values, in {settings['blocks']} interleaved blocks per cell, each block a "
        "fresh process on one thread. Ratios have paired t intervals over blocks; what lies within "
        "the noise floor of the A/A (one curriculum under two names) is inconclusive. Answers are "
        "judged beside their speed, by exact formulas."
    )


def _method(summary: Finding) -> list[Block]:
    machine, settings = summary["machine"], summary["settings"]
    loads = [cell["machine"]["load"] for cell in summary["cells"] if cell["machine"]["load"]]
    steal = max(cell["machine"]["steal"] for cell in summary["cells"])
    hardware = machine["hardware"]
    items = [
        "State is restored before every update, outside the timed region; V₋ counts as not reached "
        "before, so that below it every method takes its performance step.",
        f"Warm-up by count: {settings['warm_up']} untimed updates, one for what takes longer than "
        "10 ms. Garbage is collected between rounds, not during updates.",
        "Within a process the passes are interleaved in random order and then run backwards; an "
        "instance's time is the median over passes. Passes of quick updates begin with untimed "
        "ones.",
        "A cell is probed first: a curriculum whose updates take more than "
        f"{settings['limit']:g} s on average is shown as over the limit.",
        "Synthetic instances lie on the way from a wide initial distribution to the target, with "
        "diagonal covariances; recorded ones come from training runs.",
    ]
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    pairs = [
        ("processor", f"{hardware['processor']}, {hardware['threads']} threads"),
        ("virtual machine", "yes" if machine["virtual"] else "no"),
        ("governor", f"{machine['governor']}, boost {machine['boost']}"),
        ("load", f"{min(loads):g} to {max(loads):g} over the cells" if loads else "unknown"),
        ("stolen time", f"at most {percent(steal)} of a block"),
        ("linear algebra", machine["blas"]),
        ("versions", versions),
        ("revision", f"{machine['revision']}{' (changed since)' if machine['dirty'] else ''}"),
        ("cheapest update", duration(_cheapest(summary))),
    ]
    return [Listing(items), Pairs(pairs)]


def _cheapest(summary: Finding) -> float:
    return min(
        float(found["time"]["estimate"])
        for cell in summary["cells"]
        for found in cell["methods"].values()
        if found["status"] == "ok"
    )
