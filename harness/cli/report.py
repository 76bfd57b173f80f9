"""`pacebench report`."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import console, say_json, warnings_as_lines
from pacebench.harness.cli.selectors import RESULTS, Chosen, Only, ResultsFolder, Seeds, Values
from pacebench.harness.errors import UserError


def report(
    study: Path | None = Argument(
        None, help="The study file, the name of a shipped one, or a results folder."
    ),
    results: ResultsFolder = RESULTS,
    out: Path | None = Option(None, help="Where to write (default: `report` in the folder)."),
    all_: bool = Option(
        False, "--all", help="Report every study there, and write an index of them."
    ),
    compare: Path | None = Option(
        None, help="Another study with a setup in common: a page of both side by side."
    ),
    json_: bool = Option(False, "--json", help="Print the verdicts as JSON."),
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Analyse a study's results: page, Markdown, tables and figures.

    Every report is noted in the study's ledger, because every report is a look at the data.

    Example: [bold]pacebench report studies/quick.yaml[/bold]
    """
    from pacebench.harness.report import studies
    from pacebench.harness.report.make import report as make_report
    from pacebench.harness.report.terminal import first_screen

    if all_ is (study is not None) or (all_ and (out or compare or json_)):
        raise UserError("name a study to report, or give --all alone for all of them.")
    screen = console()
    if study is None:
        with warnings_as_lines():
            for line in studies.report_all(results):
                screen.print(line, markup=False)
        return
    folder = Chosen(study, values, only, seeds).results(results)
    with warnings_as_lines(), console(stderr=True).status("analysing and drawing …"):
        made = make_report(folder, out)
        other = None if compare is None else make_report(Chosen(compare).results(results))
    view, found = made.view, made.view.analysis
    if json_:
        said = {"verdicts": found.verdicts(), "solved": found.solved_record()}
        say_json({**said, "exploratory": found.exploratory, "page": str(made.page)})
        return
    for part in first_screen(view.study, view.family, exploratory=view.exploratory):
        screen.print(part)
    for reason in found.exploratory:
        screen.print(f"Exploratory: {reason}", markup=False)
    for note in view.notes:
        screen.print(f"Note: {note}", markup=False)
    # Printed without folding, so that it can be clicked or copied.
    if other is not None:
        typer.echo(f"Comparison: {studies.compare(made.folder, other.folder)}")
    typer.echo(f"Report: {made.page}")
