"""`tune`: from a study with a tuning block to its record and its tuned study file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.provenance import provenance
from pacebench.harness.study.models import Study
from pacebench.harness.tuning import workers
from pacebench.harness.tuning.record import TuningRecord, write_record
from pacebench.harness.tuning.search import Search, searches
from pacebench.harness.tuning.storage import make_sampler, open_storage
from pacebench.harness.tuning.tuned import write_tuned

FOLDER = "tuning"
_POLL = 1.0


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is: trials that ended, trials it will have without pruning, its best."""

    search: Search
    done: int
    planned: int
    best: float | None
    concluded: bool


@dataclass(frozen=True)
class TuningSummary:
    """What came of a call of `tune`."""

    record: TuningRecord | None
    record_file: Path | None
    study_file: Path | None
    interrupted: bool


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
        tell: Hears about the progress about once a second.

    Raises:
        UserError: The study has nothing to tune, or the storage cannot be used.
    """
    options = options or RunOptions()
    if study.tuning is None:
        raise UserError(f"{source}: has no 'tuning:' block; see docs/tuning.md for one.")
    make_sampler(study.tuning.sampler, 0)
    folder = Path(results) / study.name / FOLDER
    found = searches(study, folder)
    for search in found:
        _ = search.space  # says what is wrong with it before anything runs
    opened = open_storage(folder, storage)
    ledger = Ledger(folder.parent)
    ledger.append("tune", searches=len(found), storage="journal" if storage is None else "url")
    from pacebench.harness.runner.estimate import available_workers

    count = min(options.workers or available_workers(), len(found))
    processes = workers.start(study, folder, storage, options, count)
    stopped = False
    try:
        while any(process.is_alive() for process in processes):
            tell([_progress(search, opened) for search in found])
            time.sleep(_POLL)
    except KeyboardInterrupt:
        # The signal went to the whole group: the workers stop at their next checkpoint.
        stopped = True
        with contextlib.suppress(KeyboardInterrupt):
            for process in processes:
                process.join()
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()
    tell([_progress(search, opened) for search in found])
    ends = [workers.concluded(search) for search in found]
    parts = tuple(end for end in ends if end is not None)
    if len(parts) < len(ends):
        if stopped or any(process.exitcode == 130 for process in processes):
            return TuningSummary(None, None, None, interrupted=True)
        raise UserError("Tuning did not come to its end; what is above says why. Tune again.")
    record = TuningRecord(
        study=study.name,
        estimand=study.statistics.primary[0],
        sampler=study.tuning.sampler,
        pruner=study.tuning.pruner,
        seeds_per_trial=study.tuning.seeds_per_trial,
        replicates=study.tuning.replicates,
        provenance=provenance(),
        searches=parts,
    )
    record_file = write_record(folder, record)
    study_file = write_tuned(study, source, record, record_file)
    ledger.append("tuned", searches=len(parts))
    return TuningSummary(record, record_file, study_file, interrupted=False)


def _progress(search: Search, storage: object) -> SearchProgress:
    """Reads how far a search is; a search nobody has begun is at zero."""
    from optuna import get_all_study_names, load_study
    from optuna.storages import BaseStorage

    assert isinstance(storage, BaseStorage)
    assert search.study.tuning is not None
    done, best = 0, None
    if search.name in get_all_study_names(storage):
        trials = load_study(study_name=search.name, storage=storage).get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
        done = len(ended)
        best = max((t.value for t in ended if t.value is not None), default=None)
    finished = (search.folder / workers.CONCLUSION).exists()
    return SearchProgress(search, done, search.study.tuning.trials, best, finished)
