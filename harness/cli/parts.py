"""`pacebench list`, `new` and `anchors`: curricula, setups and learners."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import console, say_json, warnings_as_lines
from pacebench.harness.cli.selectors import Json
from pacebench.harness.errors import UserError

if TYPE_CHECKING:
    from pacebench.envs import PolicyScore


def list_(json_: Json = False) -> None:
    """List curricula, setups and learners, ours and those of installed packages.

    Example: [bold]pacebench list --json[/bold]
    """
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


class Part(StrEnum):
    """What can be begun."""

    CURRICULUM = "curriculum"
    SETUP = "setup"
    LEARNER = "learner"
    STUDY = "study"


def new(
    part: Part = Argument(help="What to begin."),
    name: str = Argument(help="What it is called, as in my-curriculum."),
    folder: Path | None = Option(
        None, help="Where to put it (default: a folder of that name here)."
    ),
) -> None:
    """Begin a curriculum, setup, learner or study of your own: working code, a test and a study.

    Example: [bold]pacebench new setup my-pendulum && pip install -e my-pendulum[/bold]
    """
    from pacebench.harness.cli.templates import write_package

    made = write_package(str(part), name, folder or Path(name))
    for path in made:
        typer.echo(path)
    if part is not Part.STUDY:
        flag = "" if part is Part.CURRICULUM else f"--{part} "
        typer.echo(f"Next: pip install -e {folder or name} && pacebench verify {flag}{name}")
    else:
        typer.echo(f"Next: pacebench check {made[0]}")


def anchors(
    setup: str = Argument(help="The setup, 'all', or a study file that declares some."),
    episodes: int = Option(2000, min=2, help="Episodes per policy."),
    seed: int = Option(0, min=0, help="Seed of contexts and episodes."),
    write: bool = Option(False, "--write", help="Record the figures in the setup's anchors."),
    json_: Json = False,
) -> None:
    """Measure the scores that normalisation maps to 0 and 1, on the target contexts.

    Example: [bold]pacebench anchors point-mass-2 --episodes 2000[/bold]
    """
    from dataclasses import asdict

    from pacebench import envs
    from pacebench.envs.anchor_files import write_anchors
    from pacebench.envs.anchoring import measure_anchors
    from pacebench.envs.registry import home

    if setup.endswith((".yaml", ".yml")):
        _of_study(setup, episodes, seed, json_=json_)
        return
    names = envs.names() if setup == "all" else [envs.setup(setup).name]
    measured = {}
    for name in names:
        command = f"pacebench anchors {name} --episodes {episodes} --seed {seed} --write"
        with console(stderr=True).status(f"{name}: {episodes} episodes of each policy …"):
            measured[name] = measure_anchors(name, episodes, seed, command)
        if write:
            kept = write_anchors(envs.setup(name), measured[name], home(name))
            console(stderr=True).print(f"{name}: written to {kept}", soft_wrap=True)
    if json_:
        say_json({name: asdict(found) for name, found in measured.items()})
        return
    for name, found in measured.items():
        out = console()
        out.print(f"[bold]{name}[/bold] (success: {envs.setup(name).success})")
        for score in (found.baseline, found.reference):
            out.print(f"  {score.policy:9}  {_figures(score)}", highlight=False)
        out.print(f"  ± one standard error over {episodes} episodes, seed {seed}")


def _of_study(path: str, episodes: int, seed: int, *, json_: bool) -> None:
    """Prints what to put into a study file: the random policy's return on each declared setup."""
    from pacebench.envs.anchoring import baseline_score
    from pacebench.harness.study.load import load_study

    declared = load_study(path).declared
    if not declared:
        raise UserError(f"'{path}' declares no setup; give the name of a registered one.")
    found = {entry.name: baseline_score(entry.setup, episodes, seed) for entry in declared}
    if json_:
        say_json({name: score.mean_return for name, score in found.items()})
        return
    for name, score in found.items():
        typer.echo(f"{name}: {score.policy} {_figures(score)}")
        typer.echo(
            f"  anchors: {{random: {score.mean_return:.6g}, reference: RETURN OF A GOOD ONE}}"
        )


def _figures(score: PolicyScore) -> str:
    parts = (
        ("return", score.mean_return, score.return_se, 1, ".2f"),
        ("discounted", score.discounted_return, score.discounted_return_se, 1, ".3f"),
        ("success %", score.success_rate, score.success_rate_se, 100, ".1f"),
    )
    return "   ".join(
        f"{name} {scale * value:{form}}" + ("" if error is None else f" ± {scale * error:{form}}")
        for name, value, error, scale, form in parts
        if value is not None
    )
