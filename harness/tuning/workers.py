"""The processes that search: each takes a search that no other works on, and finishes it."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from pacebench.harness.runner.display import Silent
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.leases import HEARTBEAT, Lease, Leases
from pacebench.harness.store.files import write_atomic
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import digest
from pacebench.harness.tuning.rerank import conclude
from pacebench.harness.tuning.search import searches
from pacebench.harness.tuning.storage import open_storage
from pacebench.harness.tuning.trials import StoppedError, advance
from pacebench.registry import UserMistakeError

_WAIT = 0.5

# Exit codes of a worker, as shells know them: a user's mistake, and a request to stop.
MISTAKE, STOPPED = 2, 130


def start(
    study: Study, root: Path, url: str | None, options: RunOptions, count: int
) -> list[BaseProcess]:
    """Starts worker processes."""
    context = multiprocessing.get_context("spawn")
    silent = replace(options, workers=1, display=Silent())
    processes: list[BaseProcess] = [
        context.Process(target=_main, args=(study, root, url, silent)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    return processes


def _main(study: Study, root: Path, url: str | None, options: RunOptions) -> None:
    """Works, and turns what stops it into an exit code; mistakes are told on standard error."""
    try:
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
    storage = open_storage(root, url)
    leases = Leases(root)
    todo = searches(study, root)
    while todo := [search for search in todo if search.record() is None]:
        idle = True
        for search in todo:
            lease = leases.acquire(f"search-{digest(search.name)}", search=search.name)
            if lease is None:
                continue
            idle = False
            with _heartbeat(lease):
                trials = search.open(storage)
                while advance(search, trials, options):
                    lease.check()
                record = conclude(search, trials, options)
                lease.check()
                write_atomic(search.record_file, record.model_dump_json(indent=1).encode())
        if idle:
            time.sleep(_WAIT)  # others work on what is left; one of them may die


@contextlib.contextmanager
def _heartbeat(lease: Lease) -> Iterator[None]:
    """Keeps a lease alive while its search is worked on, then gives it back."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT):
            lease.beat(0, 0)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        lease.release()
