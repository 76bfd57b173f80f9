"""`merge`: the runs of one study, made on several machines, in one results folder.

Everything is read and verified before anything is written. A study is the same if its plan is, and
its code if the run ids are: they are hashes of everything that determines a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.records import Status
from pacebench.harness.store.files import write_atomic
from pacebench.harness.store.manifest import Manifest, write_manifest
from pacebench.harness.store.pack import PLAN, verified
from pacebench.harness.store.runs import StoredRun, record_digest
from pacebench.harness.store.same_study import plan_differences
from pacebench.harness.store.store import RunStore

_REMEDY = "; nothing is merged"


class Merge:
    """What merging would do, checked; nothing is written before `write`.

    Attributes:
        root: The results folder that everything is brought into.
    """

    def __init__(self, sources: Sequence[Path], results: Path) -> None:
        """Reads and checks the sources, which are packed studies or results folders.

        Raises:
            UserError: A source is no study, is damaged, or does not belong to the others.
        """
        found = [_opened(source) for source in dict.fromkeys(sources)]
        if not found:
            raise UserError("name the packed studies to merge.")
        name = found[0][1].study
        if Path(name).name != name:
            raise UserError(f"{sources[0]}: its study '{name}' names no folder.")
        self.root = results / name
        self._target = RunStore(self.root)
        there = self._target.manifest()
        self._known = {} if there is None else verified(self._target, self._target.root, _REMEDY)
        self._sources = [(s, m) for s, m in found if s.root != self._target.root]
        self._manifest = there or found[0][1]
        self._new: list[tuple[RunStore, StoredRun]] = []
        self._plans: dict[bytes, RunStore] = {}
        for store, manifest in [*([(self._target, there)] if there else ()), *self._sources]:
            self._belongs(store, manifest)
        for store, _ in self._sources:
            self._add(store)

    def write(self) -> Iterator[str]:
        """Brings the runs, the diaries and the frozen plan together.

        Yields:
            What was done, a line per source.
        """
        with self._target.locked():
            for store, found in self._new:
                if self._target.has(found.run_id):
                    self._target.reopen(found.run_id)  # The machine failed it here; not there.
                self._target.copy(store, found)
            write_manifest(self._target.root, self._manifest)
            for text in self._plans:
                write_atomic(self._target.root / PLAN, text)
        noted = {json.dumps(entry, sort_keys=True) for entry in self._target.ledger.entries()}
        for store, _ in self._sources:
            entries = store.ledger.read()
            fresh = [e for e in entries if json.dumps(e, sort_keys=True) not in noted]
            self._target.ledger.append_all(fresh)
            noted |= {json.dumps(entry, sort_keys=True) for entry in fresh}
            runs = [found.run_id for source, found in self._new if source is store]
            self._target.ledger.append("merge", source=store.files.archive.name, runs=runs)
            yield f"{store.root}: {len(runs)} new runs, {len(fresh)} lines of the diary"
        yield f"{self.root}: {len(self._target.files.run_ids())} runs"

    def _belongs(self, store: RunStore, manifest: Manifest) -> None:
        """Refuses another study, other code, and another frozen plan."""
        ours = self._manifest
        if manifest.study != ours.study or manifest.plan_digest != ours.plan_digest:
            raise UserError(
                f"{store.root}: holds another study than {self.root}, or another version of it; "
                "nothing is merged.",
                *plan_differences(ours, manifest),
            )
        # Of an adaptive study, the machines may have made different waves of the same cells.
        cells = [{entry.cell for entry in m.current()} for m in (ours, manifest)]
        if cells[0] != cells[1]:
            lacking = next(iter(cells[1] - cells[0] or cells[0] - cells[1]))
            cell = (manifest.cells | ours.cells)[lacking]
            raise UserError(
                f"{store.root}: was made by other code than {self.root}: the runs of "
                f"'{cell.curriculum.name}' on '{cell.setup}' have other ids; nothing is merged."
            )
        hashes = ours.evaluation_hashes
        if any(hashes.get(k, v) != v for k, v in manifest.evaluation_hashes.items()):
            raise UserError(
                f"{store.root}: was evaluated on other held-out contexts than {self.root}; nothing "
                "is merged."
            )
        if store.files.exists(PLAN):
            self._plans[store.files.read(PLAN)] = store
        if len(self._plans) > 1:
            raise UserError(
                f"{store.root}: has another frozen plan than {self.root}; nothing is merged."
            )
        known = {entry.key for entry in ours.entries}
        both = (*ours.entries, *(e for e in manifest.entries if e.key not in known))
        update = {
            # In the order of the plan, retired ones last.
            "entries": tuple(sorted(both, key=lambda entry: not entry.current)),
            "cells": {**manifest.cells, **ours.cells},
            "evaluation_hashes": {**manifest.evaluation_hashes, **hashes},
        }
        self._manifest = ours.model_copy(update=update)

    def _add(self, store: RunStore) -> None:
        """Notes the runs that only this source has, once those that others have too agree."""
        listed = {entry.run_id for entry in self._manifest.entries}
        for run_id, found in verified(store, store.root, _REMEDY).items():
            if run_id not in listed:
                raise UserError(
                    f"{store.root}: run {run_id} is not in its manifest; nothing is merged."
                )
            before = self._known.get(run_id)
            if found.status is Status.INFRASTRUCTURE and before is not None:
                continue
            if before is None or before.status is Status.INFRASTRUCTURE:
                self._new = [(s, f) for s, f in self._new if f.run_id != run_id]
                self._new.append((store, found))
                self._known[run_id] = found
            elif record_digest(before.record) != record_digest(found.record):
                raise UserError(
                    f"{store.root}: run {run_id} is there already with other results, though the "
                    "same code and seed made both; find out which machine to trust. Nothing is "
                    "merged."
                )


def _opened(source: Path) -> tuple[RunStore, Manifest]:
    if not source.exists():
        raise UserError(f"{source}: there is no such file.")
    store = RunStore(source)
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{source}: is no packed study and no results folder.")
    return store, manifest
