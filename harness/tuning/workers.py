"""The processes that search: each takes a search that no other works on, and finishes it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from pacebench.harness.runner.child import die_with_parent
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.leases import LeaseLostError, Leases
from pacebench.harness.runner.local import kept_workers
from pacebench.harness.store.files import make_folder, write_atomic
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.claims import SearchClaim, SearchClaims, kept
from pacebench.harness.tuning.rerank import conclude
from pacebench.harness.tuning.search import Search, searches
from pacebench.harness.tuning.storage import open_storage, patiently
from pacebench.harness.tuning.trials import StoppedError, advance
from pacebench.registry import UserMistakeError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_WAIT = 0.5

# Exit codes of a worker, as shells know them: a user's mistake, and a request to stop.
MISTAKE, STOPPED = 2, 130


def start(
    study: Study, root: Path, url: str | None, options: RunOptions, count: int
) -> list[BaseProcess]:
    """Starts worker processes."""
    context = multiprocessing.get_context("spawn")
    silent = replace(options, workers=1, display=Display())
    processes: list[BaseProcess] = [
        context.Process(target=_main, args=(study, root, url, silent)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    return processes


def _main(study: Study, root: Path, url: str | None, options: RunOptions) -> None:
    """Works, and turns what stops it into an exit code; mistakes are told on standard error."""
    # Signals come from `tune`, which passes each on once, and not from the terminal as well.
    os.setsid()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    die_with_parent(signal.SIGTERM)
    try:
        with kept_workers():
            work(study, root, url, options)
    except UserMistakeError as error:
        for sentence in error.sentences:
            sys.stderr.write(f"error: {sentence}\n")
        sys.exit(MISTAKE)
    except (StoppedError, KeyboardInterrupt):
        sys.exit(STOPPED)


def work(study: Study, root: Path, url: str | None, options: RunOptions) -> None:
    """Takes searches and finishes them until none is left, sharing them with other processes.

    Raises:
        StoppedError: The user asked to stop.
        UserMistakeError: A search cannot be finished.
    """
    from optuna.exceptions import UpdateFinishedTrialError

    limits = options.limits
    storage = open_storage(root, url, limits)
    claims = SearchClaims(storage, Leases(root, limits.expiry, limits.heartbeat))
    todo = searches(study, root)
    while todo := [search for search in todo if search.record() is None]:
        idle = True
        for search in todo:
            claim = patiently(lambda name=search.name: claims.acquire(name))  # type: ignore[misc]
            if claim is None:
                continue
            idle = False
            # A process that was thought dead finds that another one goes on with its search.
            with (
                contextlib.suppress(LeaseLostError, UpdateFinishedTrialError),
                kept(claim, limits.heartbeat),
            ):
                _finish(search, storage, claim, options)
        if idle:
            time.sleep(_WAIT)  # others work on what is left; one of them may die


def _finish(search: Search, storage: BaseStorage, claim: SearchClaim, options: RunOptions) -> None:
    """Goes on with a search until it has made its choice."""
    trials = patiently(lambda: search.open(storage))
    while patiently(lambda: advance(search, trials, options, claim.check)):
        pass
    record = patiently(lambda: conclude(search, trials, options))
    claim.check()
    make_folder(search.folder)
    write_atomic(search.record_file, record.model_dump_json(indent=1).encode())
