"""`pacebench check`, `plan`, `freeze` and `schema`: a study before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Option

from pacebench.harness.cli.output import console, say, say_json
from pacebench.harness.cli.selectors import (
    RESULTS,
    Chosen,
    Json,
    Only,
    ResultsFolder,
    Seeds,
    StudyFile,
    Values,
)

if TYPE_CHECKING:
    from rich.table import Table

    from pacebench.harness.analysis.planning import Forecast


def check(
    study: StudyFile,
    json_: Json = False,
    estimate: bool = Option(True, help="Time a few seconds of training for the estimate."),
    workers: int | None = Option(None, min=1, help="Processes to plan for (default: all cores)."),
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Validate a study and show what it will run, how long, and what it can detect.

    Example: [bold]pacebench check studies/quick.yaml[/bold]
    """
    from pacebench.harness.analysis.summary import summarise

    loaded = Chosen(study, values, only, seeds).load()
    summary = summarise(loaded, estimate=estimate, workers=workers)
    if json_:
        say_json(summary.to_dict())
        return
    for part in summary.rendered():
        console().print(part)


def plan(
    study: StudyFile,
    pilot: Path | None = Option(None, help="Results of a pilot, run with another root seed."),
    assume: str | None = Option(
        None, help='Returns by label, such as "spgl: 0.95@85±2, default: 0.4@85±2|15±2".'
    ),
    limit: int = Option(500, min=10, max=2_000, help="Seeds to simulate at most."),
    json_: Json = False,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Say how many seeds it takes until each question of a study is decided.

    Example: [bold]pacebench plan studies/quick.yaml --pilot results/pilot[/bold]
    """
    from pacebench.harness.analysis.planning import forecast

    found = forecast(Chosen(study, values, only, seeds).load(), pilot, assume, limit)
    if json_:
        say_json([item.to_dict() for item in found])
        return
    out = console()
    out.print(_table(found, limit))
    if any(item.failures for item in found):
        out.print(
            "A pilot cannot show a failure that it did not see: each question is simulated once "
            "more with one failure in n + 1 runs mixed into arms that showed none.",
            markup=False,
        )


def _table(found: list[Forecast], limit: int) -> Table:
    from rich.table import Table

    def seeds(value: int | None) -> str:
        return f"> {limit}" if value is None else str(value)

    table = Table(box=None, pad_edge=False)
    table.add_column("question")
    for name in ("α", "median", "80 %", "95 %", "decided", "mostly", "CPU-hours"):
        table.add_column(name, justify="right")
    for item in found:
        mixed = ", failures mixed in" if item.failures else ""
        likely = max(item.verdicts, key=lambda name: item.verdicts[name])
        table.add_row(
            f"{item.a} − {item.b} on {item.setup}, {item.estimand}{mixed}",
            f"{item.alpha:.2g}",
            *(seeds(value) for value in (item.median, item.most, item.nearly_all)),
            f"{item.decided:.0%}",
            likely if item.decided else "–",
            "–" if item.cpu_hours is None else f"{item.cpu_hours:.1f}",
        )
    return table


def freeze(
    study: StudyFile,
    amend: str | None = Option(
        None, help="Why the plan is changed; the report lists it as a deviation."
    ),
    results: ResultsFolder = RESULTS,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Freeze a study's plan before it runs: questions, levels, effect, ranges, seeds, anchors.

    A frozen study that has changed is refused by `run` until the change is declared.

    Example: [bold]pacebench freeze studies/quick.yaml[/bold]
    """
    from pacebench.harness.analysis.freeze import NAME
    from pacebench.harness.analysis.freeze import freeze as freeze_study

    loaded = Chosen(study, values, only, seeds).load()
    folder = results / loaded.name
    frozen = freeze_study(loaded, folder, amend=amend)
    last = frozen.versions[-1]
    say(f"Frozen on {last.time}, SHA-256 {frozen.digest}.")
    for amendment in frozen.amendments:
        changes = len(amendment.changes)
        say(
            f"Deviation of {amendment.time}: {amendment.reason} ({changes} "
            f"value{'s' if changes != 1 else ''}, {amendment.finished} runs finished by then)."
        )
    if frozen.broken:
        say(
            f"The report will be exploratory: {frozen.broken}. Another seeds.root makes runs that "
            "nobody has seen."
        )
    say(f"Plan: {folder / NAME}")


def schema(out: Path | None = Option(None, help="File to write; standard output if none.")) -> None:
    """Print the JSON Schema of study files, for editors that complete and check YAML.

    Example: [bold]pacebench schema --out docs/study.schema.json[/bold]
    """
    from pacebench.harness.study.schema import schema_text

    text = schema_text()
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)
