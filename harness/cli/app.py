"""Assembles the commands and turns users' mistakes into sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from pacebench.harness import threads
from pacebench.harness.cli.anchors import anchors
from pacebench.harness.cli.check import check
from pacebench.harness.cli.coverage import coverage
from pacebench.harness.cli.freeze import freeze
from pacebench.harness.cli.list_ import list_
from pacebench.harness.cli.overhead import overhead
from pacebench.harness.cli.pack import pack, unpack
from pacebench.harness.cli.plan import plan
from pacebench.harness.cli.play import play
from pacebench.harness.cli.render import render
from pacebench.harness.cli.report import report
from pacebench.harness.cli.run import run
from pacebench.harness.cli.schema import schema
from pacebench.harness.cli.status import status
from pacebench.harness.cli.tune import tune
from pacebench.harness.cli.verify import verify
from pacebench.harness.cli.version import version
from pacebench.registry import UserMistakeError

# In the order of a study's life.
COMMANDS: tuple[Callable[..., None], ...] = (
    list_,
    check,
    plan,
    freeze,
    run,
    status,
    report,
    pack,
    unpack,
    schema,
    tune,
    render,
    play,
    anchors,
    coverage,
    verify,
    overhead,
    version,
)


class _Group(TyperGroup):
    """Prints each sentence of a user's mistake to standard error and exits with 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserMistakeError as error:
            for sentence in error.sentences:
                typer.echo(f"error: {sentence}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    name="pacebench",
    cls=_Group,
    help="Benchmark curricula for reinforcement learning, with evidence that cannot mislead.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in COMMANDS:
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Runs the command line."""
    threads.use_one()
    # A broken pipe (`pacebench list | head`) is the reader's business, not an error of ours.
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
