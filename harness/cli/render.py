"""`pacebench render`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Policy(StrEnum):
    """The scripted policies that every environment has."""

    reference = "reference"
    random = "random"
    hold = "hold"


def render(
    setup: Annotated[str, typer.Argument(help="The setup.")],
    out: Annotated[Path, typer.Option(help="Picture (.png) or animation (.gif) to write.")],
    context: Annotated[
        str | None, typer.Option(help="Numbers a,b,c (default: the target mean).")
    ] = None,
    policy: Annotated[Policy, typer.Option(help="The policy that acts.")] = Policy.reference,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode.")] = 0,
    sheet: Annotated[
        bool, typer.Option("--sheet", help="Initial and target contexts side by side.")
    ] = False,
) -> None:
    """Draw one episode, to see what a context means; or a sheet of many contexts.

    Example: [bold]pacebench render point-mass-2 --context 2.5,0.7,0.1 --out gate.gif[/bold]
    """
    from pacebench import envs
    from pacebench.envs.pictures import contact_sheet, film, save
    from pacebench.harness.cli.output import console
    from pacebench.harness.errors import UserError

    spec = envs.setup(setup)
    if not sheet:
        given = spec.target_mean if context is None else numbers(context)
        if out.suffix.lower() not in (".png", ".gif"):
            raise UserError(f"cannot write '{out.name}': the name must end in .png or .gif.")
        moving = out.suffix.lower() == ".gif"
        with console(stderr=True).status("drawing …"):
            save(film(spec, given, policy.value, seed, moving=moving), out)
    else:
        if context is not None:
            raise UserError("--sheet draws its own contexts; leave --context out.")
        if out.suffix.lower() != ".png":
            raise UserError(f"cannot write '{out.name}': a sheet's name must end in .png.")
        out.parent.mkdir(parents=True, exist_ok=True)
        with console(stderr=True).status("drawing …"):
            contact_sheet(spec, policy.value, seed).save(out, optimize=True)
    typer.echo(f"wrote {out}")


def numbers(text: str) -> tuple[float, ...]:
    """Reads numbers separated by commas."""
    from pacebench.harness.errors import UserError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(
            f"--context must be numbers separated by commas, such as 2.5,0.7,0.1; got {text!r}."
        ) from None
