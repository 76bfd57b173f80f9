"""Ctrl-C: once to stop at the next checkpoint, twice to stop at once.

SIGTERM counts like Ctrl-C. A closed terminal (SIGHUP) asks for a stop at the next checkpoint,
however often the signal is sent.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupt:
    """Counts how often we were asked to stop."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def asked(self) -> bool:
        """Whether to stop at the next checkpoint."""
        return self._count > 0

    @property
    def at_once(self) -> bool:
        """Whether to stop without waiting for a checkpoint."""
        return self._count > 1

    def ask(self, *_: int | FrameType | None) -> None:
        """Counts one more."""
        self._count += 1

    def hang_up(self, *_: int | FrameType | None) -> None:
        """Asks for a stop at the next checkpoint, unless that was asked for already."""
        self._count = max(1, self._count)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hears the signals inside the block; outside the main thread it cannot."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = {signal.SIGINT: self.ask, signal.SIGTERM: self.ask, signal.SIGHUP: self.hang_up}
        before = {number: signal.getsignal(number) for number in heard}
        if before[signal.SIGHUP] is signal.SIG_IGN:  # started by nohup
            del heard[signal.SIGHUP], before[signal.SIGHUP]
        for number, handler in heard.items():
            signal.signal(number, handler)
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)
