"""A study's results folder: manifest, runs, ledger, and what was set aside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays

from pacebench.harness.records import RunResult, Status
from pacebench.harness.store import manifest as manifests
from pacebench.harness.store.checkpoints import NAME as CHECKPOINT
from pacebench.harness.store.files import (
    make_folder,
    storage,
    sync_folder,
    write_atomic,
    write_together,
)
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.runs import LOG, RECORD, BadRunError, StoredRun, read_run, write_run
from pacebench.harness.study.specs import PlannedRun

# What may be taken over from another study: outcomes that a run would have again.
_SHARED = (Status.OK, Status.DIVERGED)


@dataclass(frozen=True)
class Shared:
    """A run that was taken over, and from which study."""

    study: str
    run: StoredRun


class RunStore:
    """The results folder of one study.

    Attributes:
        root: The folder, `results/<study>`.
        ledger: Its diary.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).resolve()
        self.ledger = Ledger(self.root)

    def folder(self, run_id: str) -> Path:
        """Returns the folder of a run, which need not exist."""
        return self.root / "runs" / run_id

    def checkpoint_path(self, run_id: str) -> Path:
        """Returns where the checkpoint of an unfinished run is."""
        return self.folder(run_id) / CHECKPOINT

    def log_path(self, run_id: str) -> Path:
        """Returns where the log of a run is."""
        return self.folder(run_id) / LOG

    def manifest(self) -> Manifest | None:
        """Returns the manifest, or None where the study was never started.

        Raises:
            UserError: It is not readable.
        """
        return manifests.read_manifest(self.root)

    def extend_manifest(
        self,
        study: str,
        plan: dict[str, Any],
        runs: Sequence[PlannedRun],
        evaluation_hashes: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Adds the plan's runs to the manifest and returns it; see `manifest.extend`.

        Raises:
            UserError: The folder belongs to another study, holds runs that were evaluated on other
                contexts, or cannot be written.
        """
        with self.locked():
            old = self.manifest()
            new = manifests.extend(old, study, plan, runs, evaluation_hashes)
            if new != old:
                manifests.write_manifest(self.root, new)
        return new

    def has(self, run_id: str) -> bool:
        """Says whether a run has a record, without verifying it."""
        return (self.folder(run_id) / RECORD).exists()

    def read(self, run_id: str, *, tables: bool = False) -> StoredRun | None:
        """Reads and verifies a run; None where it did not finish.

        Raises:
            BadRunError: Something is torn, corrupted or from elsewhere.
        """
        return read_run(self.folder(run_id), tables=tables)

    def scan(
        self, run_ids: Iterable[str], *, tables: bool = False
    ) -> tuple[dict[str, StoredRun], dict[str, str]]:
        """Reads and verifies many runs.

        Returns:
            The finished runs by id, and for every bad one the reason.
        """
        good: dict[str, StoredRun] = {}
        bad: dict[str, str] = {}

        # One after the other: threads would spend more on the interpreter's lock than they save.
        for run_id in dict.fromkeys(run_ids):
            try:
                run = self.read(run_id, tables=tables)
            except BadRunError as error:
                bad[run_id] = str(error)
                continue
            if run is not None:
                good[run_id] = run
        return good, bad

    def write(self, run: PlannedRun, result: RunResult, execution: dict[str, Any]) -> None:
        """Writes a finished run; see `write_run`."""
        write_run(self.folder(run.run_id), run, result, execution)

    def policy(self, run_id: str) -> dict[str, NDArray[np.float32]]:
        """Returns the final policy of a verified run by parameter name; empty where it has none.

        Raises:
            BadRunError: Something about the run is torn, corrupted or from elsewhere.
        """
        run = self.read(run_id)
        path = self.folder(run_id) / "policy.safetensors"
        if run is None or path.name not in run.record["files"] or not path.exists():
            return {}
        found: dict[str, NDArray[np.float32]] = load_arrays(path.read_bytes())
        return found

    def set_aside(self, run_id: str, reason: str) -> Path | None:
        """Moves a bad run out of the way, into `quarantine/`, and notes it in the ledger.

        Returns:
            Where it is now, or None where another runner was faster.
        """
        with self.locked():
            try:
                self.read(run_id)
                return None  # Whoever was faster has run it again already.
            except BadRunError:
                pass
            aside = make_folder(self.root / "quarantine") / f"{run_id}-{uuid.uuid4().hex[:8]}"
            with storage(aside):
                os.rename(self.folder(run_id), aside)
                sync_folder(aside.parent)
        write_atomic(aside / "reason.txt", f"{reason}\n".encode())
        self.ledger.append("quarantine", run=run_id, reason=reason, path=f"quarantine/{aside.name}")
        return aside

    def reopen(self, run_id: str) -> None:
        """Puts the record of a failed run aside, so that the run can be made again."""
        aside = make_folder(self.root / "quarantine") / f"{run_id}-{uuid.uuid4().hex[:8]}.json"
        with storage(aside):
            os.rename(self.folder(run_id) / RECORD, aside)
            sync_folder(aside.parent)

    def share(self, run_id: str) -> Shared | None:
        """Takes a run over from another study next to this one, if one has it."""
        for other in sorted(self.root.parent.iterdir()):
            source = other / "runs" / run_id
            if other == self.root or not (source / RECORD).exists():
                continue
            try:
                found = read_run(source)
            except BadRunError:
                continue  # Its own study will set it aside; this one does not touch it.
            if found is None or found.status not in _SHARED:
                continue
            self._copy(source, found)
            self.ledger.append("share", run=run_id, source=other.name)
            return Shared(other.name, found)
        return None

    def _copy(self, source: Path, found: StoredRun) -> None:
        # Copies, not links: a file damaged here must not be damaged there.
        target = make_folder(self.folder(found.run_id))
        with storage(target):
            names = [name for name in found.record["files"] if (source / name).exists()]
            if names:
                write_together(target, {name: (source / name).read_bytes() for name in names})
            if (source / LOG).exists():
                shutil.copyfile(source / LOG, target / LOG)
            write_atomic(target / RECORD, (source / RECORD).read_bytes())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runners of the study out of the block, where the file system can lock."""
        make_folder(self.root)
        with storage(self.root), open(self.root / ".lock", "ab") as file:
            with contextlib.suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_EX)
            yield
