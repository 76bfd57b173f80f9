"""How a run shows itself: a live table in a terminal, plain lines elsewhere, or not at all."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pacebench.harness.runner.snapshot import Progress, Snapshot

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

_LINE_EVERY = 30.0


class Display:
    """Is told by the runner how it does; as it stands, it shows nothing."""

    def update(self, snapshot: Snapshot) -> None:
        """Hears how far the study is, about once a second."""

    def say(self, text: str) -> None:
        """Hears what happened."""

    def close(self) -> None:
        """Shows the last state for good."""


class Lines(Display):
    """Prints a line when something happened, and now and then how far the study is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = time.monotonic() + _LINE_EVERY

    def update(self, snapshot: Snapshot) -> None:
        """Prints a line, if the last one is long ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY
            self.say(line(snapshot))

    def say(self, text: str) -> None:
        """Prints the text with the time of day."""
        stamp = time.strftime("%H:%M:%S")
        with _unheard():
            self._console.print(f"{stamp} {text}", markup=False, soft_wrap=True)


class LiveTable(Display):
    """A table that renews itself, with what happened scrolling by above it."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        # Refreshed by `update` alone: a thread of its own would die loudly with the terminal.
        self._live: Live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def update(self, snapshot: Snapshot) -> None:
        """Renews the table."""
        with _unheard():
            self._live.update(table(snapshot), refresh=True)

    def say(self, text: str) -> None:
        """Prints above the table."""
        with _unheard():
            self._live.console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the table as it is."""
        with _unheard():
            self._live.stop()


def _unheard() -> contextlib.suppress:
    """Goes on when the terminal was closed or the pipe broke: the study is what counts."""
    # Rich leaves the program when its pipe breaks.
    return contextlib.suppress(OSError, SystemExit)


def choose(console: Console) -> Display:
    """Returns the display that suits a console."""
    return LiveTable(console) if console.is_terminal else Lines(console)


def line(snapshot: Snapshot) -> str:
    """Returns the state of a study in one line."""
    whole = snapshot.whole
    parts = [f"{whole.done}/{whole.total} runs done", f"{whole.running} running"]
    if whole.failures:
        parts.append(f"{whole.failures} failed")
    if whole.rate:
        parts.append(f"{whole.rate:,.0f} steps/s")
    if whole.seconds_left:
        parts.append(f"about {duration(whole.seconds_left)} left")
    return ", ".join(parts)


def table(snapshot: Snapshot) -> Table:
    """Returns the state of a study, one row per cell."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for column in ("setup", "curriculum"):
        shown.add_column(column)
    for column in ("done", "running", "failed", "waiting", "steps", "steps/s", "time left"):
        shown.add_column(column, justify="right")
    rows = (*snapshot.cells, snapshot.whole) if len(snapshot.cells) > 1 else snapshot.cells
    for row in rows:
        _add_row(shown, row)
    return shown


def _add_row(shown: Table, row: Progress) -> None:
    from rich.text import Text

    failed = ", ".join(f"{count} {status}" for status, count in row.failed.items())
    share = row.steps / row.steps_total if row.steps_total else 1.0
    shown.add_row(
        Text(row.setup or "all"),
        Text(row.label),
        f"{row.done}/{row.total}",
        str(row.running or "–"),
        Text(failed or "–", style="red" if failed else ""),
        str(row.waiting or "–"),
        f"{share:.0%}",
        f"{row.rate:,.0f}" if row.rate else "–",
        duration(row.seconds_left) if row.seconds_left else "–",
    )


def duration(seconds: float) -> str:
    """Returns a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
