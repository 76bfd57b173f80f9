"""`pacebench check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacebench.harness.cli.selectors import Chosen, Only, Seeds, Values


def check(
    study: Annotated[Path, typer.Argument(help="The study file, or the name of a shipped one.")],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    estimate: Annotated[
        bool, typer.Option(help="Time a few seconds of training for the estimate.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes to plan for (default: all cores).")
    ] = None,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Validate a study and show what it will run, how long, and what it can detect.

    Example: [bold]pacebench check studies/quick.yaml[/bold]
    """
    from pacebench.harness.analysis.summary import summarise
    from pacebench.harness.cli.output import console, say_json

    loaded = Chosen(study, values, only, seeds).load()
    summary = summarise(loaded, estimate=estimate, workers=workers)
    if json_:
        say_json(summary.to_dict())
        return
    for part in summary.rendered():
        console().print(part)
