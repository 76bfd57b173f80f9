"""`pacebench report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from pacebench.harness.report.tables import Column

# The rest of the columns is on the page; these fit a terminal.
_SHOWN = (
    "setup",
    "method",
    "control",
    "verdict",
    "difference",
    "interval",
    "model_verdict",
    "runs",
)
_STYLES = {
    "better": "green",
    "worse": "red",
    "equivalent": "blue",
    "not worse": "cyan",
    "undecided": "dim",
}


def report(
    study: Annotated[
        Path, typer.Argument(help="A study: its file, shipped name or results folder.")
    ],
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
    out: Annotated[
        Path | None, typer.Option(help="Where to write (default: report/ beside the results).")
    ] = None,
    svg: Annotated[
        bool,
        typer.Option(
            "--svg/--no-svg", help="Write SVG files of the figures; the page holds them anyway."
        ),
    ] = True,
    json_: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Analyse a study's results: page, Markdown, tables and figures.

    Every report is noted in the study's ledger, because every report is a look at the data.

    Example: [bold]pacebench report studies/quick.yaml[/bold]
    """
    import json

    from pacebench.harness.cli.folders import results_of
    from pacebench.harness.cli.output import console, warnings_as_lines
    from pacebench.harness.report.make import report as make_report
    from pacebench.harness.report.sections.claims import verdict_columns, verdict_rows

    folder = results_of(study, results)
    screen = console()
    with warnings_as_lines():
        if screen.is_terminal:
            with screen.status("analysing and drawing …"):
                made = make_report(folder, out, svg=svg)
        else:
            made = make_report(folder, out, svg=svg)
    if json_:
        said = {
            "verdicts": made.view.analysis.verdicts(),
            "solved": made.view.analysis.solved_record(),
            "exploratory": made.view.analysis.exploratory,
            "page": str(made.page),
        }
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
        return
    rows = verdict_rows(made.view)
    if rows:
        screen.print(_table(rows, verdict_columns(rows)))
    for reason in made.view.analysis.exploratory:
        screen.print(f"Exploratory: {reason}", markup=False)
    for note in made.view.notes:
        screen.print(f"Note: {note}", markup=False)
    # Printed without folding, so that it can be clicked or copied.
    typer.echo(f"Report: {made.page}")


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from pacebench.harness.report.tables import shown

    by_key = {column.key: column for column in columns}
    table = Table(box=None, pad_edge=False)
    for key in _SHOWN:
        number = by_key[key].number
        table.add_column(by_key[key].heading, justify="right" if number else "left", no_wrap=number)
    for row in rows:
        cells = [Text(shown(by_key[key], row.get(key))) for key in _SHOWN]
        cells[_SHOWN.index("verdict")].stylize(_STYLES[str(row["verdict"])])
        table.add_row(*cells)
    return table
