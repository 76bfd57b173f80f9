"""A study's results folder: manifest, runs, ledger, and what was set aside."""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from pacebench.harness.errors import UserError
from pacebench.harness.records import RunResult, Status
from pacebench.harness.store import manifest as manifests
from pacebench.harness.store.cache import TableCache
from pacebench.harness.store.checkpoints import NAME as CHECKPOINT
from pacebench.harness.store.files import (
    lock,
    make_folder,
    storage,
    sync_folder,
    write_atomic,
    write_together,
)
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.reading import BadFileError, no_collection, open_file
from pacebench.harness.store.runs import (
    DIAGNOSTICS,
    LOG,
    POLICY,
    BadRunError,
    StoredRun,
    read_run,
    write_run,
)
from pacebench.harness.store.scan import scan
from pacebench.harness.store.study_files import MANIFEST, RECORD, StudyFiles
from pacebench.harness.store.tables import from_parquet
from pacebench.harness.study.specs import PlannedRun

# What may be taken over from another study: outcomes that a run would have again.
_SHARED = (Status.OK, Status.DIVERGED)


@dataclass(frozen=True)
class Shared:
    """A run that was taken over, and from which study."""

    study: str
    run: StoredRun


class RunStore:
    """The results of one study.

    Attributes:
        files: Its files, loose or packed.
        root: The folder that new ones are written to, `results/<study>`.
        ledger: Its diary.
    """

    def __init__(self, root: Path | str) -> None:
        self.files = StudyFiles(Path(root).resolve())
        self.root = self.files.folder
        self.ledger = Ledger(self.files)

    def folder(self, run_id: str) -> Path:
        """Returns the folder that a run is written to, which need not exist."""
        return self.root / "runs" / run_id

    def checkpoint_path(self, run_id: str) -> Path:
        """Returns where the checkpoint of an unfinished run is."""
        return self.folder(run_id) / CHECKPOINT

    def log_path(self, run_id: str) -> Path:
        """Returns where the log of a run is written."""
        return self.folder(run_id) / LOG

    def manifest(self) -> Manifest | None:
        """Returns the manifest, or None where the study was never started.

        Raises:
            UserError: It is not readable.
        """
        return manifests.read_manifest(self.files)

    def is_there(self) -> bool:
        """Says whether the study still has its manifest, which only a stranger would remove."""
        files = self.files
        if os.path.lexists(self.root / MANIFEST):
            return True
        if not (MANIFEST in files.packed and files.archive.exists()):
            files.reopen()  # It may have been packed since we looked.
        return MANIFEST in files.packed

    @no_collection()
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
        return self.files.exists(f"runs/{run_id}/{RECORD}")

    def read(self, run_id: str, *, tables: bool = False, files: bool = True) -> StoredRun | None:
        """Reads and verifies a run; see `read_run`."""
        return read_run(
            lambda name: self.files.read(f"runs/{run_id}/{name}"),
            run_id,
            tables=tables,
            files=files,
        )

    def scan(
        self, run_ids: Iterable[str], *, tables: bool = False
    ) -> tuple[dict[str, StoredRun], dict[str, str]]:
        """Reads and verifies many runs.

        Args:
            run_ids: Which.
            tables: Also return their tables, of which those in the cache are not verified again.

        Returns:
            The finished runs by id, and for every bad one the reason.
        """
        return scan(self.files, run_ids, self._cache if tables else None)

    @functools.cached_property
    def _cache(self) -> TableCache:
        return TableCache(self.root)

    def read_tables(self, run_id: str) -> StoredRun | None:
        """Reads a run with its tables; verifies and decodes those that are not in the cache.

        Raises:
            BadRunError: Something is torn, corrupted or from elsewhere.
        """
        good, bad = self.scan([run_id], tables=True)
        if bad:
            raise BadRunError(bad[run_id])
        return good.get(run_id)

    def tidy(self) -> None:
        """Forgets tables of which nothing was read, after all runs of the study were."""
        self._cache.tidy()

    def write(self, run: PlannedRun, result: RunResult, execution: dict[str, Any]) -> None:
        """Writes a finished run; see `write_run`."""
        write_run(self.folder(run.run_id), run, result, execution)

    def policy(self, run_id: str) -> dict[str, NDArray[np.float32]]:
        """Returns the final policy of a verified run by parameter name; empty where it has none.

        Raises:
            BadRunError: Something about the run is torn, corrupted or from elsewhere.
        """
        run = self.read(run_id)
        name = f"runs/{run_id}/{POLICY}"
        if run is None or POLICY not in run.record["files"] or not self.files.exists(name):
            return {}
        try:
            found: dict[str, NDArray[np.float32]] = load_arrays(self.files.read(name))
        except SafetensorError as error:
            raise BadRunError(f"{POLICY} is no policy of ours: {error}") from None
        return found

    def diagnostics(self, run_id: str) -> pa.Table | None:
        """Returns what the learner of a verified run told of its updates, if it told anything.

        Raises:
            BadRunError: Something about the run is torn, corrupted or from elsewhere.
        """
        run = self.read(run_id)
        name = f"runs/{run_id}/{DIAGNOSTICS}"
        if run is None or not self.files.exists(name):
            return None
        try:
            return from_parquet(self.files.read(name), DIAGNOSTICS)
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise BadRunError(f"{DIAGNOSTICS} is no table of ours: {error}") from None

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
            self._make_loose(run_id)
            aside = make_folder(self.root / "quarantine") / f"{run_id}-{uuid.uuid4().hex[:8]}"
            folder, target = self.folder(run_id), aside
            with storage(aside):
                if folder.is_symlink() or not folder.is_dir():
                    # A link or a file cannot hold the reason.
                    target = make_folder(aside) / run_id
                os.rename(folder, target)
                sync_folder(aside.parent)
        write_atomic(aside / "reason.txt", f"{reason}\n".encode())
        self.ledger.append("quarantine", run=run_id, reason=reason, path=f"quarantine/{aside.name}")
        return aside

    def reopen(self, run_id: str) -> None:
        """Puts the record of a failed run aside, so that the run can be made again."""
        self._make_loose(run_id)
        aside = make_folder(self.root / "quarantine") / f"{run_id}-{uuid.uuid4().hex[:8]}.json"
        with storage(aside):
            os.rename(self.folder(run_id) / RECORD, aside)
            sync_folder(aside.parent)

    def _make_loose(self, run_id: str) -> None:
        """Takes a run out of the archive, so that its files can be moved."""
        packed, loose = self.files.names_of(run_id), {}
        for name in packed:
            # What cannot be read is damaged, which is why the run is to go.
            with contextlib.suppress(OSError, BadFileError):
                loose[name.rpartition("/")[2]] = self.files.read(name)
        if packed:
            write_together(make_folder(self.folder(run_id)), loose)
            self.files.drop(run_id)

    @functools.cached_property
    def _neighbours(self) -> list[RunStore]:
        """The other studies in the same results folder, by name."""
        found = []
        for other in sorted(self.root.parent.iterdir()):
            # A damaged neighbour is its own study's problem.
            with contextlib.suppress(UserError):
                if other != self.root and other.is_dir():
                    found.append(RunStore(other))
        return found

    def share(self, run_id: str) -> Shared | None:
        """Takes a run over from another study next to this one, if one has it."""
        for other in self._neighbours:
            try:
                found = other.read(run_id)
            except (BadRunError, UserError):
                continue  # Its own study will deal with it; this one does not touch it.
            if found is None or found.status not in _SHARED:
                continue
            self.copy(other, found)
            self.ledger.append("share", run=run_id, source=other.root.name)
            return Shared(other.root.name, found)
        return None

    def copy(self, source: RunStore, found: StoredRun) -> None:
        """Takes over a verified run of another store."""
        # Copies, not links: a file damaged here must not be damaged there.
        prefix = f"runs/{found.run_id}"
        names = [n for n in (*found.record["files"], LOG) if source.files.exists(f"{prefix}/{n}")]
        target = make_folder(self.folder(found.run_id))
        with storage(target):
            contents = {name: source.files.read(f"{prefix}/{name}") for name in names}
            if contents:
                write_together(target, contents)
            write_atomic(target / RECORD, source.files.read(f"{prefix}/{RECORD}"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runners of the study out of the block, where the file system can lock."""
        make_folder(self.root)
        path = self.root / ".lock"
        with storage(path):
            descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            lock(descriptor, path)
            yield
        finally:
            os.close(descriptor)
