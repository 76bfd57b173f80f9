"""`pacebench report` and `analyse`: results of ours, and scores of others."""

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
    first = first_screen(view.study, view.family, exploratory=view.exploratory, unit=view.unit)
    for part in first:
        screen.print(part)
    for reason in found.exploratory:
        screen.print(f"Exploratory: {reason}", markup=False)
    for note in view.notes:
        screen.print(f"Note: {note}", markup=False)
    # Printed without folding, so that it can be clicked or copied.
    if other is not None:
        typer.echo(f"Comparison: {studies.compare(made.folder, other.folder)}")
    typer.echo(f"Report: {made.page}")


def analyse(
    sources: list[str] = Argument(
        help="Scores: .csv, .tsv, .parquet, .json, .npz; folders METHOD/TASK/SEED; or METHOD=LOG.",
        metavar="SCORES...",
    ),
    bounds: tuple[float, float] | None = Option(
        None, "--range", help="Lowest and highest score that is possible.", metavar="LOW HIGH"
    ),
    task_range: list[str] | None = Option(
        None, help="The same for one task: TASK=LOW,HIGH.", metavar="TASK=LOW,HIGH"
    ),
    normalised: bool = Option(
        False, "--normalised", help="Scores are on one scale: 0 baseline, 1 reference."
    ),
    suite: bool = Option(
        False, "--suite", help="Ask about the mean over tasks, not about each one."
    ),
    control: str | None = Option(None, help="The method to compare with (default: the first)."),
    compare: list[str] | None = Option(None, help="Compare these two only: A,B.", metavar="A,B"),
    smallest_effect: float = Option(
        0.05, help="Smallest effect of interest, as a share of the range."
    ),
    alpha: float = Option(0.05, help="Probability that any of the verdicts is wrong."),
    step: int | None = Option(None, min=1, help="Leave out what came later."),
    metric: str | None = Option(None, help="Metric of marl-eval, or tag of event files."),
    last: int | None = Option(
        None, min=1, help="Episodes of monitor.csv to average (default: 100)."
    ),
    name: str | None = Option(None, help="What the report is called."),
    out: Path | None = Option(
        None, help="Where to write (default: NAME-report, none with --json)."
    ),
    json_: bool = Option(False, "--json", help="Print the verdicts as JSON."),
) -> None:
    """Analyse scores that were not made here: the same intervals, verdicts and page.

    A table has the columns method, task, seed and score, and may have step and success.

    Example: [bold]pacebench analyse scores.csv --range 0 1[/bold]
    """
    from pacebench.harness.analysis.foreign import ForeignQuestions, foreign_study
    from pacebench.harness.store.foreign.sources import read_scores

    asked = ForeignQuestions(
        name=name,
        bounds=bounds,
        task_bounds=dict(_task_range(text) for text in task_range or ()),
        normalised=normalised,
        suite=suite,
        control=control,
        pairs=[_pair(text) for text in compare or ()],
        smallest_effect=smallest_effect,
        alpha=alpha,
        until=step,
    )
    with warnings_as_lines(), console(stderr=True).status("analysing and drawing …"):
        made = foreign_study(read_scores(sources, metric=metric, last=last), asked)
        if json_:
            verdicts = made.verdicts()
        if out is not None or not json_:
            from pacebench.harness.report.foreign import report_foreign

            folder = out or Path(f"{made.study.name}-report")
            written = report_foreign(made, folder)
    if json_:
        say_json(verdicts)
        return
    from pacebench.harness.report.terminal import first_screen

    screen = console()
    for part in first_screen(made.study, written.view.family, exploratory=True):
        screen.print(part)
    for note in (*written.view.analysis.exploratory, *made.notes):
        screen.print(f"Note: {note}", markup=False)
    typer.echo(f"Report: {written.page}")


def _task_range(text: str) -> tuple[str, tuple[float, float]]:
    task, _, ends = text.rpartition("=")
    try:
        low, high = (float(end) for end in ends.split(","))
    except ValueError:
        task = ""
    if not task:
        raise UserError(f"--task-range {text}: give TASK=LOW,HIGH, such as hopper=0,3500.")
    return task, (low, high)


def _pair(text: str) -> tuple[str, str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UserError(f"--compare {text}: give two methods with a comma between them.")
    return names[0], names[1]
