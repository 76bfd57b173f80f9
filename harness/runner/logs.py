"""Logs: what a worker printed, filed with each run that it was about.

A log is not worth a run: where it cannot be written, it is not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.runner.output import KEEP
from pacebench.harness.store.files import make_folder
from pacebench.harness.store.ledger import now
from pacebench.harness.store.reading import BadFileError, open_file, open_stream
from pacebench.harness.store.store import RunStore

TAIL_LINES = 20


def file_log(store: RunStore, attempt: str, run_ids: Iterable[str], ending: str) -> None:
    """Appends the output of an attempt to the log of each of its runs, and removes it."""
    path = _path(store, attempt)
    output = _end_of(path)
    text = f"[{now()}] attempt {attempt}: {ending}\n{output}"
    if output and not output.endswith("\n"):
        text += "\n"
    for run_id in run_ids:
        with contextlib.suppress(OSError, UserError):
            make_folder(store.folder(run_id))
            log = open_file(store.log_path(run_id), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(log, "ab") as file:
                file.write(text.encode(errors="replace"))
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def tail(store: RunStore, run_id: str, lines: int = TAIL_LINES) -> str:
    """Returns the last lines of a run's log."""
    return "\n".join(_end_of(store.log_path(run_id)).splitlines()[-lines:])


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


def _end_of(path: Path) -> str:
    try:
        with open_stream(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - KEEP))
            return file.read(KEEP).decode("utf-8", errors="replace")
    except (OSError, BadFileError):
        return ""
