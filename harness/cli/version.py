"""`pacebench version`."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version.

    Example: [bold]pacebench version[/bold]
    """
    from importlib.metadata import version as installed

    typer.echo(f"pacebench {installed('pacebench')}")
