"""`pacebench status`."""

from __future__ import annotations

from pacebench.harness.cli.output import console, say_json
from pacebench.harness.cli.selectors import (
    RESULTS,
    Chosen,
    Json,
    Only,
    ResultsFolder,
    Seeds,
    StudyOrResults,
    Values,
)
from pacebench.harness.errors import UserError


def status(
    study: StudyOrResults,
    results: ResultsFolder = RESULTS,
    json_: Json = False,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Show how far a study is, from its results alone; works while others run it.

    Example: [bold]pacebench status studies/quick.yaml[/bold]
    """
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
        cells = [cell.to_dict() for cell in snapshot.cells]
        state = {"study": snapshot.study, "complete": snapshot.complete, "cells": cells}
        say_json({**state, "whole": snapshot.whole.to_dict(), "bad": bad})
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
