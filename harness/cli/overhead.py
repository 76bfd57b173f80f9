"""`pacebench overhead`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def overhead(
    out: Annotated[Path, typer.Option(help="Results folder.")] = Path("results/overhead"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small grid and short training runs.")
    ] = False,
    limit: Annotated[
        float | None, typer.Option(help="Seconds that an update may take (default 2; quick 0.5).")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(help="Replicates per cell, at least 10 (default 10).")
    ] = None,
    curricula: Annotated[
        str | None, typer.Option(help="Comma-separated names (default: all registered).")
    ] = None,
    training: Annotated[
        bool, typer.Option(help="Also record real streams and time whole training runs.")
    ] = True,
    compare: Annotated[
        Path | None, typer.Option(help="Another results folder to compare this one with.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Time every curriculum's update on the same streams, and judge its answers.

    What is measured already is kept: an interrupted command goes on where it stopped.

    Example: [bold]pacebench overhead --quick --out results/overhead-quick[/bold]
    """
    import json

    from pacebench.harness.cli.output import console
    from pacebench.harness.overhead.compare import compare_runs
    from pacebench.harness.overhead.measure import measure
    from pacebench.harness.overhead.settings import make_settings

    names = None if curricula is None else tuple(n.strip() for n in curricula.split(","))
    settings = make_settings(quick=quick, names=names, blocks=blocks, limit=limit)
    with _Progress() as progress:
        found = measure(out, settings, progress, training=training)
    agreement = None if compare is None else compare_runs(out, compare)
    if json_:
        shown = {"claims": found["claims"], "agreement": agreement}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    terminal = console()
    for claim in found["claims"]:
        terminal.print(f"[bold]{claim['word']:>12}[/bold]  {claim['sentence']}")
        terminal.print(f"{'':>12}  [dim]{claim['strength']}[/dim]")
    if agreement is not None:
        terminal.print(f"[bold]{'two runs':>12}[/bold]  {agreement['sentence']}")
    terminal.print(f"\n{out / 'index.html'}")


class _Progress:
    """Shows the stages, as a bar on a terminal and as lines elsewhere."""

    def __enter__(self) -> _Progress:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        from pacebench.harness.cli.output import console

        self._console = console(stderr=True)
        self._progress: Progress = Progress(
            TextColumn("{task.description:7}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._name, self._done, self._total = "", 0, 0
        self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._progress.stop()

    def stage(self, name: str, total: int, done: int) -> None:
        """Begins a bar."""
        self._task = self._progress.add_task(name, total=total, completed=done, note="")
        self._name, self._done, self._total = name, done, total

    def advance(self, note: str) -> None:
        """Moves the bar, or prints a line per tenth where there is no terminal."""
        assert self._task is not None
        self._progress.update(self._task, advance=1, note=note)
        self._done += 1
        tenth = max(1, self._total // 10)
        last = self._done == self._total
        if not self._console.is_terminal and (last or self._done % tenth == 0):
            self._console.print(f"{self._name} {self._done}/{self._total}: {note}")
