"""`pacebench schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def schema(
    out: Annotated[
        Path | None, typer.Option(help="File to write; standard output if none.")
    ] = None,
) -> None:
    """Print the JSON Schema of study files, for editors that complete and check YAML.

    Example: [bold]pacebench schema --out docs/study.schema.json[/bold]
    """
    from pacebench.harness.study.schema import schema_text

    text = schema_text()
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)
