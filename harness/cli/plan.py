"""`pacebench plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacebench.harness.cli.selectors import Chosen, Only, Seeds, Values

if TYPE_CHECKING:
    from rich.table import Table

    from pacebench.harness.analysis.planning import Forecast


def plan(
    study: Annotated[Path, typer.Argument(help="The study file, or the name of a shipped one.")],
    pilot: Annotated[
        Path | None, typer.Option(help="Results of a pilot, run with another root seed.")
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(help='Returns by label, such as "spgl: 0.95@85±2, default: 0.4@85±2|15±2".'),
    ] = None,
    limit: Annotated[int, typer.Option(min=10, max=2_000, help="Seeds to simulate at most.")] = 500,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Say how many seeds it takes until each question of a study is decided.

    Example: [bold]pacebench plan studies/quick.yaml --pilot results/pilot[/bold]
    """
    from pacebench.harness.analysis.planning import forecast
    from pacebench.harness.cli.output import console, say_json

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
