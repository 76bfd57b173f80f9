"""`pacebench anchors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pacebench.envs import PolicyScore


def anchors(
    setup: Annotated[
        str, typer.Argument(help="The setup, 'all', or a study file that declares some.")
    ],
    episodes: Annotated[int, typer.Option(min=2, help="Episodes per policy.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of contexts and episodes.")] = 0,
    write: Annotated[
        bool, typer.Option("--write", help="Record the figures in the setup's anchors.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Measure the scores that normalisation maps to 0 and 1, on the target contexts.

    Example: [bold]pacebench anchors point-mass-2 --episodes 2000[/bold]
    """
    from dataclasses import asdict

    from pacebench import envs
    from pacebench.envs.anchor_files import write_anchors
    from pacebench.envs.anchoring import measure_anchors
    from pacebench.envs.registry import home
    from pacebench.harness.cli.output import console, say_json

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
        plain = {name: asdict(found) for name, found in measured.items()}
        say_json(plain)
        return
    for name, found in measured.items():
        out = console()
        out.print(f"[bold]{name}[/bold] (success: {envs.setup(name).success})")
        for score in (found.baseline, found.reference):
            out.print(f"  {score.policy:9}  {_figures(score)}", highlight=False)
        out.print(f"  ± one standard error over {episodes} episodes, seed {seed}")


def _of_study(path: str, episodes: int, seed: int, *, json_: bool) -> None:
    """Prints what to put into a study file: the random policy's return on each declared setup."""
    import json

    from pacebench.envs.anchoring import baseline_score
    from pacebench.harness.errors import UserError
    from pacebench.harness.study.load import load_study

    declared = load_study(path).declared
    if not declared:
        raise UserError(f"'{path}' declares no setup; give the name of a registered one.")
    found = {entry.name: baseline_score(entry.setup, episodes, seed) for entry in declared}
    if json_:
        plain = {name: score.mean_return for name, score in found.items()}
        typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))
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
