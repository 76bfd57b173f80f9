"""`pacebench plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from pacebench.harness.analysis.planning import Forecast


def plan(
    study: Annotated[Path, typer.Argument(help="The study file, or the name of a shipped one.")],
    pilot: Annotated[
        Path | None, typer.Option(help="Results folder of a pilot, run with another root seed.")
    ] = None,
    power: Annotated[float, typer.Option(min=0.05, max=0.99, help="Wanted power.")] = 0.8,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Say how many seeds a study needs, and what it can detect with those it has.

    Example: [bold]pacebench plan studies/quick.yaml --pilot results/pilot[/bold]
    """
    import json

    from pacebench.harness.analysis.planning import forecast
    from pacebench.harness.cli.output import console
    from pacebench.harness.study.load import load_study

    found = forecast(load_study(study), pilot, power)
    if json_:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    out = console()
    several = "s" if found.family > 1 else ""
    out.print(
        f"{found.study}: {found.planned} runs per cell, smallest effect {found.effect:g} of "
        f"normalised score, {found.family} comparison{several}, power {found.power:.0%}.",
        markup=False,
    )
    if found.scopes is None:
        out.print(_spreads(found))
        out.print(
            "The spread between seeds is not known before a study is run; give a pilot with "
            "--pilot.",
            markup=False,
        )
    else:
        for scope, said in found.scopes.items():
            where = "all setups" if scope == "suite" else scope
            for sentence in said.sentences():
                out.print(f"{where}: {sentence}", markup=False)
    for sentence in found.notes():
        out.print(sentence, markup=False)


def _spreads(found: Forecast) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("if the seeds' standard deviation is", justify="right")
    table.add_column(f"runs per cell to find {found.effect:g}", justify="right")
    table.add_column(f"detectable with {found.planned}", justify="right")
    for row in found.spreads:
        needed = "more than 500" if row.runs is None else str(row.runs)
        table.add_row(f"{row.spread:g}", needed, f"{row.detectable:.3g}")
    return table
