"""A folder to drop into a manuscript: tables and figures as wide as a column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pacebench.harness.report.document import Document
from pacebench.harness.report.figures.pgf import PREAMBLE
from pacebench.harness.report.tables import Table, escape_tex

# Columns that a column of a paper has room for, by the beginning of the table's name.
_COLUMNS = {
    "verdicts": ("method", "control", "setup", "estimand", "verdict", "interval", "runs"),
    "results-": ("method", "runs", "mean", "standard_error", "success", "interval"),
}
_FIGURES = ("contrasts-", "return-", "curve-", "travel-", "wealth")


def write_paper(made: Document, folder: Path) -> None:
    """Writes the paper's tables and figures, and a document that shows each of them."""
    shown = []
    for table in made.tables():
        for start, keys in _COLUMNS.items():
            if table.name.startswith(start) and table.rows:
                text = _fit(_narrow(table, keys))
                (folder / f"{table.name}.tex").write_text(text, encoding="utf-8")
                shown.append((table.name, table.title or table.name, table.caption))
    for figure in made.figures():
        if figure.name.startswith(_FIGURES):
            (folder / f"{figure.name}.tex").write_text(_fit(figure.tex), encoding="utf-8")
            shown.append((figure.name, figure.title, figure.caption))
    weak = "Exploratory. " if made.exploratory else ""
    floats = "\n".join(
        f"\\begin{{figure}}\n\\centering\n\\input{{{name}}}\n"
        f"\\caption{{{weak}{escape_tex(title)}. {escape_tex(caption)}}}\n"
        "\\end{figure}\n\\clearpage"
        for name, title, caption in shown
    )
    text = (
        f"% {escape_tex(made.title)}: everything in this folder, each as wide as a column.\n"
        "\\documentclass[twocolumn]{article}\n"
        f"\\usepackage{{amssymb}}\n{PREAMBLE}\\begin{{document}}\n"
        f"{escape_tex(made.answer)}\n{floats}\n\\end{{document}}\n"
    )
    (folder / "example.tex").write_text(text, encoding="utf-8")


def _narrow(table: Table, keys: tuple[str, ...]) -> str:
    columns = [c for key in keys for c in table.kept if c.key == key]
    plain = replace(table, columns=columns).tex()
    return f"\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}%\n{plain}"


def _fit(text: str) -> str:
    """Shrinks what is wider than a column to its width, and leaves the rest as it is."""
    wide = "\\ifdim\\width>\\columnwidth\\columnwidth\\else\\width\\fi"
    return f"\\resizebox{{{wide}}}{{!}}{{%\n{text}}}%\n"
