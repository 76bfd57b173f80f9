"""`pacebench verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import console, say_json, warnings_as_lines
from pacebench.harness.cli.selectors import Json
from pacebench.harness.errors import UserError


def verify(
    name: str | None = Argument(None, help="A curriculum, built in or from a package of yours."),
    setup: str | None = Option(None, help="A setup, instead of a curriculum."),
    learner: str | None = Option(None, help="A learner, instead of a curriculum."),
    examples: int = Option(100, min=1, help="Examples per property; costly properties get fewer."),
    option: list[str] | None = Option(
        None, help="Option of a curriculum or parameter of a learner: name=value."
    ),
    json_: Json = False,
) -> None:
    """Try every promise of a curriculum, setup or learner, and show how it breaks any.

    Exits with 0 if all hold and with 1 if one does not.

    Example: [bold]pacebench verify spgl-shared --examples 500[/bold]
    """
    import tempfile
    from pathlib import Path

    from hypothesis.configuration import set_hypothesis_home_dir

    # Hypothesis keeps a cache in the folder it is called from, which is the user's.
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "pacebench-hypothesis")
    kind, chosen = _subject(name, setup, learner)
    with warnings_as_lines(), console(stderr=True).status(f"verifying {chosen}") as status:

        def progress(asked: str) -> None:
            status.update(f"verifying {chosen}: {asked}")

        options, outcomes = _tried(kind, chosen, option or [], examples, progress)
    broken = [o for o in outcomes if not o.held]
    if json_:
        found = {kind: chosen, "options": options, "held": not broken}
        say_json({**found, "properties": [o.to_dict() for o in outcomes]})
    else:
        for part in _rendered(chosen, outcomes):
            console().print(part)
    raise typer.Exit(1 if broken else 0)


def _subject(name: str | None, setup: str | None, learner: str | None) -> tuple[str, str]:
    given = {"curriculum": name, "setup": setup, "learner": learner}
    found = [(kind, value) for kind, value in given.items() if value is not None]
    if len(found) != 1:
        raise UserError("give one of CURRICULUM, --setup NAME and --learner NAME.")
    return found[0]


def _tried(
    kind: str, name: str, given: list[str], examples: int, progress: Callable[[str], None]
) -> tuple[dict[str, Any], list[Any]]:
    """Returns the options as they were read, and what came of every check."""
    if kind == "setup":
        from pacebench.harness.verify.setups import verify_setup

        if given:
            raise UserError("a setup has no options; leave --option out.")
        return {}, verify_setup(name, progress)
    if kind == "learner":
        from pacebench.harness import learners
        from pacebench.harness.verify.learners import verify_learner

        options = _options(name, given, list(learners.get(name).Params.model_fields))
        return options, verify_learner(name, options, progress)
    import pacebench.harness.verify as suite
    from pacebench import curricula

    options = _options(name, given, list(curricula.get(name).options()))
    return options, suite.verify(name, examples=examples, options=options, progress=progress)


def _options(name: str, given: list[str], known: list[str]) -> dict[str, Any]:
    """Reads name=value pairs and checks them against what is accepted."""
    from pacebench.harness.study.yaml_nodes import parse_document

    options: dict[str, Any] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or key not in known:
            raise UserError(
                f"--option {pair!r} is not name=value with an option of {name!r}; "
                f"its options: {', '.join(known) or 'none'}."
            )
        options[key] = parse_document(text or "null", f"--option {key}").data
    return options


def _rendered(name: str, outcomes: list[Any]) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"What {name} promises", title_justify="left", box=None)
    for column in ("property", "promise", "examples", "verdict"):
        table.add_column(column, justify="right" if column == "examples" else "left")
    for o in outcomes:
        verdict = Text("held", "green") if o.held else Text("violated", "bold red")
        table.add_row(Text(o.property), Text(o.doc), str(o.examples), verdict)
    parts: list[Any] = [table]
    for o in (o for o in outcomes if not o.held):
        note = Text(f"\n{o.property}: ", "bold")
        note.append(o.message, "default")
        if o.counterexample:
            note.append(f"\n  smallest counterexample: {o.counterexample}", "default")
        parts.append(note)
    return parts
