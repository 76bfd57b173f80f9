"""The processes that search: each takes a search nobody works on and finishes it."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pacebench.harness.runner.display import Silent
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.leases import HEARTBEAT, Leases
from pacebench.harness.store.files import write_atomic
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import SearchRecord
from pacebench.harness.tuning.rerank import conclude
from pacebench.harness.tuning.search import Search, searches
from pacebench.harness.tuning.storage import open_storage
from pacebench.harness.tuning.trials import StoppedError, advance

_WAIT = 0.5
CONCLUSION = "search.json"


def concluded(search: Search) -> SearchRecord | None:
    """Returns what a finished search found; None while it is under way."""
    file = search.folder / CONCLUSION
    return SearchRecord.model_validate_json(file.read_bytes()) if file.exists() else None


def work(study: Study, root: Path, url: str | None, options: RunOptions) -> None:
    """Takes searches and finishes them until none is left, sharing them with other processes.

    Raises:
        StoppedError: The user asked to stop.
        UserError: A search cannot be finished.
    """
    storage = open_storage(root, url)
    leases = Leases(root)
    one_batch = replace(options, workers=1, display=Silent())
    open_ones = searches(study, root)
    while open_ones:
        open_ones = [search for search in open_ones if concluded(search) is None]
        advanced = False
        for search in open_ones:
            lease = leases.acquire(_key(search), search=search.name)
            if lease is None:
                continue
            advanced = True
            with _beating(lease):
                found = search.open(storage)
                while advance(search, found, one_batch):
                    lease.check()
                record = conclude(search, found, one_batch)
                lease.check()
                write_atomic(search.folder / CONCLUSION, record.model_dump_json(indent=1).encode())
        if open_ones and not advanced:
            time.sleep(_WAIT)  # others work on what is left; one of them may die


def _key(search: Search) -> str:
    return "search-" + hashlib.sha256(search.name.encode()).hexdigest()[:16]


@contextlib.contextmanager
def _beating(lease: Any) -> Iterator[None]:
    """Shows that this process lives for as long as it works on a search, then lets it go."""
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


def start(
    study: Study, root: Path, url: str | None, options: RunOptions, count: int
) -> list[multiprocessing.process.BaseProcess]:
    """Starts working processes."""
    context = multiprocessing.get_context("spawn")
    plain = replace(options, display=None)
    processes: list[multiprocessing.process.BaseProcess] = []
    for _ in range(count):
        process = context.Process(target=_main, args=(study, root, url, plain))
        process.start()
        processes.append(process)
    return processes


def _main(study: Study, root: Path, url: str | None, options: RunOptions) -> None:
    """The main function of a working process: user errors become its last words and exit code 2."""
    import sys

    from pacebench.harness.errors import UserError

    try:
        work(study, root, url, options)
    except UserError as error:
        for sentence in error.sentences:
            sys.stderr.write(f"error: {sentence}\n")
        sys.exit(2)
    except (StoppedError, KeyboardInterrupt):
        sys.exit(130)
