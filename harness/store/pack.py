"""`pack` and `unpack`: a study as one file, and as loose files again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.store.elsewhere import elsewhere
from pacebench.harness.store.files import make_folder, storage, write_atomic, write_together
from pacebench.harness.store.runs import (
    DIAGNOSED,
    DISPENSABLE_FILES,
    LOG,
    POLICY,
    StoredRun,
    record_digest,
)
from pacebench.harness.store.store import RunStore
from pacebench.harness.store.study_files import (
    LEDGER,
    MANIFEST,
    RECORD,
    StudyFiles,
    write_archive,
)

PLAN = "plan.json"


def pack(
    root: Path, out: Path | None = None, *, light: bool = False, beside: Sequence[str] = ()
) -> Path:
    """Packs the plan, the ledger and all finished runs of a study into one file.

    Every run is verified first. Packed inside its folder the loose files are removed once the
    archive has been read back; reports, unfinished runs and what was set aside stay as they are.

    Args:
        root: The results folder.
        out: Where to write a copy instead, leaving the folder as it is.
        light: Whether to leave out what no statistic needs: final policies, and, but for the first
            seeds, the learner's diagnostics and the time of each update.
        beside: Studies in the same results folder, to which runs that they have, too, are left.

    Raises:
        UserError: There is nothing to pack, a run is damaged, or the file cannot be written.
    """
    store = RunStore(root)
    if beside and out:
        raise UserError(f"--out {out}: a copy is read without --beside {beside[0]}; name one.")
    path = store.files.archive if out is None else out
    if path.suffix != ".zip":
        raise UserError(f"--out {path}: a packed study is a zip file; let its name end in .zip.")
    with store.locked():
        contents, left = _contents(store, light=light, beside=beside)
        write_archive(path, contents)
        written = StudyFiles(path)
        if {name: written.read_packed(name) for name in written.packed} != contents:
            raise UserError(f"{path}: cannot be read back as it was written; pack again.")
        if out is None:
            _remove_loose(store, [*contents, *left])
    return path


def _contents(
    store: RunStore, *, light: bool, beside: Sequence[str]
) -> tuple[dict[str, bytes], list[str]]:
    """Returns what to pack by name, and the names of what is left to other studies."""
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{store.root}: no results here to pack; run the study first.")
    remedy = "; `pacebench run` sets it aside and makes it again, then pack"
    good = verified(store, store.root, remedy)
    keepers = _keepers(store.root, good, beside)
    names: list[str] = [MANIFEST, PLAN]
    left: list[str] = []
    for run_id, run in good.items():
        shown = run.record["run"]["seed"]["index"] < DIAGNOSED
        left_out = (POLICY,) if shown else DISPENSABLE_FILES
        kept = [n for n in run.record["files"] if not light or n not in left_out]
        of_run = [f"runs/{run_id}/{name}" for name in (*kept, LOG, RECORD)]
        (left if run_id in keepers else names).extend(of_run)
    contents = {name: store.files.read(name) for name in names if store.files.exists(name)}
    return {**contents, **elsewhere(keepers), LEDGER: store.ledger.text()}, left


def _keepers(root: Path, good: Mapping[str, StoredRun], studies: Sequence[str]) -> dict[str, str]:
    """Returns the study that has the same bytes of a run, for the runs of which one has."""
    bytes_of = {run_id: record_digest(run.record) for run_id, run in good.items()}
    found: dict[str, str] = {}
    for study in studies:
        other = root.parent / study
        if other.parent != root.parent or other == root:
            raise UserError(f"--beside {study}: is not the name of another study in {root.parent}.")
        # Its own runs: those that it leaves to this study are nowhere else.
        own = StudyFiles(other, follow=False).run_ids()
        there, _ = RunStore(other).scan(own & good.keys() - found.keys())
        same = [i for i, run in there.items() if record_digest(run.record) == bytes_of[i]]
        if not same:
            raise UserError(f"--beside {study}: {other} has no run of this study.")
        found |= dict.fromkeys(same, study)
    return found


def verified(store: RunStore, where: Path, remedy: str = "") -> dict[str, StoredRun]:
    """Returns all finished runs of a study, if none is damaged.

    Raises:
        UserError: One is; it names the place and says the remedy.
    """
    good, bad = store.scan(store.files.run_ids())
    for run_id, reason in bad.items():
        raise UserError(f"{where}: run {run_id} is damaged ({reason}){remedy}.")
    return good


def _remove_loose(store: RunStore, names: Iterable[str]) -> None:
    with storage(store.root):
        for name in names:
            (store.root / name).unlink(missing_ok=True)
        for folder in (*(store.root / "runs").glob("*/"), store.root / "runs"):
            # The folder of an unfinished run holds its checkpoint, and stays.
            with contextlib.suppress(OSError):
                folder.rmdir()


def unpack(source: Path, results: Path) -> Path:
    """Writes the files of a packed study loose again, verified, and returns its folder.

    A study from elsewhere gets a folder of its own in `results`.

    Raises:
        UserError: It is no packed study, is damaged, or its folder exists already.
    """
    packed = RunStore(source)
    manifest = packed.manifest()
    if manifest is None or not packed.files.packed:
        raise UserError(f"{source}: is no packed study; pack one with `pacebench pack`.")
    verified(packed, packed.files.archive)
    if Path(manifest.study).name != manifest.study:
        raise UserError(f"{packed.files.archive}: its study '{manifest.study}' names no folder.")
    inside = packed.files.archive.parent == packed.root
    target = packed.root if inside else results / manifest.study
    if not inside and target.exists():
        raise UserError(f"{target}: exists already; unpack into another --results folder.")
    by_folder: dict[Path, dict[str, bytes]] = {}
    run_files = [name for i in packed.files.run_ids() for name in packed.files.names_of(i)]
    for name in ({MANIFEST, PLAN} & packed.files.packed).union(run_files):
        path = target / name
        by_folder.setdefault(path.parent, {})[path.name] = packed.files.read(name)
    for folder, contents in by_folder.items():
        # The record of a run vouches for its files, so it comes last.
        record = contents.pop(RECORD, None)
        write_together(make_folder(folder), contents)
        if record is not None:
            write_atomic(folder / RECORD, record)
    write_atomic(target / LEDGER, packed.ledger.text())
    if inside:
        packed.files.archive.unlink()
    return target
