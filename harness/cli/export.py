"""`pacebench export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacebench.harness.cli.selectors import Chosen


def export(
    study: Annotated[Path, typer.Argument(help="A study: its file, name or results folder.")],
    to: Annotated[
        str, typer.Option(help="csv, parquet, rliable, marl-eval, tensorboard or mlflow.")
    ] = "csv",
    out: Annotated[
        Path | None, typer.Option(help="Where to write (default: after study and format).")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
) -> None:
    """Write a study's scores for other programs.

    Example: [bold]pacebench export quick --to csv --out quick.csv[/bold]
    """
    from pacebench.harness.errors import UserError
    from pacebench.harness.store.foreign.exports import ENDINGS, FORMATS
    from pacebench.registry import nearest

    if to not in FORMATS:
        raise UserError(f"--to {to}: is no format we know; {nearest(to, list(FORMATS))}")
    from pacebench.harness.analysis.tidy import tidy_scores
    from pacebench.harness.cli.output import warnings_as_lines

    root = Chosen(study).results(results)
    name = root.resolve().stem if root.suffix == ".zip" else root.resolve().name
    path = out or Path(f"{name}{ENDINGS.get(to, f'-{to}')}")
    if path.is_dir() and (to in ENDINGS or any(path.iterdir())):
        raise UserError(f"--out {path}: is a folder with something in it; name another.")
    if path.is_file() and to not in ENDINGS:
        raise UserError(f"--out {path}: is a file, and {to} is written as a folder; name another.")
    with warnings_as_lines():
        table = tidy_scores(root)
    FORMATS[to](table, path, name)
    typer.echo(str(path))
