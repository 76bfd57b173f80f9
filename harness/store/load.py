"""`load_results`: a study's results as tidy pandas frames, verified, in one call."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pacebench.harness.errors import UserError
from pacebench.harness.store.manifest import Manifest, ManifestEntry
from pacebench.harness.store.parts import Rows, pieces
from pacebench.harness.store.provenance import code_words, hardware_words, version_words
from pacebench.harness.store.reading import no_collection
from pacebench.harness.store.runs import UPDATE_FILES, StoredRun
from pacebench.harness.store.store import RunStore
from pacebench.harness.store.tables import CATEGORIES, widened

MISSING = "missing"

# The columns of `Results.runs`; `seconds_<phase>` columns follow, one per phase that was timed.
RUN_COLUMNS: dict[str, str] = {
    "run_id": "string",
    "label": "category",  # how reports call the curriculum
    "setup": "category",
    "curriculum": "category",
    "learner": "category",
    "seed": "int64",  # the index within the role
    "role": "category",  # pilot | tune | evaluate
    "root": "int64",
    "cell": "category",  # digest of the cell
    "current": "bool",  # whether the study file still asks for the run
    "status": "category",  # a Status, or `missing`
    "reason": "string",
    "env_steps": "int64",  # 0 where the run is missing
    "budget": "int64",
    "host": "category",
    "started": "string",  # UTC, ISO 8601
    "finished": "string",
    "attempts": "int64",
    "code": "category",  # revision, and whether there were uncommitted changes
    "versions": "category",  # of Python and the libraries that may change results
    "hardware": "category",
    "seconds": "float64",  # this seed's share of the time in training, over all phases
}


@dataclass(frozen=True)
class Results:
    """A study's results.

    Attributes:
        manifest: The plan and the list of runs.
        runs: One row per run of the manifest, `RUN_COLUMNS`, the missing ones included.
        evaluations: One row per evaluation episode, `EVALUATION_COLUMNS`, after `run_id`, `label`,
            `setup`, `seed`, `current`.
        updates: One row per curriculum update, `UPDATE_COLUMNS` and the UpdateRecord, after the
            same five.
        problems: For every run that is on disk but not to be trusted, what is wrong with it; such
            runs count as missing.
    """

    manifest: Manifest
    runs: pd.DataFrame
    evaluations: pd.DataFrame
    updates: pd.DataFrame
    problems: dict[str, str]

    def __repr__(self) -> str:
        """Says what is there, not all of it."""
        sizes = [f"{len(getattr(self, name)):,} {name}" for name in _FRAMES]
        return f"<Results of {self.manifest.study}: {', '.join(sizes)}>"


_FRAMES = ("runs", "evaluations", "updates")


@no_collection()
def load_results(path: Path | str) -> Results:
    """Reads the results folder of a study without changing anything in it.

    Args:
        path: The folder, `results/<study>`.

    Raises:
        UserError: The folder has no readable manifest.
    """
    store = RunStore(path)
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{path}: no results here; run the study first.")
    good, bad = store.scan((entry.run_id for entry in manifest.entries), tables=True)
    store.tidy()
    for run_id, reason in bad.items():
        warnings.warn(
            f"run {run_id} is not to be trusted and counts as missing: {reason}; "
            "`pacebench run` sets it aside and runs it again.",
            stacklevel=3,
        )
    runs = _runs_frame(manifest, good, bad)
    return Results(
        manifest=manifest,
        runs=runs,
        evaluations=_rows(runs, manifest, good, "evaluations.parquet"),
        updates=_rows(runs, manifest, good, "updates.parquet", "timings.parquet"),
        problems=bad,
    )


def _runs_frame(
    manifest: Manifest, good: dict[str, StoredRun], bad: dict[str, str]
) -> pd.DataFrame:
    rows = [_run_row(manifest, entry, good.get(entry.run_id), bad) for entry in manifest.entries]
    frame = pd.DataFrame(rows)
    typed = {name: kind for name, kind in RUN_COLUMNS.items() if name in frame}
    return frame.astype(typed)


def _run_row(
    manifest: Manifest, entry: ManifestEntry, found: StoredRun | None, bad: dict[str, str]
) -> dict[str, Any]:
    cell = manifest.cells[entry.cell]
    record = found.record if found else {}
    execution = record.get("execution", {})
    timings = {f"seconds_{k}": float(v) for k, v in record.get("timings", {}).items()}
    seconds = sum(timings.values()) if record else np.nan
    return {
        "run_id": entry.run_id,
        "label": entry.label,
        "setup": cell.setup,
        "curriculum": cell.curriculum.name,
        "learner": cell.learner.name,
        "seed": entry.seed.index,
        "role": entry.seed.role.name.lower(),
        "root": entry.seed.root,
        "cell": entry.cell,
        "current": entry.current,
        "status": record.get("status", MISSING),
        "reason": record.get("reason", bad.get(entry.run_id, "")),
        "env_steps": record.get("env_steps", 0),
        "budget": cell.budget,
        "host": execution.get("host"),
        "started": execution.get("started"),
        "finished": execution.get("finished"),
        "attempts": execution.get("attempts", 0),
        "code": code_words(execution) if execution else None,
        "versions": version_words(execution) if execution else None,
        "hardware": hardware_words(execution) if execution else None,
        "seconds": seconds,
        **timings,
    }


def _rows(
    runs: pd.DataFrame, manifest: Manifest, good: dict[str, StoredRun], *names: str
) -> pd.DataFrame:
    """Returns the rows of one kind of file over all runs, with the columns that identify a run."""
    files: list[list[Rows]] = [[] for _ in names]
    positions, lengths = [], []
    for position, entry in enumerate(manifest.entries):
        found = good.get(entry.run_id)
        if found is None or names[0] not in found.tables:
            continue
        positions.append(position)
        lengths.append(count := found.tables[names[0]].length)
        for name, rows in zip(names, files, strict=True):
            # Older runs have no file of times.
            rows.append(found.tables.get(name) or Rows(_no_times(count), 0, count))
    identity = runs[["run_id", "label", "setup", "seed", "current"]].astype({"run_id": "category"})
    if not positions:
        return identity.iloc[:0].copy()
    try:
        whole = [pa.concat_tables(pieces(rows), promote_options="permissive") for rows in files]
    except pa.ArrowException as error:
        raise UserError(f"{names[0]}: the runs record different things ({error}).") from None
    frames = [identity.iloc[np.repeat(positions, lengths)].reset_index(drop=True)]
    for name, table in zip(names, whole, strict=True):
        table = widened(table) if name in UPDATE_FILES else table
        text = [field.name for field in table.schema if pa.types.is_string(field.type)]
        repeating = [name for name in text if name in CATEGORIES]
        frames.append(table.to_pandas(categories=repeating))
    return pd.concat(frames, axis=1)


@functools.cache
def _no_times(count: int) -> pa.Table:
    return pa.table({"seconds": pa.nulls(count, pa.float64())})
