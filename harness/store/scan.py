"""Many runs at once: each step is taken with hundreds of them before the next.

Their files can then be decoded together, and the code and the data of a step stay in the
processor's caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pacebench.harness.store.cache import SEGMENT, Stamps, TableCache
from pacebench.harness.store.parts import Tables
from pacebench.harness.store.runs import (
    BadRunError,
    StoredRun,
    decode,
    read_files,
    read_record,
)
from pacebench.harness.store.study_files import RunFiles, StudyFiles

T = TypeVar("T")


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
    decoding: list[Future[_Segment]] = []
    # Most of decoding, and of keeping what was decoded, happens outside the interpreter: the next
    # runs are read meanwhile.
    with ThreadPoolExecutor(1) as decoder:
        for i in range(0, len(ids), SEGMENT):
            segment = _Segment(files, ids[i : i + SEGMENT], cache)
            if decoding:
                decoding[-1].result()  # No more than two wait in memory.
            decoding.append(decoder.submit(segment.decode))
    for done in decoding:
        good |= done.result().good
        bad |= done.result().bad
    return good, bad


class _Segment:
    """Some runs, read and verified when made, and then to be decoded; see `scan`.

    Attributes:
        good: The finished ones by id, once they are decoded.
        bad: For every bad one the reason.
    """

    def __init__(self, files: StudyFiles, ids: Sequence[str], cache: TableCache | None) -> None:
        self.good: dict[str, StoredRun] = {}
        self.bad: dict[str, str] = {}
        self._cache = cache
        runs = {i: RunFiles(files, i) for i in ids}
        self._records = records = self._each(lambda i: read_record(runs[i].read, i), ids)
        self._stamps: dict[str, Stamps] = {}
        self._tables: dict[str, Tables] = {}
        if cache:
            # Taken before the files are read: what is written meanwhile is newer.
            self._stamps = {
                i: [runs[i].stamp(name) for name in record["files"]]
                for i, record in records.items()
            }
            self._tables = self._each(lambda i: cache.get(records[i], self._stamps[i]), records)
        unknown = [i for i in records if i not in self._tables]
        self._contents = self._each(lambda i: read_files(runs[i].read, records[i]), unknown)

    def decode(self) -> _Segment:
        """Decodes the runs that are not in the cache, into it, and returns all of them."""
        records, contents, self._contents = self._records, self._contents, {}
        try:
            decoded = decode(contents, records)
        except BadRunError:
            # One of them is bad, and shows when it is alone.
            decoded = self._each(lambda i: decode({i: contents[i]}, records)[i], contents)
        tables = self._tables | decoded
        self.good = {
            i: StoredRun(i, record, tables[i] if self._cache else {})
            for i, record in records.items()
            if i in tables
        }
        if self._cache:
            for i, found in decoded.items():
                self._cache.add(records[i], self._stamps[i], found)
        return self

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
