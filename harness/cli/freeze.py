"""`pacebench freeze`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacebench.harness.cli.selectors import Chosen, Only, Seeds, Values


def freeze(
    study: Annotated[Path, typer.Argument(help="The study file, or the name of a shipped one.")],
    amend: Annotated[
        str | None,
        typer.Option(help="Why the plan is changed; the report lists it as a deviation."),
    ] = None,
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
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
    from pacebench.harness.cli.output import say

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
