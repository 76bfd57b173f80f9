"""`pacebench merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Packed studies (or results folders) from other machines."),
    ],
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
) -> None:
    """Bring together the runs of one study that several machines made.

    What does not belong is refused before anything is written: another study, other code, or a
    run that is there already with other bytes.

    Example: [bold]pacebench merge cluster.zip laptop.zip[/bold]
    """
    from pacebench.harness.errors import UserError
    from pacebench.harness.runner.leases import Leases
    from pacebench.harness.store.merge import Merge

    planned = Merge(sources, results)
    if Leases(planned.root).live():
        raise UserError(f"{planned.root}: is being run; merge when it has ended.")
    for line in planned.write():
        typer.echo(line)
