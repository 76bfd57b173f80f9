"""`pacebench export`, `pack`, `unpack` and `merge`: results that leave and come."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import warnings_as_lines
from pacebench.harness.cli.selectors import RESULTS, Chosen, ResultsFolder, StudyOrResults
from pacebench.harness.errors import UserError


def export(
    study: StudyOrResults,
    to: str = Option("csv", help="csv, parquet, rliable, marl-eval, tensorboard or mlflow."),
    out: Path | None = Option(None, help="Where to write (default: after study and format)."),
    results: ResultsFolder = RESULTS,
) -> None:
    """Write a study's scores for other programs.

    Example: [bold]pacebench export quick --to csv --out quick.csv[/bold]
    """
    from pacebench.harness.analysis.tidy import tidy_scores
    from pacebench.harness.store.foreign.exports import ENDINGS, FORMATS
    from pacebench.registry import nearest

    if to not in FORMATS:
        raise UserError(f"--to {to}: is no format we know; {nearest(to, list(FORMATS))}")
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


def pack(
    study: StudyOrResults,
    results: ResultsFolder = RESULTS,
    out: Path | None = Option(None, help="Write a copy there and leave the folder as it is."),
    light: bool = Option(False, "--light", help="Leave out what no statistic needs."),
    beside: list[str] = Option(
        [], help="A study next to this one, to which runs that it has, too, are left; repeatable."
    ),
) -> None:
    """Pack the plan, ledger and runs of a study into one file.

    `run`, `status` and `report` read a packed study as it is. With `--beside` they need the other
    study in the same results folder.

    Example: [bold]pacebench pack studies/quick.yaml[/bold]
    """
    from pacebench.harness.runner.leases import Leases
    from pacebench.harness.store.pack import pack as pack_study

    root = Chosen(study).results(results)
    if Leases(root).live():
        raise UserError(f"{root}: is being run; pack it when it has ended.")
    path = pack_study(root, out, light=light, beside=beside)
    typer.echo(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def unpack(
    study: Path = Argument(help="A packed study, or the folder it is in."),
    results: ResultsFolder = RESULTS,
) -> None:
    """Write the files of a packed study loose again.

    Example: [bold]pacebench unpack results/quick[/bold]
    """
    from pacebench.harness.store.pack import unpack as unpack_study

    typer.echo(str(unpack_study(Chosen(study).results(results), results)))


def merge(
    sources: list[Path] = Argument(help="Packed studies (or results folders) from other machines."),
    results: ResultsFolder = RESULTS,
) -> None:
    """Bring together the runs of one study that several machines made.

    What does not belong is refused before anything is written: another study, other code, or a
    run that is there already with other bytes.

    Example: [bold]pacebench merge cluster.zip laptop.zip[/bold]
    """
    from pacebench.harness.runner.leases import Leases
    from pacebench.harness.store.merge import Merge

    planned = Merge(sources, results)
    if Leases(planned.root).live():
        raise UserError(f"{planned.root}: is being run; merge when it has ended.")
    for line in planned.write():
        typer.echo(line)
