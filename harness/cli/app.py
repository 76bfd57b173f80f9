"""Assembles the commands and turns users' mistakes into sentences."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from pacebench.harness import threads
from pacebench.registry import UserMistakeError

# In the order of a study's life; each is a module here with a function of the same name.
COMMANDS = (
    "list_",
    "check",
    "plan",
    "freeze",
    "run",
    "status",
    "report",
    "schema",
    "tune",
    "render",
    "play",
    "anchors",
    "coverage",
    "verify",
    "overhead",
    "version",
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

for _name in COMMANDS:
    _module = import_module(f"pacebench.harness.cli.{_name}")
    app.command(_name.rstrip("_"))(getattr(_module, _name))


def main() -> None:
    """Runs the command line."""
    threads.use_one()
    # A broken pipe (`pacebench list | head`) is the reader's business, not an error of ours.
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
