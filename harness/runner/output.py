"""What a worker prints, on its way to a log that never grows long.

The worker writes to a pipe, not to the file: one that prints without end must not fill the disk.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.store.files import make_folder
from pacebench.harness.store.reading import MIB, open_file

KEEP = 64 * 1024
_LONGEST = MIB
_CHUNK = 65536
_DROPPED = "[… what was printed before was too much to keep]\n".encode()


class WorkerOutput:
    """Reads the output of one worker for as long as it lives, in a thread of its own.

    Attributes:
        write_end: The descriptor that the worker is to print to; the parent closes its copy.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._lock = threading.Lock()
        self._end = b""
        self._file, self._size = -1, 0
        self._closing = False
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def begin(self, log: Path) -> None:
        """Sends the output to a log from now on, and what was printed before there was one."""
        with self._lock:
            # A log is not worth a run: where it cannot be written, it is not.
            with contextlib.suppress(OSError, UserError):
                make_folder(log.parent)
                self._file = open_file(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                self._size = os.fstat(self._file).st_size
            self._write(self._end)

    def end(self) -> str:
        """Closes the log once everything printed so far is in it; returns the last line."""
        self._read()
        with self._lock:
            said = self._end.decode(errors="replace").strip()
            self._end = b""
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
        return said.splitlines()[-1] if said else ""

    def close(self) -> None:
        """Stops reading; for when the worker is gone."""
        self._closing = True
        self._thread.join()
        self.end()
        os.close(self._read_end)

    def _read_on(self) -> None:
        # The worker's children may keep the pipe open after it, so the end of it is no sign alone.
        while not self._closing:
            ready, _, _ = select.select([self._read_end], [], [], 0.5)
            if ready and not self._read():
                return

    def _read(self) -> bool:
        """Takes what is in the pipe; returns whether more may come."""
        with self._lock, contextlib.suppress(BlockingIOError):
            # More than a pipe holds, and not without end.
            for _ in range(64):
                chunk = os.read(self._read_end, _CHUNK)
                if not chunk:
                    return False
                self._end = (self._end + chunk)[-KEEP:]
                self._write(chunk)
        return True

    def _write(self, chunk: bytes) -> None:
        if self._file < 0:
            return
        with contextlib.suppress(OSError):
            if self._size + len(chunk) > _LONGEST:
                os.ftruncate(self._file, 0)
                chunk = _DROPPED + self._end
                self._size = 0
            self._size += os.write(self._file, chunk)
