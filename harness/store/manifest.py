"""The manifest: the plan and the full list of runs, which is the denominator of every table.

It only ever grows. A run that the study file no longer asks for stays listed, as not current, so
that nothing drops out of a study without a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, ValidationError

from pacebench.harness.errors import UserError
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.files import StorageError, write_atomic
from pacebench.harness.store.ledger import now
from pacebench.harness.store.provenance import provenance
from pacebench.harness.store.reading import first_mistake, no_collection, parse_record
from pacebench.harness.store.study_files import MANIFEST, StudyFiles
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import Cell, Frozen, PlannedRun, digest

FORMAT = 1


class ManifestEntry(Frozen):
    """One run of the study.

    Attributes:
        run_id: The content address; two labels may share one.
        cell: Digest of the cell, a key of `Manifest.cells`.
        current: Whether the study file as it is now asks for this run.
    """

    run_id: str
    label: str
    cell: str
    seed: RunSeed
    current: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others: a run may have two labels."""
        return self.label, self.run_id


class Change(Frozen):
    """One version of the plan: when, on what code, and what it added or retired."""

    time: str
    plan_digest: str
    added: int
    retired: int
    provenance: dict[str, Any]


class Manifest(Frozen):
    """The plan of a study and everything it ever asked to run.

    Attributes:
        plan: The study as resolved from its file.
        evaluation_hashes: Hash of the held-out contexts and evaluation seeds, by the cell's digest.
        entries: The runs, in the order of the plan, retired ones last.
    """

    format: int = FORMAT
    study: str
    plan: dict[str, Any]
    plan_digest: str
    cells: dict[str, Cell] = Field(default_factory=dict)
    evaluation_hashes: dict[str, str] = Field(
        default_factory=dict, validation_alias=AliasChoices("evaluation_hashes", "examinations")
    )
    entries: tuple[ManifestEntry, ...] = ()
    history: tuple[Change, ...] = ()

    def current(self) -> list[ManifestEntry]:
        """Returns the entries that the study file asks for."""
        return [entry for entry in self.entries if entry.current]

    def current_cells(self) -> list[Cell]:
        """Returns the cells that the study file asks for."""
        return [self.cells[name] for name in dict.fromkeys(e.cell for e in self.current())]


def extend(
    old: Manifest | None,
    study: str,
    plan: dict[str, Any],
    runs: Sequence[PlannedRun],
    evaluation_hashes: Mapping[str, str] | None = None,
) -> Manifest:
    """Returns the manifest with the plan's runs, and those it had before.

    Raises:
        UserError: The old manifest is of another study, or its runs were evaluated on others.
    """
    evaluation_hashes = dict(evaluation_hashes or {})
    if old is not None and old.study != study:
        raise UserError(
            f"the results folder belongs to the study '{old.study}', not to '{study}'; "
            "use another --results folder or rename the study."
        )
    known_hashes = old.evaluation_hashes if old else {}
    for name, found in evaluation_hashes.items():
        if known_hashes.get(name, found) != found:
            raise UserError(
                f"the results folder of '{study}' holds runs evaluated on other held-out contexts "
                "than this machine draws (another version of NumPy?); use another --results folder."
            )
    entries = [
        ManifestEntry(run_id=run.run_id, label=run.label, cell=run.cell.digest, seed=run.seed)
        for run in runs
    ]
    wanted = {entry.key for entry in entries}
    before = old.entries if old else ()
    retired = [e.model_copy(update={"current": False}) for e in before if e.key not in wanted]
    history = old.history if old else ()
    added = len(wanted - {entry.key for entry in before})
    newly_retired = sum(1 for e in before if e.current and e.key not in wanted)
    plan_digest = digest(plan)
    if old is None or added or newly_retired or plan_digest != old.plan_digest:
        change = Change(
            time=now(),
            plan_digest=plan_digest,
            added=added,
            retired=newly_retired,
            provenance=provenance(),
        )
        history = (*history, change)
    return Manifest(
        study=study,
        plan=plan,
        plan_digest=plan_digest,
        cells={**(old.cells if old else {}), **{run.cell.digest: run.cell for run in runs}},
        evaluation_hashes={**known_hashes, **evaluation_hashes},
        entries=(*entries, *retired),
        history=history,
    )


@no_collection()
def read_manifest(files: StudyFiles) -> Manifest | None:
    """Returns the manifest of a results folder, or None where there is none.

    Raises:
        UserError: It is not readable, was made by a newer version, or contradicts itself.
    """
    path = files.folder / MANIFEST
    try:
        record = parse_record(files.read(MANIFEST), path, FORMAT)
        manifest = Manifest.model_validate(record)
        wrong = _contradiction(manifest)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        wrong = f"is not a manifest of ours ({first_mistake(error)})"
    except OSError as error:
        raise StorageError(path, error) from error
    if wrong:
        raise UserError(
            f"{path}: {wrong}; restore it from a backup, or move it away to have it written anew."
        )
    return manifest


def _contradiction(manifest: Manifest) -> str:
    """Returns what in a manifest is not the hash of what it should be."""
    if any(cell.digest != name for name, cell in manifest.cells.items()):
        return "its content does not match its hashes"
    try:
        if manifest.plan_digest != digest(manifest.plan):
            return "its content does not match its hashes"
    except (ValueError, RecursionError):  # NaN, or nested too deeply
        return "its plan cannot be hashed"
    if len({entry.key for entry in manifest.entries}) < len(manifest.entries):
        return "it lists a run twice"
    for entry in manifest.entries:
        cell = manifest.cells.get(entry.cell)
        if cell is None:
            return f"it lists run {entry.run_id} of a cell that it does not have"
        if PlannedRun(label=entry.label, cell=cell, seed=entry.seed).run_id != entry.run_id:
            return f"run {entry.run_id} is not the hash of its cell and seed"
    return ""


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Replaces the manifest.

    Raises:
        StorageError: It cannot be written.
    """
    write_atomic(root / MANIFEST, manifest.model_dump_json(indent=1).encode() + b"\n")


def study_of(manifest: Manifest) -> Study:
    """Returns the study that a manifest was written for.

    Raises:
        UserError: The manifest was written for another version of study files.
    """
    try:
        return Study.model_validate(manifest.plan)
    except ValidationError as error:
        raise UserError(
            f"the manifest of '{manifest.study}' holds a study that this version cannot read "
            f"({first_mistake(error)}); run the study again."
        ) from None
