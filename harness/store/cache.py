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

FORMAT = 2
# Runs and bytes of a file. What is left over is decoded every time, in a fraction of a second.
SEGMENT, _LARGEST = 250, 32 * 2**20
_ALIGNED = 64  # bytes, so that tables are used where they lie in the file

Stamps = list[list[int]]  # size and time of each file of a run, empty for one that is not there
Tables = dict[str, pa.Table]


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
        self._unused: set[Path] = set()
        for path in sorted(self._folder.glob("*.arrow")):
            self._unused.add(path)
            with contextlib.suppress(OSError, ValueError, LookupError, pa.ArrowException):
                self._open(path)

    def _open(self, path: Path) -> None:
        data = pa.memory_map(str(path)).read_buffer()
        if sha256(memoryview(data)) == path.stem:
            for checksum, (stamps, tables) in _unpack(data).items():
                self._known[checksum] = (path, stamps, tables)

    def get(self, checksum: str, stamps: Stamps) -> Tables | None:
        """Returns the tables of a run, or None where they are to be read from its files."""
        path, before, tables = self._known.get(checksum, (None, None, None))
        if path is None or before != stamps:
            return None
        self._unused.discard(path)
        return tables

    def add(self, checksum: str, stamps: Stamps, tables: Tables) -> None:
        """Keeps the tables of a run whose files were verified.

        Sooner or later `tables` becomes a part of those of many runs: small ones by the thousand
        take several times the memory, and whatever is done with them several times as long.
        """
        self._fresh[checksum] = (stamps, tables)
        # A policy that was left out when the study was packed has neither size nor time.
        self._bytes += sum(stamp[0] for stamp in stamps if stamp)
        if len(self._fresh) < SEGMENT and self._bytes < _LARGEST:
            return
        fresh, self._fresh, self._bytes = self._fresh, {}, 0
        data = _pack(fresh)
        for name, (_, parts) in _unpack(pa.py_buffer(data)).items():
            fresh[name][1].update(parts)
        # A full or read-only disk costs the next reader time, and nothing else.
        with contextlib.suppress(UserError):
            path = make_folder(self._folder) / f"{sha256(data)}.arrow"
            write_atomic(path, data, durable=False)

    def tidy(self) -> None:
        """Removes files of which no run was asked for: they were made again, or are gone."""
        for path in self._unused:
            with contextlib.suppress(OSError):
                path.unlink()


def _pack(runs: Mapping[str, tuple[Stamps, Tables]]) -> bytes:
    """Returns the file of some runs: an index, and one table for all that have equal columns."""
    places: dict[str, tuple[Stamps, dict[str, Any]]] = {}
    parts: list[tuple[str, pa.Schema, list[pa.Table]]] = []
    lengths: list[int] = []
    for checksum, (stamps, tables) in runs.items():
        own = {}
        for name, table in tables.items():
            equal = (
                i
                for i, (of, schema, _) in enumerate(parts)
                if of == name and schema == table.schema
            )
            i = next(equal, len(parts))
            if i == len(parts):
                parts.append((name, table.schema, []))
                lengths.append(0)
            own[name] = (i, lengths[i], table.num_rows)
            parts[i][2].append(table)
            lengths[i] += table.num_rows
        places[checksum] = (stamps, own)
    streams = [_stream(pa.concat_tables(tables)) for *_, tables in parts]
    # The index says where the tables begin, and they begin after it: its length is fixed first.
    room = len(json.dumps({"parts": [[1 << 50, 1 << 50]] * len(parts), "runs": places})) + 8
    at, ranges = -(-room // _ALIGNED) * _ALIGNED, []
    for stream in streams:
        ranges.append([at, at + len(stream)])
        at += -(-len(stream) // _ALIGNED) * _ALIGNED
    index = json.dumps({"parts": ranges, "runs": places}).encode()
    data = bytearray(at)
    data[: 8 + len(index)] = len(index).to_bytes(8, "little") + index
    for (begin, end), stream in zip(ranges, streams, strict=True):
        data[begin:end] = stream
    return bytes(data)


def _unpack(data: pa.Buffer) -> dict[str, tuple[Stamps, Tables]]:
    """Returns the runs of a file; their tables are parts of it and take no memory of their own."""
    length = int.from_bytes(data[:8].to_pybytes(), "little")
    index = json.loads(data[8 : 8 + length].to_pybytes())
    parts = [pa.ipc.open_stream(data[a:b]).read_all() for a, b in index["parts"]]
    return {
        checksum: (stamps, {k: parts[i].slice(at, rows) for k, (i, at, rows) in places.items()})
        for checksum, (stamps, places) in index["runs"].items()
    }


def _stream(table: pa.Table) -> bytes:
    table = table.combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
