"""Many runs at once: each step is taken with hundreds of them before the next.

That takes half as long as every step with one run after the other, because the code and the data of
a step stay in the processor's caches. Of thousands that were never decoded here, a second process
decodes the last ones meanwhile, into the user's cache; threads would wait for each other's turn at
the interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pacebench import envs
from pacebench.harness import threads
from pacebench.harness.store.cache import SEGMENT, Stamps, TableCache
from pacebench.harness.store.parts import Tables
from pacebench.harness.store.reading import parse_json
from pacebench.harness.store.runs import (
    BadRunError,
    Reader,
    StoredRun,
    decode,
    read_files,
    read_record,
)
from pacebench.harness.store.study_files import MANIFEST, StudyFiles

T = TypeVar("T")
# So many unknown runs take longer than a second process needs to start.
MANY = 3_000
# Told to end, it does so without taking the interpreter down in order: somebody waits.
_PROGRAM = f"""
import os, sys
from {__name__} import decode_ahead
try:
    decode_ahead(sys.argv[1])
except SystemExit:
    os._exit(0)
"""


def scan(
    files: StudyFiles, run_ids: Iterable[str], cache: TableCache | None
) -> tuple[dict[str, StoredRun], dict[str, str]]:
    """Reads and verifies runs.

    Args:
        files: The files of the study.
        run_ids: Which runs.
        cache: Where decoded tables are kept, which are not verified again; without, the runs are
            verified and come without tables.

    Returns:
        The finished runs by id, and for every bad one the reason.
    """
    good: dict[str, StoredRun] = {}
    bad: dict[str, str] = {}
    ids = list(dict.fromkeys(run_ids))
    with _second_process(files, len(ids) - cache.known if cache else 0):
        for some in _segments(ids):
            found = _Segment(files, some, cache)
            good |= found.good
            bad |= found.bad
    return good, bad


def _segments(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[i : i + SEGMENT] for i in range(0, len(ids), SEGMENT)]


@contextlib.contextmanager
def _second_process(files: StudyFiles, unknown: int) -> Iterator[None]:
    """Has another process decode too, from the last run on, where that saves time.

    Nobody waits for it: what it leaves in the cache need not be decoded here, and all else is.
    """
    with contextlib.ExitStack() as stack:
        if unknown >= MANY and sys.executable and threads.available_workers() > 1:
            # Not forked, as there may be threads; and of our code alone, not of the user's script.
            command = [sys.executable, "-P", "-c", _PROGRAM, str(files.root)]
            with contextlib.suppress(OSError):
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=threads.environment(),
                )
                stack.callback(_end, child)
        yield


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(timeout=1)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def decode_ahead(root: str) -> None:
    """Decodes the runs of a study into the user's cache, the last ones first."""
    parent = os.getppid()
    # An exception, so that no half-written file is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    gc.disable()
    files = StudyFiles(Path(root))
    cache = TableCache(files.folder)
    manifest = parse_json(files.read(MANIFEST), MANIFEST)
    # The script that waits may know setups, and so the dimensions to check, that nobody here does.
    setups = set(envs.names())
    known = {name for name, cell in manifest["cells"].items() if cell["setup"] in setups}
    ids = list(dict.fromkeys(e["run_id"] for e in manifest["entries"] if e["cell"] in known))
    for some in reversed(_segments(ids)):
        if os.getppid() != parent:
            return  # It was killed.
        _Segment(files, some, cache)


class _Segment:
    """Some runs, read and verified; see `scan`.

    Attributes:
        good: The finished ones by id.
        bad: For every bad one the reason.
    """

    def __init__(self, files: StudyFiles, ids: Sequence[str], cache: TableCache | None) -> None:
        self.bad: dict[str, str] = {}
        self._files = files
        records = self._each(lambda i: read_record(self._reader(i), i), ids)
        stamps: dict[str, Stamps] = {}
        tables: dict[str, Tables] = {}
        if cache:
            cache.look()
            # Taken before the files are read: what is written meanwhile is newer.
            stamps = {i: self._stamps(i, record) for i, record in records.items()}
            tables = self._each(lambda i: cache.get(records[i], stamps[i]), records)
        unknown = [i for i in records if i not in tables]
        contents = self._each(lambda i: read_files(self._reader(i), records[i]), unknown)
        try:
            decoded = decode(contents, records)
        except BadRunError:
            # One of them is bad, and shows when it is alone.
            decoded = self._each(lambda i: decode({i: contents[i]}, records)[i], contents)
        tables |= decoded
        self.good = {
            i: StoredRun(i, record, tables[i] if cache else {})
            for i, record in records.items()
            if i in tables
        }
        if cache:
            for i, found in decoded.items():
                cache.add(records[i], stamps[i], found)

    def _each(self, step: Callable[[str], T | None], ids: Iterable[str]) -> dict[str, T]:
        """Takes one step with each of some runs; those that it finds bad are not in the result."""
        done = {}
        for run_id in ids:
            try:
                found = step(run_id)
            except BadRunError as error:
                self.bad[run_id] = str(error)
                continue
            if found is not None:
                done[run_id] = found
        return done

    def _reader(self, run_id: str) -> Reader:
        return lambda name: self._files.read(f"runs/{run_id}/{name}")

    def _stamps(self, run_id: str, record: dict[str, Any]) -> Stamps:
        return [self._files.stamp(f"runs/{run_id}/{name}") for name in record["files"]]
