"""`pacebench anchors`."""

from __future__ import annotations

from typing import Annotated

import typer


def anchors(
    setup: Annotated[str, typer.Argument(help="The setup, or 'all'.")],
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
    from pacebench.envs.anchoring import measure_anchors, write_anchors
    from pacebench.harness.cli.output import console, say_json

    names = envs.names() if setup == "all" else [envs.setup(setup).name]
    measured = {}
    for name in names:
        command = f"pacebench anchors {name} --episodes {episodes} --seed {seed} --write"
        with console(stderr=True).status(f"{name}: {episodes} episodes of each policy …"):
            measured[name] = measure_anchors(name, episodes, seed, command)
        if write:
            write_anchors(name, measured[name])
    if json_:
        plain = {name: asdict(found) for name, found in measured.items()}
        say_json(plain)
        return
    for name, found in measured.items():
        out = console()
        out.print(f"[bold]{name}[/bold] (success: {envs.setup(name).success})")
        for score in (found.baseline, found.reference):
            out.print(
                f"  {score.policy:9}  return {score.mean_return:8.2f} ± {score.return_se:.2f}   "
                f"discounted {score.discounted_return:8.3f} ± {score.discounted_return_se:.3f}   "
                f"success {100 * score.success_rate:5.1f} % ± {100 * score.success_rate_se:.1f}"
            )
        out.print(f"  ± one standard error over {episodes} episodes, seed {seed}")
