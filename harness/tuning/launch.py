"""`tune`: from a study with a tuning block to its record and its tuned study file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

from pacebench.harness import threads
from pacebench.harness.errors import UserError
from pacebench.harness.runner.interrupt import Interrupt
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.provenance import provenance
from pacebench.harness.study.models import Study
from pacebench.harness.tuning import workers
from pacebench.harness.tuning.record import TuningRecord, write_record
from pacebench.harness.tuning.search import Search, search_options, searches
from pacebench.harness.tuning.storage import make_sampler, open_storage, troubles
from pacebench.harness.tuning.trials import StoppedError
from pacebench.harness.tuning.tuned import write_tuned

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

FOLDER = "tuning"
_POLL = 1.0


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is.

    Attributes:
        done: Trials that ended.
        best: Best value of a complete trial; None before the first.
        concluded: Whether the search has made its choice.
    """

    search: Search
    done: int
    best: float | None
    concluded: bool


@dataclass(frozen=True)
class TuningSummary:
    """What tuning found, and the files it wrote."""

    record: TuningRecord
    record_file: Path
    study_file: Path


def tune(
    study: Study,
    source: Path,
    *,
    results: Path = Path("results"),
    storage: str | None = None,
    options: RunOptions | None = None,
    tell: Callable[[list[SearchProgress]], None] = lambda _: None,
) -> TuningSummary:
    """Searches the parameters of every tuned method on every setup.

    Calling it again resumes; several calls at once share the searches among them.

    Args:
        study: A study with a tuning block.
        source: Its file, beside which the tuned study is written.
        results: Where results are kept.
        storage: An Optuna storage URL instead of the journal file.
        options: Where and how training runs are made; `workers` is the number of searches that
            are under way at a time.
        tell: Called with the progress of every search about once a second.

    Raises:
        UserError: The study has nothing to tune, or the storage cannot be used.
        StoppedError: The user asked to stop.
    """
    options = options or RunOptions()
    if study.tuning is None:
        raise UserError(f"{source}: has no 'tuning:' block; see docs/tuning.md for one.")
    folder = Path(results) / study.name / FOLDER
    found = searches(study, folder)
    # A mistake in the sampler or a space is raised here, before anything runs.
    make_sampler(study.tuning.sampler, 0)
    for search in found:
        _ = search.space
    opened = open_storage(folder, storage)
    ledger = Ledger(folder.parent)
    ledger.append("tune", searches=len(found), storage="journal" if storage is None else "url")
    count = min(options.workers or threads.available_workers(), len(found))
    processes = workers.start(study, folder, storage, options, count)
    interrupt, passed_on = Interrupt(), 0
    with interrupt.listening():
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            # The first request stops workers at their next checkpoint, the second at once.
            if passed_on < interrupt.asked + interrupt.at_once:
                passed_on += 1
                for process in processes:
                    process.terminate()
            tell([_progress(search, opened) for search in found])
            wait(alive, _POLL)
    for process in processes:
        process.join()
    tell([_progress(search, opened) for search in found])
    records = [search.record() for search in found]
    done = tuple(record for record in records if record is not None)
    if len(done) < len(found):
        if interrupt.asked or any(process.exitcode == workers.STOPPED for process in processes):
            raise StoppedError
        raise UserError("Tuning did not come to its end; what is above says why. Tune again.")
    kept = study.tuning.model_dump(include={"sampler", "pruner", "seeds_per_trial", "replicates"})
    made = provenance()
    made["versions"] |= {"optuna": version("optuna")}
    record = TuningRecord(
        study=study.name,
        estimand=study.statistics.primary[0],
        **kept,
        options={name: part["options"] for name, part in search_options(study.tuning).items()},
        provenance=made,
        searches=done,
    )
    record_file = write_record(folder, record)
    study_file = write_tuned(study, source, record, record_file)
    ledger.append("tuned", searches=len(done))
    return TuningSummary(record, record_file, study_file)


def _progress(search: Search, storage: BaseStorage) -> SearchProgress:
    from optuna import load_study
    from optuna.trial import TrialState

    ended = []
    # A KeyError where no worker has begun the search; workers wait for a database that is away.
    with contextlib.suppress(KeyError, *troubles()):
        trials = load_study(study_name=search.name, storage=storage).get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
    values = [trial.value or 0.0 for trial in ended if trial.state is TrialState.COMPLETE]
    return SearchProgress(
        search, len(ended), max(values, default=None), search.record_file.exists()
    )
