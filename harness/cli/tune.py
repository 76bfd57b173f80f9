"""`pacebench tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import console
from pacebench.harness.cli.selectors import RESULTS, ResultsFolder
from pacebench.harness.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from pacebench.harness.tuning.launch import SearchProgress
    from pacebench.harness.tuning.record import TuningRecord


def tune(
    context: typer.Context,
    study: Path = Argument(help="A study file with a tuning block."),
    storage: str | None = Option(
        None,
        envvar="PACEBENCH_STORAGE",
        help="An Optuna storage URL, such as postgresql://user@host/name; one with a password "
        "belongs into the environment variable.",
    ),
    workers: int | None = Option(None, min=1, help="Searches at a time (default: all cores)."),
    results: ResultsFolder = RESULTS,
    executor: str = Option("local", help="Where training runs: local, ray or slurm."),
    address: str | None = Option(None, help="An existing Ray cluster."),
    retry_failed: bool = Option(
        False, "--retry-failed", help="Give runs that the machine failed a fresh start."
    ),
) -> None:
    """Search ε, V₋ and the like for each method with the same budget, and write a tuned study.

    The same command resumes. Example: [bold]pacebench tune studies/tuned.yaml[/bold]
    """
    from contextlib import nullcontext

    from rich.live import Live

    from pacebench.harness.runner.launch import RunOptions
    from pacebench.harness.study.load import load_study
    from pacebench.harness.tuning.launch import tune as tune_study
    from pacebench.harness.tuning.trials import StoppedError

    if storage is not None and "ENV" not in str(context.get_parameter_source("storage")):
        _refuse_password(storage)
    err = console(stderr=True)
    options = RunOptions(
        executor=executor, workers=workers, address=address, retry_failed=retry_failed
    )
    printed: set[tuple[str, int]] = set()

    def lines(progress: list[SearchProgress]) -> None:
        for part in progress:
            key = (part.search.name, part.done)
            if part.done and key not in printed:
                printed.add(key)
                best = "" if part.best is None else f", best {part.best:.3f}"
                planned = part.search.tuning.trials
                err.print(f"{part.search.name}: {part.done} of {planned} trials{best}")

    loaded = load_study(study)
    live = Live(console=err, refresh_per_second=2) if err.is_terminal else None
    try:
        with live or nullcontext():
            summary = tune_study(
                loaded,
                study,
                results=results,
                storage=storage,
                options=options,
                tell=lambda progress: live.update(_table(progress)) if live else lines(progress),
            )
    except StoppedError:
        again = "" if storage is None else " and the same --storage"
        typer.echo(f"Resume with: pacebench tune {study}{again}")
        raise typer.Exit(130) from None
    console().print(_choices(summary.record))
    typer.echo(f"Record: {summary.record_file}")
    typer.echo(f"Tuned study: {summary.study_file} (run it with pacebench run)")


def _refuse_password(storage: str) -> None:
    from pacebench.harness.tuning.storage import parse_url, secrets_of

    if secrets_of(parse_url(storage)):
        raise UserError(
            "--storage: everybody on this machine can read a password on the command line; put the "
            "URL into the environment variable PACEBENCH_STORAGE, or the password into ~/.pgpass."
        )


def _table(progress: list[SearchProgress]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("search", "trials", "best", ""):
        table.add_column(column)
    for part in progress:
        planned = part.search.tuning.trials
        state = "done" if part.concluded else "re-ranking" if part.done >= planned else ""
        best = "–" if part.best is None else f"{part.best:.3f}"
        table.add_row(Text(part.search.name), f"{part.done}/{planned}", best, state)
    return table


def _choices(record: TuningRecord) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("method", "setup", "search", "chosen", "gain", "optimism", "flags"):
        table.add_column(column)
    for search in record.searches:
        point = ", ".join(
            f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in search.point.items()
        )
        flags = ", ".join(f"{name} at its boundary" for name in search.boundary)
        table.add_row(
            Text(search.method),
            search.setup,
            str(search.replicate + 1),
            point or "the study's own",
            f"{search.gain:+.3f}",
            f"{search.optimism:+.3f}",
            flags,
        )
    return table
