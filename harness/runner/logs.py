"""Logs: what a worker printed, filed with each run that it was about.

A log is not worth a run: where it cannot be written, it is not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from pacebench.harness.store.ledger import now
from pacebench.harness.store.reading import MIB, BadFileError, open_file, open_stream
from pacebench.harness.store.store import RunStore

_KEEP = 64 * 1024
# A worker that prints without end must not fill the disk.
_LONGEST = 8 * MIB
TAIL_LINES = 20


def file_log(store: RunStore, attempt: str, run_ids: Iterable[str], ending: str) -> None:
    """Appends the output of an attempt to the log of each of its runs, and removes it."""
    path = _path(store, attempt)
    output = _end_of_file(path)
    text = f"[{now()}] attempt {attempt}: {ending}\n{output}"
    if output and not output.endswith("\n"):
        text += "\n"
    for run_id in run_ids:
        append(store.log_path(run_id), text)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def append(path: Path, text: str) -> None:
    """Adds text to a log."""
    with contextlib.suppress(OSError, BadFileError):
        descriptor = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "ab") as file:
            file.write(text.encode(errors="replace"))


def shorten(path: Path) -> None:
    """Keeps only the end of a log that has grown too long, while its worker goes on writing."""
    with contextlib.suppress(OSError, BadFileError):
        if path.stat().st_size > _LONGEST:
            kept = _end_of_file(path)
            # The worker appends, so its next line comes after what stands here then.
            os.truncate(path, 0)
            append(path, f"[… the output before this was too long to keep]\n{kept}")


def tail(store: RunStore, run_id: str, lines: int = TAIL_LINES) -> str:
    """Returns the last lines of a run's log."""
    return "\n".join(_end_of_file(store.log_path(run_id)).splitlines()[-lines:])


def file_orphans(store: RunStore, live_attempts: Iterable[str]) -> None:
    """Files the output of attempts whose runner was killed before it could."""
    left = {path.stem for path in (store.root / "attempts").glob("*.log")} - set(live_attempts)
    if not left:
        return
    runs: dict[str, list[str]] = {attempt: [] for attempt in left}
    for entry in store.ledger.entries():
        if entry["event"] == "start" and entry["attempt"] in runs:
            runs[entry["attempt"]].append(entry["run"])
    for attempt, run_ids in runs.items():
        file_log(store, attempt, run_ids, "the runner was killed")


def _path(store: RunStore, attempt: str) -> Path:
    return store.root / "attempts" / f"{attempt}.log"


def _end_of_file(path: Path) -> str:
    try:
        with open_stream(path) as file:
            return end_of(file)
    except (OSError, BadFileError):
        return ""


def end_of(file: IO[bytes]) -> str:
    """Returns the last part of what an open file holds."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _KEEP))
    return file.read(_KEEP).decode("utf-8", errors="replace")
