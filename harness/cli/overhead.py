"""`pacebench overhead`."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pacebench.harness.cli.output import console, say_json
from pacebench.harness.cli.selectors import Json


def overhead(
    out: Path = Option(Path("results/overhead"), help="Results folder."),
    quick: bool = Option(False, "--quick", help="A small grid and short training runs."),
    limit: float | None = Option(
        None, min=1e-6, help="Seconds that an update may take (default 2; quick 0.5)."
    ),
    blocks: int | None = Option(None, min=10, help="Replicates per cell (default 10)."),
    curricula: str | None = Option(None, help="Comma-separated names (default: all registered)."),
    training: bool = Option(True, help="Also record real streams and time whole training runs."),
    compare: Path | None = Option(None, help="Another results folder to compare this one with."),
    json_: Json = False,
) -> None:
    """Time every curriculum's update on the same streams, and judge its answers.

    What is measured already is kept: an interrupted command goes on where it stopped.

    Example: [bold]pacebench overhead --quick --out results/overhead-quick[/bold]
    """
    from dataclasses import asdict

    from pacebench.harness.overhead.findings import load_summary
    from pacebench.harness.overhead.measure import measure
    from pacebench.harness.overhead.ratios import compare_runs
    from pacebench.harness.overhead.settings import make_settings
    from pacebench.harness.report.overhead.claims import all_claims
    from pacebench.harness.report.overhead.page import write_pages

    names = None if curricula is None else tuple(n.strip() for n in curricula.split(","))
    settings = make_settings(names, quick=quick, blocks=blocks, limit=limit)
    if compare is not None:
        load_summary(compare)  # a folder that cannot be compared is refused before the measurement
    progress = console(stderr=True)
    with progress.status("overhead") as status:
        hear = status.update if progress.is_terminal else progress.print
        summary = measure(out, settings, hear, training=training)
    write_pages(out, summary)
    claims = list(all_claims(summary))
    agreement = None if compare is None else compare_runs(out, compare)
    if json_:
        found = agreement and agreement.model_dump(mode="json")
        say_json({"claims": [asdict(claim) for claim in claims], "agreement": found})
        return
    terminal = console()
    for claim in claims:
        terminal.print(f"[bold]{claim.word:>12}[/bold]  {claim.sentence}")
        terminal.print(f"{'':>12}  [dim]{claim.strength}[/dim]")
    if agreement is not None:
        terminal.print(f"[bold]{'two runs':>12}[/bold]  {agreement.sentence}")
    terminal.print(f"\n{out / 'index.html'}")
