"""The study's diary: every start, finish, failure, retry, report and tuning call, never edited.

One JSON object per line. Whatever looks at data or makes it writes here, so that a reader can tell
how often the data were looked at and what it took to make them.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from pacebench.harness.store.files import lock, make_folder, storage
from pacebench.harness.store.provenance import git_state, hostname, package_versions
from pacebench.harness.store.reading import (
    MIB,
    BadFileError,
    Moment,
    first_mistake,
    open_file,
    parse_json,
)
from pacebench.harness.store.study_files import LEDGER as NAME
from pacebench.harness.store.study_files import StudyFiles

_LONGEST_LINE = 16 * MIB
# The lock on the file keeps other processes out, not other threads.
_THREADS = threading.Lock()

# Never a path: logs are filed by it.
_RunId = Annotated[str, StringConstraints(pattern=r"^[\w-]{1,64}$")]
# What an entry cannot be understood without, by its event.
_NEEDED = {
    "start": ("run", "attempt"),
    "finish": ("run",),
    "quarantine": ("run",),
    "share": ("run", "source"),
    "retry": ("runs",),
    "fresh-start": ("runs",),
    "report": ("runs_known",),
}


def now() -> str:
    """Returns the present time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class _Entry(BaseModel):
    """What readers of the ledger rely on; further keys are kept as they are."""

    model_config = ConfigDict(extra="allow")

    event: str
    time: Moment
    run: _RunId | None = None
    runs: list[_RunId] | None = None
    attempt: str | None = None
    status: str | None = None
    source: str | None = None
    counts: bool | None = None
    runs_known: list[int] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        lacking = [name for name in _NEEDED.get(self.event, ()) if getattr(self, name) is None]
        if self.event == "failure" and self.run is None and self.runs is None:
            lacking = ["run"]
        if lacking:
            raise ValueError(f"'{self.event}' without '{lacking[0]}'")
        return self


class Ledger:
    """Appends to and reads `ledger.jsonl` of one study; its packed part comes first.

    Attributes:
        path: Where the loose part is.
        unreadable: Lines that the last reading left out because they were no JSON.
    """

    def __init__(self, files: StudyFiles | Path | str) -> None:
        self._files = files if isinstance(files, StudyFiles) else StudyFiles(Path(files))
        self.path = self._files.folder / NAME
        self.unreadable = 0

    def append(self, event: str, **facts: Any) -> None:
        """Adds one line and waits until it is on the disk; see `append_all`."""
        self.append_all([{"event": event, **facts}])

    def append_all(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Adds one line of JSON-able details for each, and waits for the disk once.

        One from another machine's diary keeps its time and place.

        Raises:
            StorageError: They cannot be written.
        """
        revision, dirty = git_state()
        where = {
            "host": hostname(),
            "pid": os.getpid(),
            "versions": package_versions(),
            "revision": revision,
            "dirty": dirty,
        }
        lines = [{"time": now(), **event, **where, **event} for event in events]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        make_folder(self.path.parent)
        with storage(self.path), _THREADS:
            descriptor = open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                # O_APPEND is enough on a local disk; network file systems need the lock as well.
                lock(descriptor, self.path)
                os.write(descriptor, self._mend(descriptor) + text.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @staticmethod
    def _mend(descriptor: int) -> bytes:
        """Returns the line end that a write cut short by a full disk still owes."""
        size = os.fstat(descriptor).st_size
        return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""

    def text(self) -> bytes:
        """Returns the whole ledger, packed and loose, as it stands in a file."""
        parts = []
        for packed in self._forms():
            with self._files.stream(NAME, packed=packed) as file:
                parts.append(file.read())
        return b"".join(parts)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yields the entries in order, without holding the file in memory.

        A line that is no JSON was cut short by a full disk; it is left out and counted.

        Raises:
            BadFileError: The ledger is no file, or a line is no entry of ours.
        """
        self.unreadable, number = 0, 0
        for packed in self._forms():
            with self._files.stream(NAME, packed=packed) as file:
                while line := file.readline(_LONGEST_LINE):
                    number += 1
                    if len(line) == _LONGEST_LINE:
                        raise BadFileError(self.path, f"has a line {number} that never ends")
                    entry = self._parse(line, number)
                    if entry is not None:
                        yield entry

    def _parse(self, line: bytes, number: int) -> dict[str, Any] | None:
        if not line.strip():
            return None
        try:
            entry = parse_json(line, self.path)
        except BadFileError:
            self.unreadable += 1
            return None
        try:
            _Entry.model_validate(entry)
        except ValidationError as error:
            what = f"has a line {number} that is no entry of ours ({first_mistake(error)})"
            raise BadFileError(self.path, what) from None
        return dict(entry)

    def read(self) -> list[dict[str, Any]]:
        """Returns the entries in order, all at once; see `entries`."""
        return list(self.entries())

    def _forms(self) -> tuple[bool, ...]:
        """Returns whether to read the packed form, the loose one, or one after the other."""
        if NAME not in self._files.packed or not os.path.lexists(self.path):
            return (NAME in self._files.packed,)
        with (
            self._files.stream(NAME, packed=True) as packed,
            self._files.stream(NAME, packed=False) as loose,
        ):
            before, after = (file.seek(0, os.SEEK_END) for file in (packed, loose))
            # Packing or unpacking that was killed half-way left the same lines in both.
            packed.seek(max(0, before - after))
            loose.seek(0)
            if not _equal(packed, loose, min(before, after)):
                return (True, False)
        return (False,) if after >= before else (True,)


def _equal(one: IO[bytes], other: IO[bytes], size: int) -> bool:
    """Says whether the next `size` bytes of two files are the same."""
    for start in range(0, size, MIB):
        length = min(MIB, size - start)
        if one.read(length) != other.read(length):
            return False
    return True
