"""`pacebench render` and `play`: episodes to look at."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from pacebench.harness.cli.output import console
from pacebench.harness.errors import UserError

Picture = Annotated[Path, Option(help="Picture (.png) or animation (.gif) to write.")]
Context = Annotated[str | None, Option(help="Numbers a,b,c (default: the target mean).")]
EpisodeSeed = Annotated[int, Option(min=0, help="Seed of the episode.")]


class Policy(StrEnum):
    """The scripted policies that every environment has."""

    reference = "reference"
    random = "random"
    hold = "hold"


def render(
    setup: Annotated[str, Argument(help="The setup.")],
    out: Picture,
    context: Context = None,
    policy: Policy = Option(Policy.reference, help="The policy that acts."),
    seed: EpisodeSeed = 0,
    sheet: bool = Option(False, "--sheet", help="Initial and target contexts side by side."),
) -> None:
    """Draw one episode, to see what a context means; or a sheet of many contexts.

    Example: [bold]pacebench render point-mass-2 --context 2.5,0.7,0.1 --out gate.gif[/bold]
    """
    from pacebench import envs
    from pacebench.envs.pictures import contact_sheet, film, save

    spec = envs.setup(setup)
    if sheet and context is not None:
        raise UserError("--sheet draws its own contexts; leave --context out.")
    if sheet and out.suffix.lower() != ".png":
        raise UserError(f"cannot write '{out.name}': a sheet's name must end in .png.")
    given, moving = _numbers(context, spec.target_mean), not sheet and _moves(out)
    with console(stderr=True).status("drawing …"):
        if sheet:
            out.parent.mkdir(parents=True, exist_ok=True)
            contact_sheet(spec, policy.value, seed).save(out, optimize=True)
        else:
            save(film(spec, given, policy.value, seed, moving=moving), out)
    typer.echo(f"wrote {out}")


def play(
    run: Path = Argument(help="Folder of a run: results/STUDY/runs/ID."),
    out: Picture = Path("episode.gif"),
    context: Context = None,
    stochastic: bool = Option(False, "--stochastic", help="Act with the policy's noise."),
    seed: EpisodeSeed = 0,
) -> None:
    """Draw an episode of the policy that a run ended with.

    Example: [bold]pacebench play results/quick/runs/1f0c… --out learned.gif[/bold]
    """
    from pacebench.envs.pictures import film, save
    from pacebench.harness.runner.playing import load_player

    moving = _moves(out)
    player = load_player(run, stochastic=stochastic, seed=seed)
    given = _numbers(context, player.setup.target_mean)
    picture = film(player.setup, given, player, seed, moving=moving)
    save(picture, out)
    ending = "success" if picture.success else "no success"
    typer.echo(f"wrote {out}: return {picture.total:.2f} in {picture.length} steps, {ending}")


def _moves(out: Path) -> bool:
    if out.suffix.lower() not in (".png", ".gif"):
        raise UserError(f"cannot write '{out.name}': the name must end in .png or .gif.")
    return out.suffix.lower() == ".gif"


def _numbers(context: str | None, default: tuple[float, ...]) -> tuple[float, ...]:
    try:
        return default if context is None else tuple(float(part) for part in context.split(","))
    except ValueError:
        raise UserError(
            f"--context must be numbers separated by commas, such as 2.5,0.7,0.1; got {context!r}."
        ) from None
