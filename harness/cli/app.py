"""Assembles the commands and turns users' mistakes into sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from pacebench.harness import threads
from pacebench.harness.cli.coverage import coverage
from pacebench.harness.cli.exchange import export, merge, pack, unpack
from pacebench.harness.cli.output import fit_streams, say
from pacebench.harness.cli.overhead import overhead
from pacebench.harness.cli.parts import anchors, list_, new
from pacebench.harness.cli.pictures import play, render
from pacebench.harness.cli.report import analyse, report
from pacebench.harness.cli.run import run, status
from pacebench.harness.cli.study_files import check, freeze, plan, schema
from pacebench.harness.cli.tune import tune
from pacebench.harness.cli.verify import verify
from pacebench.registry import UserMistakeError


def version() -> None:
    """Print the version.

    Example: [bold]pacebench version[/bold]
    """
    from importlib.metadata import version as installed

    typer.echo(f"pacebench {installed('pacebench')}")


# In the order of a study's life.
COMMANDS: tuple[Callable[..., None], ...] = (
    *(list_, check, plan, freeze, run, status, report, analyse, export, pack, unpack, merge),
    *(schema, tune, render, play, anchors, coverage, new, verify, overhead, version),
)


class _Group(TyperGroup):
    """Prints each sentence of a user's mistake to standard error and exits with 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserMistakeError as error:
            for sentence in error.sentences:
                say(f"error: {sentence}", err=True)
            raise typer.Exit(2) from None


class _Command(TyperCommand):
    """A command whose help leaves room for sentences on 80 columns: no flags' types, no ranges."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for param in self.params:
            kind = str(getattr(param, "display_type_rich", lambda **_: "")(ctx=ctx) or "")
            short = "" if kind == "<bool>" else kind.replace(" range", "")
            vars(param)["display_type_rich"] = lambda short=short, **_: short
            vars(param)["_get_number_range_help_str"] = lambda: None
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="pacebench",
    cls=_Group,
    help="Benchmark curricula for reinforcement learning, with evidence that cannot mislead.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _options(
    asked: bool = Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    """Has nothing to do before a command."""


for _command in COMMANDS:
    app.command(_command.__name__.rstrip("_"), cls=_Command)(_command)


def main() -> None:
    """Runs the command line."""
    threads.use_one()
    fit_streams()
    # A broken pipe (`pacebench list | head`) is the reader's business, not an error of ours.
    try:
        app(prog_name="pacebench")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
