"""The study's diary: every start, finish, failure, retry, report and tuning call, never edited.

One JSON object per line. Whatever looks at data or makes it writes here, so that a reader can tell
how often the data were looked at and what it took to make them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pacebench.harness.store.files import make_folder, storage
from pacebench.harness.store.provenance import git_state, hostname, package_versions
from pacebench.harness.store.study_files import StudyFiles

NAME = "ledger.jsonl"
# The lock on the file keeps other processes out, not other threads.
_THREADS = threading.Lock()


def now() -> str:
    """Returns the present time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Ledger:
    """Appends to and reads `ledger.jsonl` of one study; its packed part comes first."""

    def __init__(self, files: StudyFiles | Path | str) -> None:
        self._files = files if isinstance(files, StudyFiles) else StudyFiles(Path(files))
        self.path = self._files.folder / NAME

    def append(self, event: str, **facts: Any) -> None:
        """Adds one line and waits until it is on the disk.

        Args:
            event: What happened, in one word or two joined by a hyphen.
            facts: JSON-able details.

        Raises:
            StorageError: It cannot be written.
        """
        self.append_all([{"event": event, **facts}])

    def append_all(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Adds one line for each event, and waits for the disk once.

        Args:
            events: JSON-able details of each, among them `event`.

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
        lines = [{"time": now(), **event, **where} for event in events]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        make_folder(self.path.parent)
        with storage(self.path), _THREADS:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                # O_APPEND is enough on a local disk; network file systems need the lock as well.
                with contextlib.suppress(OSError):
                    fcntl.lockf(descriptor, fcntl.LOCK_EX)
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
        packed = self._files.read_packed(NAME) if NAME in self._files.packed else b""
        loose = self.path.read_bytes() if self.path.exists() else b""
        # Packing or unpacking that was killed half-way left the same lines in both.
        if loose.startswith(packed) or packed.endswith(loose):
            return max(loose, packed, key=len)
        return packed + loose

    def read(self) -> list[dict[str, Any]]:
        """Returns the entries in order; a line cut short by a full disk is left out."""
        entries = []
        for line in self.text().decode(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                if isinstance(entry, dict) and "event" in entry:
                    entries.append(entry)
        return entries
