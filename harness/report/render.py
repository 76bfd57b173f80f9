"""From the document to files: one HTML page that needs nothing else, and Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from pacebench.harness.report import document as doc
from pacebench.harness.report.answer import Grid
from pacebench.harness.report.figure import Figure, part
from pacebench.harness.report.palette import DARK_PAGE, Style
from pacebench.harness.report.tables import Table, escape_markdown
from pacebench.harness.store.files import make_folder, write_atomic


def write(
    document: doc.Document, styles: Mapping[str, Style], folder: Path, data: str = ""
) -> None:
    """Writes tables, figures, Markdown and page into a folder; `data` as `page` takes it."""
    tables, figures = make_folder(folder / "tables"), make_folder(folder / "figures")
    for table in document.tables():
        table.write(tables)
    for figure in document.figures():
        figure.write(figures)
    write_atomic(folder / "report.md", markdown(document).encode())
    write_atomic(folder / "index.html", page(document, styles, data).encode())


def page(document: doc.Document, styles: Mapping[str, Style], data: str = "") -> str:
    """Returns the HTML page, with what it knows of every run as JSON.

    No request leaves it, and what users wrote stays text.
    """
    return fill("index.html", **vars(document), styles=styles, data=data, dark_page=DARK_PAGE)


def fill(template: str, **values: Any) -> str:
    """Returns one of the page's templates with its style and script."""
    script = part("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=FunctionLoader(part), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["prose"] = _prose
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template(template).render(
        **values,
        style=part("style.css") + part("figure.css"),
        script=script,
        # The page runs this one script and no other, whatever a label might smuggle in.
        script_hash=f"sha256-{digest}",
    )


def _prose(text: str) -> Markup:
    """Escapes a sentence of ours; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def markdown(document: doc.Document) -> str:
    """Returns the report as Markdown, with links to the figures' files."""
    lines = [f"# {escape_markdown(document.title)}", "", escape_markdown(document.question), ""]
    if document.answer:
        lines += [f"**{escape_markdown(document.answer)}**", ""]
    if document.grid is not None and document.grid.rows:
        lines += [*_grid(document.grid), ""]
    lines += [line for figure in document.contrasts for line in _figure(figure)]
    facts = [escape_markdown(fact) for fact in document.facts]
    if document.strength:
        facts.insert(0, f"**{document.strength}**")
    lines += [" · ".join(facts), ""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            lines += [*_lines(block), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _grid(grid: Grid) -> Iterator[str]:
    heads = [f"against {grid.control}", *grid.heads()]
    yield "| " + " | ".join(escape_markdown(head) for head in heads) + " |"
    yield "|" + " --- |" * len(heads)
    for text, line in grid.lines():
        chips = [chip.text if chip else "–" for chip in line]
        yield "| " + " | ".join([escape_markdown(text), *chips]) + " |"


def _figure(figure: Figure) -> Iterator[str]:
    yield f"![{escape_markdown(figure.title)}](figures/{figure.picture})"
    yield ""
    yield f"*{escape_markdown(figure.caption)}*"
    yield ""


def _lines(block: doc.Block) -> Iterator[str]:
    match block:
        case doc.Text(text):
            yield escape_markdown(text)
        case doc.Heading(text):
            yield f"### {escape_markdown(text)}"
        case doc.Warned(text, items):
            yield f"> **{escape_markdown(text)}**"
            yield from (f"> - {escape_markdown(item)}" for item in items)
        case doc.Claims(claims):
            for claim in claims:
                said = f"{claim.sentence} ({claim.strength})" if claim.strength else claim.sentence
                yield f"- **{escape_markdown(claim.word)}** {escape_markdown(said)}"
        case doc.Listing(items):
            yield from (f"- {escape_markdown(item)}" for item in items)
        case doc.Pairs(pairs):
            yield from (f"- {escape_markdown(a)}: {escape_markdown(b)}" for a, b in pairs)
        case Table() as table:
            if table.title:
                yield from (f"### {escape_markdown(table.title)}", "")
            if table.folded:
                file = f"tables/{table.name}.csv"
                yield f"{len(table.rows)} rows in [{file}]({file})"
            else:
                yield table.markdown()
            for text in (table.caption if table.folded else table.said, table.notes):
                if text:
                    yield from ("", escape_markdown(text))
        case doc.Figures(figures):
            for figure in figures:
                yield from _figure(figure)
        case doc.Pictures(pictures):
            yield from (f"- {escape_markdown(f'{p.label}: {p.text}')}" for p in pictures)
        case doc.Verdicts(grid):
            yield from _grid(grid)
        case doc.Link(text, address):
            yield f"[{escape_markdown(text)}]({address})"
        case doc.Fold(title, blocks):
            yield from (f"### {escape_markdown(title)}", "")
            for inner in blocks:
                yield from (*_lines(inner), "")
