"""Many runs at once: each step is taken with hundreds of them before the next.

That takes half as long as every step with one run after the other, because the code and the data of
a step stay in the processor's caches. Decoding, which is most of it, is done by a few threads: it
happens outside the interpreter's lock.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pacebench.harness.store.cache import SEGMENT, Stamps, TableCache, Tables
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
THREADS = min(4, os.cpu_count() or 1)


class Scan:
    """Reads and verifies runs.

    Attributes:
        good: The finished ones by id.
        bad: For every bad one the reason.

    Args:
        files: The files of the study.
        run_ids: Which runs.
        cache: Where decoded tables are kept, which are not verified again; without, the runs are
            verified and come without tables.
    """

    def __init__(self, files: StudyFiles, run_ids: Iterable[str], cache: TableCache | None) -> None:
        self.good: dict[str, StoredRun] = {}
        self.bad: dict[str, str] = {}
        self._files, self._cache = files, cache
        ids = list(dict.fromkeys(run_ids))
        with ThreadPoolExecutor(THREADS) as self._pool:
            for i in range(0, len(ids), SEGMENT):
                self._read(ids[i : i + SEGMENT])

    def _read(self, ids: Sequence[str]) -> None:
        cache, records = self._cache, self._each(lambda i: read_record(self._reader(i), i), ids)
        stamps: dict[str, Stamps] = {}
        known: dict[str, Tables] = {}
        if cache:
            # Taken before the files are read: what is written meanwhile is newer.
            stamps = {i: self._stamps(i, record) for i, record in records.items()}
            known = self._each(lambda i: cache.get(records[i]["checksum"], stamps[i]), records)
        unknown = [i for i in records if i not in known]
        contents = self._each(lambda i: read_files(self._reader(i), records[i]), unknown)
        shares = [share for i in range(THREADS) if (share := list(contents)[i::THREADS])]
        found = self._pool.map(
            lambda share: self._each(lambda i: decode(contents[i], records[i]), share), shares
        )
        decoded = ChainMap(*found)
        for run_id in decoded if cache else ():
            assert cache is not None
            cache.add(records[run_id]["checksum"], stamps[run_id], decoded[run_id])
        tables = ChainMap(known, decoded)
        for run_id in [i for i in records if i in tables]:
            kept = tables[run_id] if cache else {}
            self.good[run_id] = StoredRun(run_id, records[run_id], kept)

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
