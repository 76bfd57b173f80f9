"""`pacebench play`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pacebench.harness.runner.playing import Player


def play(
    run: Annotated[Path, typer.Argument(help="Folder of a run: results/STUDY/runs/ID.")],
    out: Annotated[Path, typer.Option(help="Picture (.png) or animation (.gif) to write.")] = Path(
        "episode.gif"
    ),
    context: Annotated[
        str | None, typer.Option(help="Numbers a,b,c (default: the target mean).")
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Act with the policy's noise.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode.")] = 0,
) -> None:
    """Draw an episode of the policy that a run ended with.

    Example: [bold]pacebench play results/quick/runs/1f0c… --out learned.gif[/bold]
    """
    from pacebench.envs.pictures import film, save
    from pacebench.harness.cli.render import numbers
    from pacebench.harness.errors import UserError
    from pacebench.harness.runner.playing import load_player

    if out.suffix.lower() not in (".png", ".gif"):
        raise UserError(f"cannot write '{out.name}': the name must end in .png or .gif.")
    player: Player = load_player(run, stochastic=stochastic, seed=seed)
    chosen = player.setup.target_mean if context is None else numbers(context)
    picture = film(player.setup, chosen, player, seed, moving=out.suffix.lower() == ".gif")
    save(picture, out)
    ending = "success" if picture.success else "no success"
    typer.echo(f"wrote {out}: return {picture.total:.2f} in {picture.length} steps, {ending}")
