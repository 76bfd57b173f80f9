"""`pacebench pack` and `pacebench unpack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacebench.harness.cli.selectors import Chosen

_RESULTS = Annotated[Path, typer.Option(help="Where results are kept.")]


def pack(
    study: Annotated[Path, typer.Argument(help="A study: its file, name or results folder.")],
    results: _RESULTS = Path("results"),
    out: Annotated[
        Path | None, typer.Option(help="Write a copy there and leave the folder as it is.")
    ] = None,
    policies: Annotated[
        bool, typer.Option("--policies/--no-policies", help="Keep the final policies.")
    ] = True,
) -> None:
    """Pack the plan, ledger and runs of a study into one file.

    `run`, `status` and `report` read a packed study as it is.

    Example: [bold]pacebench pack studies/quick.yaml[/bold]
    """
    from pacebench.harness.errors import UserError
    from pacebench.harness.runner.leases import Leases
    from pacebench.harness.store.pack import pack as pack_study

    root = Chosen(study).results(results)
    if Leases(root).live():
        raise UserError(f"{root}: is being run; pack it when it has ended.")
    path = pack_study(root, out, policies=policies)
    typer.echo(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def unpack(
    study: Annotated[Path, typer.Argument(help="A packed study, or the folder it is in.")],
    results: _RESULTS = Path("results"),
) -> None:
    """Write the files of a packed study loose again.

    Example: [bold]pacebench unpack results/quick[/bold]
    """
    from pacebench.harness.store.pack import unpack as unpack_study

    typer.echo(str(unpack_study(Chosen(study).results(results), results)))
