"""`pacebench list`."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def list_(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List curricula, setups and learners, ours and those of installed packages.

    Example: [bold]pacebench list --json[/bold]
    """
    import json

    from harness.cli.output import console, warnings_as_lines

    with warnings_as_lines():
        found = _inventory()
    if json_:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    for kind, entries in found.items():
        table = Table(title=kind.capitalize(), title_justify="left", title_style="bold", box=None)
        for column in ("name", "what it is", "options", "from"):
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for entry in entries:
            options = ", ".join(f"{k}={v}" for k, v in entry.get("options", {}).items())
            table.add_row(entry["name"], entry["doc"], options, entry["origin"])
        console().print(table)
        console().print()


def _inventory() -> dict[str, list[dict[str, Any]]]:
    import curricula
    import envs
    from harness import learners

    return {
        "curricula": [
            {
                "name": name,
                "doc": _summary(curricula.get(name)),
                "options": {k: o.default for k, o in curricula.get(name).options().items()},
                "origin": curricula.origin(name),
            }
            for name in curricula.names()
        ],
        "setups": [
            {
                "name": name,
                "doc": envs.setup(name).doc,
                "visible": envs.setup(name).visible,
                "threshold": envs.setup(name).threshold,
                "origin": envs.origin(name),
            }
            for name in envs.names()
        ],
        "learners": [
            {
                "name": name,
                "doc": learners.get(name).doc,
                "origin": learners.origin(name),
            }
            for name in learners.names()
        ],
    }


def _summary(kind: type) -> str:
    """Returns the first paragraph of a docstring on one line."""
    return " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
