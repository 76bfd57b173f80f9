"""`pacebench status`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacebench.harness.cli.selectors import Chosen, Only, Seeds, Values


def status(
    study: Annotated[
        Path, typer.Argument(help="A study: its file, shipped name or results folder.")
    ],
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = Path("results"),
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Show how far a study is, from its results alone; works while others run it.

    Example: [bold]pacebench status studies/quick.yaml[/bold]
    """
    from pacebench.harness.cli.output import console, say_json
    from pacebench.harness.errors import UserError
    from pacebench.harness.runner.display import line, table
    from pacebench.harness.runner.snapshot import look
    from pacebench.harness.store.manifest import study_of
    from pacebench.harness.store.store import RunStore
    from pacebench.harness.study.fingerprint import other_code

    chosen = Chosen(study, values, only, seeds)
    root = chosen.results(results)
    store = RunStore(root)
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{root}: no results here; start with `pacebench run {chosen}`.")
    snapshot, bad = look(store, manifest)
    if json_:
        state = {
            "study": snapshot.study,
            "complete": snapshot.complete,
            "cells": [cell.to_dict() for cell in snapshot.cells],
            "whole": snapshot.whole.to_dict(),
            "bad": bad,
        }
        say_json(state)
        return
    out = console()
    out.print(table(snapshot))
    out.print(f"{snapshot.study}: {line(snapshot)}.", markup=False)
    declared = study_of(manifest)
    if declared.seeds.adaptive and snapshot.whole.done:
        from pacebench.harness.analysis.waves import open_questions, scored_table

        for item in open_questions(scored_table(declared, root)):
            most = declared.seeds.most(item.question.scope)
            out.print(f"{item.progress(most)}.", markup=False)
    for change in other_code(manifest.current_cells()):
        out.print(f"Made by other code than is installed: {change}.", markup=False)
    for run_id, reason in bad.items():
        out.print(f"run {run_id} will be set aside and made again: {reason}.", markup=False)
