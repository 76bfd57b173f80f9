"""Tables of runs as they were decoded before: opening ten thousand Parquet files takes a while.

An entry is found by the checksum of the run's record, which covers the checksums of its files, so
it can never be the table of other bytes. It is used for as long as the files have the size and the
time that they had when they were verified; after that they are read, verified and decoded again.

The tables are in the user's cache folder, never among the results: those come from other people,
and what is read here was verified only when it was written. All of it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pacebench.harness.errors import UserError
from pacebench.harness.store.files import make_folder, sha256, write_atomic
from pacebench.harness.store.parts import Rows, Tables, join

FORMAT = 3
# Runs and bytes of a file. What is left over is decoded every time, in a fraction of a second.
SEGMENT, _LARGEST = 250, 32 * 2**20
_ALIGNED = 64  # bytes, so that tables are used where they lie in the file

Stamps = list[list[int]]  # size and time of each file of a run, empty for one that is not there


class TableCache:
    """The decoded tables of one study.

    Args:
        root: Its results folder.
    """

    def __init__(self, root: Path) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self._folder = Path(home) / "pacebench" / f"tables-{FORMAT}" / sha256(bytes(root))[:16]
        self._fresh: dict[str, tuple[Stamps, Tables]] = {}
        self._bytes = 0
        self._known: dict[str, tuple[Path, Stamps, Tables]] = {}
        self._unused = set(self._folder.glob("*.arrow"))
        for path in sorted(self._unused):
            with contextlib.suppress(OSError, ValueError, LookupError, pa.ArrowException):
                self._open(path)

    def _open(self, path: Path) -> None:
        data = pa.memory_map(str(path)).read_buffer()
        if sha256(memoryview(data)) == path.stem:
            for checksum, (stamps, tables) in _unpack(data).items():
                self._known[checksum] = (path, stamps, tables)

    def get(self, record: Mapping[str, Any], stamps: Stamps) -> Tables | None:
        """Returns the tables of a run, or None where they are to be read from its files."""
        path, before, tables = self._known.get(record["checksum"], (None, None, None))
        if path is None or before != stamps:
            return None
        self._unused.discard(path)
        return tables

    def add(self, record: Mapping[str, Any], stamps: Stamps, tables: Tables) -> None:
        """Keeps the tables of a run whose files were verified."""
        self._fresh[record["checksum"]] = (stamps, tables)
        self._bytes += sum(record["files"][name]["bytes"] for name in tables)
        if len(self._fresh) < SEGMENT and self._bytes < _LARGEST:
            return
        fresh, self._fresh, self._bytes = self._fresh, {}, 0
        data = _pack(fresh)
        # A full or read-only disk costs the next reader time, and nothing else.
        with contextlib.suppress(UserError):
            path = make_folder(self._folder) / f"{sha256(data)}.arrow"
            write_atomic(path, data, durable=False)

    def tidy(self) -> None:
        """Removes files of which no run was asked for: they were made again, or are gone."""
        for path in self._unused:
            with contextlib.suppress(OSError):
                path.unlink()


def _pack(runs: Mapping[str, tuple[Stamps, Tables]]) -> memoryview:
    """Returns the file of some runs: few tables for all, and an index of them at the end."""
    index: dict[str, tuple[Stamps, dict[str, Any]]] = {k: (v[0], {}) for k, v in runs.items()}
    sink, ranges = pa.BufferOutputStream(), []
    for i, (name, table, rows) in enumerate(join({k: v[1] for k, v in runs.items()})):
        begin = sink.tell()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        ranges.append([begin, sink.tell()])
        sink.write(bytes(-sink.tell() % _ALIGNED))
        for checksum, (_, start, count) in rows.items():
            index[checksum][1][name] = (i, start, count)
    text = json.dumps({"parts": ranges, "runs": index}).encode()
    sink.write(text + len(text).to_bytes(8, "little"))
    return memoryview(sink.getvalue())


def _unpack(data: pa.Buffer) -> dict[str, tuple[Stamps, Tables]]:
    """Returns the runs of a file; their tables are parts of it and take no memory of their own."""
    end = data.size - 8
    length = int.from_bytes(data[end:].to_pybytes(), "little")
    index = json.loads(data[end - length : end].to_pybytes())
    parts = [pa.ipc.open_stream(data[a:b]).read_all() for a, b in index["parts"]]
    return {
        checksum: (stamps, {k: Rows(parts[i], at, count) for k, (i, at, count) in places.items()})
        for checksum, (stamps, places) in index["runs"].items()
    }
