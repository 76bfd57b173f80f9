"""One run on disk: its files, and `run.json`, which comes last and vouches for them."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import (
    BaseModel,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from safetensors.numpy import save as save_arrays

from pacebench import envs
from pacebench.harness.records import RunResult, Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.checkpoints import NAME as CHECKPOINT
from pacebench.harness.store.files import make_folder, sha256, write_atomic, write_together
from pacebench.harness.store.parts import Tables, join
from pacebench.harness.store.provenance import provenance
from pacebench.harness.store.reading import (
    BadFileError,
    Moment,
    first_mistake,
    parse_record,
)
from pacebench.harness.store.study_files import RECORD
from pacebench.harness.store.tables import (
    check_table,
    diagnostics_table,
    evaluations_table,
    read_parquet,
    to_parquet,
    updates_tables,
)
from pacebench.harness.study.specs import PlannedRun, canonical_json, digest

FORMAT = 1
LOG = "log.txt"
POLICY = "policy.safetensors"
DIAGNOSTICS = "diagnostics.parquet"
# Stands in the place of the record's own checksum while that is computed.
_BLANK = "0" * 64
# What differs between two executions of the same program; every other key must be equal.
EXECUTION_KEYS = ("timings", "execution", "extras", "checksum")
EXECUTION_FILES = ("timings.parquet",)
UPDATE_FILES = ("updates.parquet", "timings.parquet")
_CHECKSUM = re.compile("[0-9a-f]{64}")
# Large, and no statistic needs them: a study may be passed on without.
DISPENSABLE_FILES = (POLICY, DIAGNOSTICS, *EXECUTION_FILES)
# Seeds of a cell whose diagnostics and times a report shows: those of more say the same.
DIAGNOSED = 20


Reader = Callable[[str], bytes]


class BadRunError(Exception):
    """A run on disk that must not be read as data; the message says which file and why."""


class _File(BaseModel):
    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class _Hardware(BaseModel):
    memory_bytes: float | None = None


class _Execution(BaseModel):
    host: str | None = None
    started: Moment | None = None
    finished: Moment | None = None
    attempt: str | None = None
    attempts: Annotated[int, Field(ge=0)] = 0
    revision: str | None = None
    dirty: bool | None = None
    versions: dict[str, str] = {}
    hardware: _Hardware = _Hardware()


class _Record(BaseModel):
    """What readers of `run.json` rely on; it may have further keys."""

    run_id: str
    run: dict[str, Any]
    status: Status
    reason: str
    env_steps: Annotated[int, Field(ge=0)]
    # Only names that we write: a record must not lead a reader to a file elsewhere.
    files: dict[
        Literal[
            "evaluations.parquet",
            "updates.parquet",
            "timings.parquet",
            "diagnostics.parquet",
            "policy.safetensors",
        ],
        _File,
    ]
    timings: dict[str, float]
    extras: dict[str, Any]
    execution: _Execution

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.status is Status.OK and "evaluations.parquet" not in self.files:
            raise ValueError("it ended well without an evaluation")
        return self


@dataclass(frozen=True)
class StoredRun:
    """A verified run.

    Attributes:
        run_id: Its content address.
        record: `run.json` as parsed.
        tables: `evaluations.parquet`, `updates.parquet`, `timings.parquet`, where asked for.
    """

    run_id: str
    record: dict[str, Any]
    tables: Tables = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """How it ended."""
        return Status(self.record["status"])


def write_run(folder: Path, run: PlannedRun, result: RunResult, execution: dict[str, Any]) -> None:
    """Writes a finished run: its files first, `run.json` last.

    Args:
        folder: The run's folder; it is created.
        run: What was run.
        result: How it ended and what it recorded.
        execution: When, where and in which attempt it ran.

    Raises:
        StorageError: It cannot be written; no `run.json` is left behind.
        ValueError: The result is of another seed, or its columns are not as declared.
    """
    if result.seed != run.seed:
        raise ValueError(f"a result of seed {result.seed} was given for the run of {run.seed}.")
    make_folder(folder)
    contents = _contents(result)
    if contents:
        write_together(folder, contents)
    record: dict[str, Any] = {
        "format": FORMAT,
        "run_id": run.run_id,
        "run": run.determinants(),
        "status": result.status.value,
        "reason": result.reason,
        "env_steps": result.env_steps,
        "files": {
            name: {"bytes": len(data), "sha256": sha256(data)} for name, data in contents.items()
        },
        "timings": result.timings,
        "extras": result.extras,
        "execution": {**execution, **provenance()},
    }
    record["checksum"] = _BLANK
    text = json.dumps(record, indent=1).encode() + b"\n"
    write_atomic(folder / RECORD, text.replace(_BLANK.encode(), sha256(text).encode()))
    if result.status is not Status.INFRASTRUCTURE:
        # A run that the machine failed may be given a fresh start, and can then go on from here.
        (folder / CHECKPOINT).unlink(missing_ok=True)


def _contents(result: RunResult) -> dict[str, bytes]:
    tables: dict[str, pa.Table] = {}
    if result.evaluations:
        tables["evaluations.parquet"] = evaluations_table(result.evaluations)
    if result.updates:
        tables["updates.parquet"], tables["timings.parquet"] = updates_tables(result.updates)
    if result.diagnostics:
        tables[DIAGNOSTICS] = diagnostics_table(result.diagnostics)
    contents = {name: to_parquet(table) for name, table in tables.items() if table.num_rows}
    if result.policy:
        contents[POLICY] = save_arrays(result.policy)
    return contents


def read_run(
    read: Reader, run_id: str, *, tables: bool = False, files: bool = True
) -> StoredRun | None:
    """Reads and verifies a run.

    Args:
        read: Returns the content of a file of the run by its name.
        run_id: Its id.
        tables: Also return the Parquet files.
        files: Verify and decode the files beside `run.json`; without, only `run.json` itself is.

    Returns:
        The run, or None where it did not finish.

    Raises:
        BadRunError: Something is torn, corrupted or from elsewhere.
        NewerFormatError: A newer version made it.
    """
    record = read_record(read, run_id)
    if record is None:
        return None
    found = decode({run_id: read_files(read, record)}, {run_id: record})[run_id] if files else {}
    return StoredRun(run_id, record, found if tables else {})


def read_record(read: Reader, run_id: str) -> dict[str, Any] | None:
    """Returns the verified `run.json` of a run, or None where it did not finish; see `read_run`."""
    try:
        text = read(RECORD)
    except FileNotFoundError:
        return None
    except (BadFileError, OSError) as error:
        raise BadRunError(f"{RECORD} {_said(error)}") from error
    return _parse(text, run_id)


def read_files(read: Reader, record: dict[str, Any]) -> dict[str, bytes]:
    """Verifies the files that a record vouches for and returns those that `decode` is for.

    Raises:
        BadRunError: One is missing, torn, corrupted or from elsewhere.
    """
    found = {name: _read_verified(read, name, facts) for name, facts in record["files"].items()}
    # Diagnostics are for looking into one run: nobody who reads many waits for them.
    return {
        k: v
        for k, v in found.items()
        if v is not None and k.endswith(".parquet") and k != DIAGNOSTICS
    }


def decode(
    contents: Mapping[str, Mapping[str, bytes]], records: Mapping[str, dict[str, Any]]
) -> dict[str, Tables]:
    """Returns the tables of some runs, which are checked together.

    Raises:
        BadRunError: One has other columns or dimensions than its record says, or those of one setup
            differ among each other; which of them is bad shows when each is decoded alone.
    """
    by_setup: dict[str, dict[str, Tables]] = {}
    for run_id, tables in _read_tables(contents).items():
        by_setup.setdefault(_setup(records[run_id]), {})[run_id] = tables
    decoded: dict[str, Tables] = {run_id: {} for run_id in contents}
    for setup, runs in by_setup.items():
        for name, table, rows in join(runs):
            try:
                check_table(table, name)
            except ValueError as error:
                raise BadRunError(f"{name} is no table of ours: {error}") from None
            if name == "updates.parquet":
                _check_dimensions(table, setup)
            for run_id, own in rows.items():
                decoded[run_id][name] = own
    return decoded


def _setup(record: dict[str, Any]) -> str:
    try:
        return str(record["run"]["cell"]["setup"])
    except (LookupError, TypeError):  # of another version
        return ""


def _read_tables(contents: Mapping[str, Mapping[str, bytes]]) -> dict[str, Tables]:
    found: dict[str, Tables] = {run_id: {} for run_id in contents}
    for name in dict.fromkeys(name for files in contents.values() for name in files):
        having = [run_id for run_id, files in contents.items() if name in files]
        try:
            rows = read_parquet(contents[run_id][name] for run_id in having)
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise BadRunError(f"{name} is no table of ours: {error}") from None
        for run_id, own in zip(having, rows, strict=True):
            found[run_id][name] = own
    for of_run in found.values():
        if len({of_run[name].length for name in UPDATE_FILES if name in of_run}) > 1:
            raise BadRunError("updates.parquet and timings.parquet are of different lengths")
    return found


def _check_dimensions(updates: pa.Table, setup: str) -> None:
    """Refuses distributions of other dimensions than the contexts of their setup."""
    columns = [updates[name] for name in ("mean", "std")]
    lists = [chunk for column in columns for chunk in column.chunks]
    lengths = {int(length) for one in lists for length in np.unique(np.diff(one.offsets))}
    with contextlib.suppress(LookupError):  # A setup that is not installed here may have any.
        lengths.add(_dimension(setup))
    if len(lengths) > 1 or any(column.null_count for column in columns):
        raise BadRunError("updates.parquet has contexts of other dimensions than the setup")


@functools.cache
def _dimension(setup: str) -> int:
    # Kept: looking up a setup looks for its anchors too, which takes longer than reading a run.
    return envs.setup(setup).dim


def _parse(text: bytes, run_id: str) -> dict[str, Any]:
    try:
        record = parse_record(text, f"run {run_id}, {RECORD}", FORMAT)
    except BadFileError as error:
        raise BadRunError(f"{RECORD} {error.what}") from None
    checksum = str(record.get("checksum"))
    if not _CHECKSUM.fullmatch(checksum) or (
        sha256(text.replace(checksum.encode(), _BLANK.encode())) != checksum
    ):
        raise BadRunError(f"{RECORD} does not match its checksum")
    try:
        _Record.model_validate(record)
        found = digest(record["run"])
    except ValidationError as error:
        said = first_mistake(error)
        raise BadRunError(f"{RECORD} is not a record of format {FORMAT} ({said})") from None
    except (ValueError, RecursionError):  # NaN, or nested too deeply
        raise BadRunError(f"{RECORD} is not a record of format {FORMAT}") from None
    # The id is the address: a record from elsewhere gives itself away here.
    if found != run_id or record["run_id"] != run_id:
        raise BadRunError(f"{RECORD} belongs to another run ({record['run_id']})")
    return record


def _read_verified(read: Reader, name: str, facts: dict[str, Any]) -> bytes | None:
    try:
        data = read(name)
    except FileNotFoundError:
        if name in DISPENSABLE_FILES:
            return None
        raise BadRunError(f"{name} is missing") from None
    except (BadFileError, OSError) as error:
        raise BadRunError(f"{name} {_said(error)}") from error
    if len(data) != facts["bytes"]:
        raise BadRunError(f"{name} has {len(data)} bytes instead of {facts['bytes']}")
    if sha256(data) != facts["sha256"]:
        raise BadRunError(f"{name} does not match its checksum")
    return data


def _said(error: BadFileError | OSError) -> str:
    if isinstance(error, BadFileError):
        return error.what
    return f"cannot be read: {error.strerror or error}"


def record_digest(record: dict[str, Any]) -> str:
    """Returns the hash of everything in `run.json` but timings and execution.

    Two executions of the same run must agree on it: it covers status, steps and, through their
    checksums, the bytes of the evaluations, the updates and the policy.
    """
    plain = {key: value for key, value in record.items() if key not in EXECUTION_KEYS}
    plain["files"] = {k: v for k, v in record["files"].items() if k not in EXECUTION_FILES}
    return sha256(canonical_json(plain).encode())


def failed(seed: RunSeed, status: Status, reason: str, env_steps: int = 0) -> RunResult:
    """Returns the result of a run that has nothing to show but how it failed."""
    return RunResult(
        seed=seed,
        status=status,
        reason=reason,
        env_steps=env_steps,
        evaluations={},
        updates={},
        timings={},
        policy={},
    )
