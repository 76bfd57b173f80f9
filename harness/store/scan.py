"""Many runs at once: each step is taken with hundreds of them before the next.

Their files can then be decoded together, and the code and the data of a step stay in the
processor's caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pacebench.harness.store.cache import SEGMENT, Stamps, TableCache
from pacebench.harness.store.parts import Tables
from pacebench.harness.store.runs import (
    BadRunError,
    Reader,
    StoredRun,
    decode,
    read_files,
    read_record,
)
from pacebench.harness.store.study_files import StudyFiles

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
    for i in range(0, len(ids), SEGMENT):
        found = _Segment(files, ids[i : i + SEGMENT], cache)
        good |= found.good
        bad |= found.bad
    return good, bad


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
