"""Everything that turns a study into evidence.

Each function imports what it needs when it is called, so that `from pacebench import harness` and
the command line stay quick.
"""

from __future__ import annotations

if __name__ != "pacebench.harness":
    raise ImportError("pacebench.harness is its name; this would be a second copy of it")

from pathlib import Path
from typing import TYPE_CHECKING

# Imported before the function of the same name is defined: the first import of a room puts it into
# this namespace, and would replace the function later.
import pacebench.harness.report  # noqa: F401

if TYPE_CHECKING:
    from pacebench.harness.report.make import Report
    from pacebench.harness.runner.launch import RunOptions, RunSummary
    from pacebench.harness.store.load import Results
    from pacebench.harness.study.models import Study

__all__ = ["load_results", "load_study", "report", "run"]


def load_study(path: str | Path) -> Study:
    """Reads and validates a study: a YAML file, or the name of a shipped one such as `quick`.

    Raises:
        UserError: With one sentence for each mistake in the file.
    """
    from pacebench.harness.study import load

    return load.load_study(path)


def run(
    study: Study,
    *,
    results: Path | str = "results",
    options: RunOptions | None = None,
    until_decided: bool = True,
) -> RunSummary:
    """Makes the runs of a study that are not there yet; call it again to resume.

    Args:
        study: What to run.
        results: Where the folder of the study is, or is to be.
        options: Where and how to run it.
        until_decided: Whether an adaptive study goes on after the wave that is under way.

    Raises:
        UserError: The results folder cannot be used, the executor is not available, the study was
            frozen and has changed since, or the results under its name are another study's.
    """
    from pacebench.harness.analysis import freeze
    from pacebench.harness.runner import launch
    from pacebench.harness.store.same_study import check_continues

    # A study that was frozen and has changed since is refused before anything is started. One that
    # keeps to its frozen plan is the study that the results are for.
    root = Path(results) / study.name
    if freeze.check(study, root) is None:
        check_continues(study, root)
    if study.seeds.adaptive:
        from pacebench.harness.analysis.waves import run_waves

        return run_waves(study, Path(results), options, until_decided=until_decided)
    return launch.run(study, results=results, options=options)


def load_results(path: Path | str) -> Results:
    """Returns the runs, evaluations and updates of a results folder as tidy pandas frames.

    Raises:
        UserError: The folder holds no results, or they cannot be read.
    """
    from pacebench.harness.store import load

    return load.load_results(path)


def report(path: Path | str, out: Path | str | None = None) -> Report:
    """Writes the report of a results folder; see `harness.report.make.report`."""
    from pacebench.harness.report import make

    return make.report(path, out)
