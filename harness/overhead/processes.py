"""Starts the measuring processes, listens to them, and ends those that take too long."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from typing import Any

import psutil

from pacebench.harness import threads

START_SECONDS = 120.0  # to import, to build instances: long, because the machine may be busy


class WorkerError(RuntimeError):
    """A measuring process died; the message is the last of what it said."""


class Worker:
    """One fresh process with one job; use as a context manager, it never outlives the block."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pacebench.harness.overhead.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=threads.environment(),
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job))
        self._process.stdin.close()
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(timeout=5)

    def next(self, timeout: float) -> dict[str, Any] | None:
        """Returns the next finding, None at the end.

        Raises:
            TimeoutError: There is none within `timeout` seconds.
            WorkerError: The process failed.
        """
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if line is not None:
            found: dict[str, Any] = json.loads(line)
            return found
        code = self._process.wait()
        if code != 0:
            self._readers[1].join(timeout=5)
            said = "".join(self._errors).strip().splitlines()
            raise WorkerError(said[-1] if said else f"a measuring process ended with code {code}")
        return None

    def next_within(self, seconds: float) -> dict[str, Any] | None:
        """Returns the next finding, as long as it takes no more than so much processor time.

        On a busy machine a process may wait long for its turn, which is not the method's doing.

        Raises:
            TimeoutError: It takes more.
            WorkerError: The process failed.
        """
        begun = self._processor_seconds()
        while True:
            try:
                return self.next(timeout=0.1)
            except TimeoutError:
                if self._processor_seconds() - begun > seconds:
                    raise

    def _processor_seconds(self) -> float:
        try:
            spent = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(spent.user + spent.system)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)
