"""Everything that turns a study into evidence.

The whole of it::

    study = harness.load_study("quick")
    harness.run(study)
    harness.verdicts("results/quick")            # a DataFrame, one row per question
    harness.load_results("results/quick").runs   # tidy frames of everything recorded
    harness.report("results/quick").page         # the page to open
    harness.verdicts(harness.analyse("scores.csv", bounds=(0, 1)))   # numbers from elsewhere

Each function imports what it needs when it is called, so that `from pacebench import harness` and
the command line stay quick.
"""

from __future__ import annotations

if __name__ != "pacebench.harness":
    raise ImportError("pacebench.harness is its name; this would be a second copy of it")

from pathlib import Path
from typing import TYPE_CHECKING, Any

# Imported before the function of the same name is defined: the first import of a room puts it into
# this namespace, and would replace the function later.
import pacebench.harness.report  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from pacebench.harness.analysis.analyse import Analysis
    from pacebench.harness.report.make import Report
    from pacebench.harness.runner.launch import RunOptions, RunSummary
    from pacebench.harness.runner.snapshot import Snapshot
    from pacebench.harness.store.load import Results
    from pacebench.harness.study.models import Study

__all__ = ["analyse", "load_results", "load_study", "report", "run", "status", "verdicts"]


def __dir__() -> list[str]:
    """Shows what is for users; the rooms are there as well."""
    return __all__


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


def status(study: Study | Path | str, *, results: Path | str = "results") -> Snapshot:
    """Returns how far a study is, from its results alone; works while others run it.

    Args:
        study: The study, or its results folder.
        results: Where the folder of a study is.

    Raises:
        UserError: There are no results, or they cannot be read.
    """
    from pacebench.harness.errors import UserError
    from pacebench.harness.runner.snapshot import look
    from pacebench.harness.store.store import RunStore

    root = Path(study) if isinstance(study, str | Path) else Path(results) / study.name
    store = RunStore(root)
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{root}: no results here; run the study first.")
    return look(store, manifest)[0]


def load_results(path: Path | str) -> Results:
    """Returns the runs, evaluations and updates of a results folder as tidy pandas frames.

    Context vectors are columns: `context_<name>` of the evaluations, `mean_<name>` and `std_<name>`
    of the updates.

    Raises:
        UserError: The folder holds no results, or they cannot be read.
    """
    from pacebench.harness.analysis.contexts import with_contexts
    from pacebench.harness.store import load

    return with_contexts(load.load_results(path))


def analyse(
    source: Path | str | pd.DataFrame | Mapping[str, Any],
    *,
    bounds: tuple[float, float] | None = None,
    **questions: Any,
) -> Analysis:
    """Returns estimates, comparisons and verdicts of results, or of numbers made elsewhere.

    Args:
        source: A results folder or packed study, whose own study says what is asked, and in whose
            ledger the look is noted. Or numbers from elsewhere: a file that `pacebench analyse`
            takes, a table with the columns method, task, seed and score (step and success may be
            there), or a dictionary of rliable's, method → runs × tasks.
        bounds: The lowest and the highest score that is possible, for numbers from elsewhere;
            without it, verdicts rest on a t-test.
        questions: Further fields of `analysis.foreign.ForeignQuestions`: `control`, `pairs`,
            `alpha`, `smallest_effect`, `task_bounds`, `normalised`, `until`.

    Raises:
        UserError: The source cannot be read, or the questions do not fit it.
    """
    from pacebench.harness.errors import UserError
    from pacebench.harness.store.foreign import sources

    if isinstance(source, str | Path):
        if Path(source).suffix == ".zip" or (Path(source) / "manifest.json").exists():
            if bounds is not None or questions:
                raise UserError(f"{source}: what is asked of results stands in their study.")
            from pacebench.harness.report.make import looked_at

            return looked_at(Path(source), must_note=True).analysis
        scores = sources.read_scores([source])
    else:
        scores = sources.scores_in_memory(source)
    from pacebench.harness.analysis.foreign import ForeignQuestions, foreign_study

    return foreign_study(scores, ForeignQuestions(bounds=bounds, **questions)).analysis


def verdicts(source: Analysis | Report | Path | str) -> pd.DataFrame:
    """Returns what was asked and what the runs say to it, one row per question.

    Args:
        source: What `analyse` or `report` returned, or what `analyse` takes.

    Returns:
        `task`, `a`, `b`, `estimand`, the interval `low` to `high` of a − b and its `estimate`, the
        `verdict`, seeds `n`, level `alpha`, whether it is `confirmatory`, and the `sentence`.

    Raises:
        UserError: As `analyse`.
    """
    import pandas as pd

    from pacebench.harness.analysis.analyse import Analysis
    from pacebench.harness.report.make import Report

    if isinstance(source, Report):
        source = source.view.analysis
    found = source if isinstance(source, Analysis) else analyse(source)
    columns = ["task", "a", "b", "estimand", "low", "high", "estimate", "verdict", "n", "alpha"]
    return pd.DataFrame(found.verdicts(), columns=[*columns, "confirmatory", "sentence"])


def report(path: Path | str, out: Path | str | None = None) -> Report:
    """Writes the report of a results folder; see `harness.report.make.report`."""
    from pacebench.harness.report import make

    return make.report(path, out)
