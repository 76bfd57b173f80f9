"""Which results a command is about."""

from __future__ import annotations

from pathlib import Path


def results_of(study: Path, results: Path) -> Path:
    """Returns the results of a study that is given by its file, its name or its results.

    Args:
        study: A study file, the name of a shipped study, a results folder, or a packed study.
        results: Where results are kept.
    """
    if study.is_dir() or study.suffix == ".zip":
        return study
    from pacebench.harness.study.load import load_study

    return results / load_study(study).name
