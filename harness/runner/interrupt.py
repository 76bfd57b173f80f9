"""Ctrl-C: once to stop at the next checkpoint, twice to stop at once."""

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
        """Whether not to wait even for that."""
        return self._count > 1

    def ask(self, *_: int | FrameType | None) -> None:
        """Counts one more."""
        self._count += 1

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hears SIGINT and SIGTERM inside the block; outside the main thread it cannot."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self.ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
