"""From the document to files: one HTML page that needs nothing else, and Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from pacebench.harness.report import document as doc
from pacebench.harness.report.palette import DARK_PAGE, Style
from pacebench.harness.report.tables import escape_markdown


def page(document: doc.Document, styles: Mapping[str, Style], *, svg: bool = True) -> str:
    """Returns the HTML page: no request leaves it, and what users wrote stays text.

    Args:
        document: What it says.
        styles: How each curriculum looks.
        svg: Whether the figures' SVG files are there to be linked.
    """
    script = _part("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=FunctionLoader(_part), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["prose"] = _prose
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("index.html").render(
        **vars(document),
        styles=styles,
        svg=svg,
        style=_part("style.css"),
        script=script,
        # The page runs this one script and no other, whatever a label might smuggle in.
        script_hash=f"sha256-{digest}",
        dark_page=DARK_PAGE,
    )


def _prose(text: str) -> Markup:
    """Returns text for the page, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _part(name: str) -> str:
    return (resources.files("pacebench.harness.report") / "page" / name).read_text(encoding="utf-8")


def markdown(document: doc.Document) -> str:
    """Returns the report as Markdown, with links to the figures' files."""
    lines = [f"# {escape_markdown(document.title)}", "", escape_markdown(document.question), ""]
    facts = [escape_markdown(fact) for fact in document.facts]
    if document.strength:
        facts.insert(0, f"**{document.strength}**")
    lines += [" · ".join(facts), ""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            lines += [*_lines(block), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


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
        case doc.TableBlock(table):
            if table.title:
                yield from (f"### {escape_markdown(table.title)}", "")
            if table.folded:
                file = f"tables/{table.name}.csv"
                yield f"{len(table.rows)} rows in [{file}]({file})"
            else:
                yield table.markdown()
            if table.caption:
                yield from ("", escape_markdown(table.caption))
        case doc.Figures(figures):
            for figure in figures:
                yield f"![{escape_markdown(figure.title)}](figures/{figure.name}.png)"
                yield ""
                yield f"*{escape_markdown(figure.caption)}*"
                yield ""
