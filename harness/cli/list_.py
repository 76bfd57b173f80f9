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
    from pacebench.harness.cli.output import console, say_json, warnings_as_lines

    with warnings_as_lines():
        found = _inventory()
    if json_:
        say_json(found)
        return
    from rich.table import Table
    from rich.text import Text

    for kind, entries in found.items():
        # Whatever else an entry has, such as options, gets a column of its own.
        extra = [key for key in entries[0] if key not in ("name", "doc", "origin")]
        table = Table(title=kind.capitalize(), title_justify="left", title_style="bold", box=None)
        for column in ("name", "what it is", *extra, "from"):
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for entry in entries:
            cells = (entry["name"], entry["doc"], *(_shown(entry[key]) for key in extra))
            table.add_row(*map(Text, (*cells, entry["origin"])))
        console().print(table)
        console().print()


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _inventory() -> dict[str, list[dict[str, Any]]]:
    from pacebench import curricula, envs
    from pacebench.harness import learners

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
                "V₋": envs.setup(name).threshold,
                "visible": envs.setup(name).visible,
                "measured": envs.setup(name).anchors is not None,
                "origin": envs.origin(name),
            }
            for name in envs.names()
        ],
        "learners": [
            {
                "name": name,
                "doc": learners.get(name).doc,
                "seeds at once": learners.get(name).capabilities.batched_seeds,
                "origin": learners.origin(name),
            }
            for name in learners.names()
        ],
    }


def _summary(kind: type) -> str:
    """Returns the first paragraph of a docstring on one line."""
    return " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
