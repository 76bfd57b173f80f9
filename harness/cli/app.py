"""Assembles the commands and turns users' mistakes into sentences."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from pacebench.harness import threads
from pacebench.harness.errors import UserError

# Name of the command, module and function, in the order of a study's life.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("list", "pacebench.harness.cli.list_", "list_"),
    ("check", "pacebench.harness.cli.check", "check"),
    ("plan", "pacebench.harness.cli.plan", "plan"),
    ("freeze", "pacebench.harness.cli.freeze", "freeze"),
    ("run", "pacebench.harness.cli.run", "run"),
    ("status", "pacebench.harness.cli.status", "status"),
    ("report", "pacebench.harness.cli.report", "report"),
    ("pack", "pacebench.harness.cli.pack", "pack"),
    ("unpack", "pacebench.harness.cli.pack", "unpack"),
    ("schema", "pacebench.harness.cli.schema", "schema"),
    ("tune", "pacebench.harness.cli.tune", "tune"),
    ("render", "pacebench.harness.cli.render", "render"),
    ("play", "pacebench.harness.cli.play", "play"),
    ("anchors", "pacebench.harness.cli.anchors", "anchors"),
    ("coverage", "pacebench.harness.cli.coverage", "coverage"),
    ("verify", "pacebench.harness.cli.verify", "verify"),
    ("overhead", "pacebench.harness.cli.overhead", "overhead"),
    ("version", "pacebench.harness.cli.version", "version"),
)

# What curricula and envs raise for bad input; they know nothing of UserError.
_USER_MISTAKES = ("CurriculumError", "SetupError", "UnknownNameError")


class _Group(TyperGroup):
    """Prints each sentence of a user's mistake to standard error and exits with 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            sentences = list(error.sentences)
        except (ValueError, LookupError) as error:
            if type(error).__name__ not in _USER_MISTAKES:
                raise
            sentences = [str(error)]
        for sentence in sentences:
            typer.echo(f"error: {sentence}", err=True)
        raise typer.Exit(2)


app = typer.Typer(
    name="pacebench",
    cls=_Group,
    help="Benchmark curricula for reinforcement learning, with evidence that cannot mislead.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _name, _module, _function in COMMANDS:
    app.command(_name)(getattr(import_module(_module), _function))


def main() -> None:
    """Runs the command line."""
    threads.use_one()
    # A broken pipe (`pacebench list | head`) is the reader's business, not an error of ours.
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
