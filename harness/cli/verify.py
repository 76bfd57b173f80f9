"""`pacebench verify`."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def verify(
    name: Annotated[str, typer.Argument(help="A curriculum, built in or from a package of yours.")],
    examples: Annotated[
        int, typer.Option(min=1, help="Examples per property; costly properties get fewer.")
    ] = 100,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the curriculum, as name=value.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Try every promise a curriculum makes, and show the smallest counterexample to any it breaks.

    Exits with 0 if all hold and with 1 if one does not.

    Example: [bold]pacebench verify spgl-shared --examples 500[/bold]
    """
    import tempfile
    from pathlib import Path

    from hypothesis.configuration import set_hypothesis_home_dir

    from pacebench.harness.cli.output import console, say_json, warnings_as_lines

    # Hypothesis keeps a cache in the folder it is called from, which is the user's.
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "pacebench-hypothesis")
    with warnings_as_lines():
        import pacebench.harness.verify as suite

        options = _options(name, option or [])
        with console(stderr=True).status(f"verifying {name}") as status:
            outcomes = suite.verify(
                name,
                examples=examples,
                options=options,
                progress=lambda property_: status.update(f"verifying {name}: {property_}"),
            )
    broken = [o for o in outcomes if not o.held]
    if json_:
        found = {
            "curriculum": name,
            "options": options,
            "held": not broken,
            "properties": [o.to_dict() for o in outcomes],
        }
        say_json(found)
    else:
        for part in _rendered(name, outcomes):
            console().print(part)
    raise typer.Exit(1 if broken else 0)


def _options(name: str, given: list[str]) -> dict[str, Any]:
    """Reads name=value pairs and checks them against what the curriculum accepts."""
    from pacebench import curricula
    from pacebench.harness.errors import UserError
    from pacebench.harness.study.yaml_nodes import parse_document

    known = curricula.get(name).options()
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
        note.append(f"\n  smallest counterexample: {o.counterexample}", "default")
        parts.append(note)
    return parts
