"""Which results a command is about."""

from __future__ import annotations

from pathlib import Path

import typer


def results_of(study: Path, results: Path) -> Path:
    """Returns the results of a study that is given by its file, its name or its results.

    What a study file says otherwise than when it was run is said on standard error.

    Args:
        study: A study file, the name of a shipped study, a results folder, or a packed study.
        results: Where results are kept.

    Raises:
        UserError: The study is not valid, or the results under its name are another study's.
    """
    if study.is_dir() or study.suffix == ".zip":
        return study
    from pacebench.harness.store.same_study import check_made_for
    from pacebench.harness.store.store import RunStore
    from pacebench.harness.study.load import load_study

    loaded = load_study(study)
    root = results / loaded.name
    manifest = RunStore(root).manifest()
    if manifest is not None:
        for said in check_made_for(manifest, loaded, root):
            typer.echo(f"Since these results were made, {said}", err=True)
    return root
