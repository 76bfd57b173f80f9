"""`pacebench coverage`."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pacebench.harness.cli.output import console
from pacebench.harness.errors import UserError


def coverage(
    output: Path | None = Option(
        None, help="Where to write the table; the one the reports use unless given."
    ),
    group: list[str] | None = Option(
        None, help="Only these intervals; the other rows stay as they are."
    ),
    check: bool = Option(
        False, "--check", help="Write nothing; compare with the table that is there."
    ),
) -> None:
    """Simulate how often each kind of interval holds the truth, and write the table.

    Every interval in a report prints the figure of its nearest cell. The whole table takes some
    minutes; the same version gives the same figures.

    Example: [bold]pacebench coverage --check --group t[/bold]
    """
    from rich.progress import track

    from pacebench.harness.statistics import coverage_table, simulation
    from pacebench.registry import UnknownNameError

    path = output or Path(simulation.__file__).with_name("coverage.json")
    chosen = tuple(group or simulation.GROUPS)
    for name in chosen:
        if name not in simulation.GROUPS:
            raise UnknownNameError("group of intervals", name, simulation.GROUPS)
    cells = [cell for cell in simulation.cells() if cell.group in chosen]
    messages = console(stderr=True)
    fresh = [
        (cell, simulation.simulate(cell))
        for cell in track(cells, "Simulating", console=messages, disable=not messages.is_terminal)
    ]
    shipped = coverage_table.read(path) if path.exists() else {}
    if check:
        wrong = coverage_table.differences(shipped, fresh)
        if wrong:
            raise UserError(*wrong, f"Run `pacebench coverage` to bring {path.name} up to date.")
        console().print(f"{path.name} agrees with the simulations of {len(cells)} cells.")
        return
    coverage_table.write(path, {**shipped, **dict(fresh)})
    console().print(f"Wrote {path} with {len(cells)} simulated cells.")
