"""`pacebench new`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Part(StrEnum):
    """What can be begun."""

    CURRICULUM = "curriculum"
    SETUP = "setup"
    LEARNER = "learner"
    STUDY = "study"


def new(
    part: Annotated[Part, typer.Argument(help="What to begin.")],
    name: Annotated[str, typer.Argument(help="What it is called, as in my-curriculum.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to put it (default: a folder of that name here).")
    ] = None,
) -> None:
    """Begin a curriculum, setup, learner or study of your own: working code, a test and a study.

    Example: [bold]pacebench new setup my-pendulum && pip install -e my-pendulum[/bold]
    """
    from pacebench.harness.cli.templates import write_package

    made = write_package(str(part), name, folder or Path(name))
    for path in made:
        typer.echo(path)
    if part is not Part.STUDY:
        flag = "" if part is Part.CURRICULUM else f"--{part} "
        typer.echo(f"Next: pip install -e {folder or name} && pacebench verify {flag}{name}")
    else:
        typer.echo(f"Next: pacebench check {made[0]}")
