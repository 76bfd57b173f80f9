"""The columns of a run as Parquet: typed, compact, and the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import ParquetReader

from pacebench.harness.records import (
    DIAGNOSTIC_COLUMNS,
    EVALUATION_COLUMNS,
    RECORD_COLUMNS,
    UPDATE_COLUMNS,
)
from pacebench.harness.store.alike import read_alike
from pacebench.harness.store.parts import Rows

# Wall times differ between two runs of the same program, so they live in a file of their own and
# the rest of an update can be compared byte for byte.
TIMING_COLUMNS = ("seconds", "seconds_recording")

_ARROW = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "category": pa.string(),
    "string": pa.string(),
    "list<float>": pa.list_(pa.float32()),
    "list<double>": pa.list_(pa.float64()),
}
# Single precision halves a file; runs from before have these in double.
_WIDE = {pa.float32(): pa.float64(), _ARROW["list<float>"]: _ARROW["list<double>"]}

# Taken from the declaration, not from what a run happened to record: a curriculum without a
# threshold records None throughout, and its column is to have the same type all the same.
_UPDATE_TYPES = UPDATE_COLUMNS | RECORD_COLUMNS

# Text that repeats, which frames keep as categories.
CATEGORIES = tuple(k for k, v in (EVALUATION_COLUMNS | _UPDATE_TYPES).items() if v == "category")

_DECLARED = {
    "evaluations.parquet": EVALUATION_COLUMNS,
    "updates.parquet": _UPDATE_TYPES,
    "timings.parquet": {name: _UPDATE_TYPES[name] for name in TIMING_COLUMNS},
    "diagnostics.parquet": DIAGNOSTIC_COLUMNS,
}
_REQUIRED = {
    "evaluations.parquet": tuple(EVALUATION_COLUMNS),
    "updates.parquet": tuple(UPDATE_COLUMNS),
    "timings.parquet": TIMING_COLUMNS[:1],  # older runs have one clock
    "diagnostics.parquet": tuple(DIAGNOSTIC_COLUMNS),
}
# What `load_results` puts before the columns of every run, and what stands in a file of its own.
RESERVED = ("run_id", "label", "setup", "seed", "current", *TIMING_COLUMNS)
# Over all columns of a file: many times what a run records.
_MOST_VALUES = 200_000_000


def evaluations_table(columns: Mapping[str, Any]) -> pa.Table:
    """Returns the typed table of a run's evaluation episodes.

    Raises:
        ValueError: Columns are missing, unknown or of different lengths.
    """
    if set(columns) != set(EVALUATION_COLUMNS):
        odd = sorted(set(columns) ^ set(EVALUATION_COLUMNS))
        raise ValueError(f"evaluations have other columns than EVALUATION_COLUMNS: {odd}")
    return _table({name: columns[name] for name in EVALUATION_COLUMNS}, EVALUATION_COLUMNS)


def diagnostics_table(columns: Mapping[str, Any]) -> pa.Table:
    """Returns the typed table of a learner's diagnostics."""
    return _table({name: columns[name] for name in DIAGNOSTIC_COLUMNS}, DIAGNOSTIC_COLUMNS)


def updates_tables(columns: Mapping[str, Any]) -> tuple[pa.Table, pa.Table]:
    """Returns the typed tables of a run's curriculum updates and of their wall times.

    Columns that are not known here keep the type of their values: an extra field of a curriculum of
    somebody's own is stored too.
    """
    types = {name: _UPDATE_TYPES.get(name) or _guess(columns[name]) for name in columns}
    timed = {name: columns[name] for name in columns if name in TIMING_COLUMNS}
    plain = {name: columns[name] for name in columns if name not in TIMING_COLUMNS}
    return _table(plain, types), _table(timed, types)


def _guess(values: Any) -> str:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool | np.bool_) for value in present):
        return "bool"
    if present and all(isinstance(value, str) for value in present):
        return "string"
    if present and all(isinstance(value, list | tuple | np.ndarray) for value in present):
        return "list<double>"
    if present and all(isinstance(value, int | np.integer) for value in values):
        return "int64"
    return "float64"


def _table(columns: Mapping[str, Any], types: Mapping[str, str]) -> pa.Table:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of different lengths: {lengths}")
    arrays = [pa.array(values, type=_ARROW[types[name]]) for name, values in columns.items()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def widened(table: pa.Table) -> pa.Table:
    """Returns a table with all its real numbers in double precision, for computing with them."""
    kinds = [
        pa.list_(kind.value_type) if pa.types.is_list(kind) else kind for kind in table.schema.types
    ]
    wide = [_WIDE.get(kind, kind) for kind in kinds]
    return table.cast(pa.schema(zip(table.schema.names, wide, strict=True)))


def to_parquet(table: pa.Table) -> bytes:
    """Returns the Parquet file of a table: equal bytes for equal tables and pyarrow versions."""
    encodings, others = {}, []
    for field in table.schema:
        path, kind = field.name, field.type
        if pa.types.is_list(kind):
            path, kind = f"{path}.list.element", kind.value_type
        if pa.types.is_floating(kind):
            encodings[path] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(kind):
            encodings[path] = "DELTA_BINARY_PACKED"
        else:
            others.append(path)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        # Encodings do most of the work; zstd would save another tenth and take twice as long to
        # read.
        compression="snappy",
        use_dictionary=others or False,
        column_encoding=encodings,
        write_statistics=False,
        # The types are Parquet's own, so Arrow's copy of the schema would only add a kilobyte.
        store_schema=False,
    )
    return bytes(sink.getvalue())


def from_parquet(data: bytes, name: str) -> pa.Table:
    """Returns the table of one of a run's Parquet files.

    Raises:
        pyarrow.ArrowException: The bytes are no Parquet file.
        ValueError: It has other columns than we write, or more values than a run can have.
    """
    (rows,) = read_parquet([data])
    check_table(rows.table, name)
    return rows.table


def read_parquet(files: Iterable[bytes]) -> list[Rows]:
    """Returns the rows of files, whose columns are still to be checked; see `from_parquet`."""
    contents = list(files)
    together = read_alike(contents, _MOST_VALUES)
    return [together.get(i) or _read_alone(data) for i, data in enumerate(contents)]


def _read_alone(data: bytes) -> Rows:
    # What `pq.ParquetFile` is made of: its own part takes as long as the reading of a small file.
    reader = ParquetReader()
    reader.open(pa.BufferReader(data), pre_buffer=False)
    _check_values(reader.metadata)
    table = reader.read_all(use_threads=False)
    return Rows(table, 0, table.num_rows)


def _check_values(facts: pq.FileMetaData) -> None:
    columns = range(facts.num_columns)
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    # A few bytes of Parquet may stand for billions of values.
    values = sum([group.column(i).num_values for group in groups for i in columns])
    if max(values, facts.num_rows * len(columns)) > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} values")


def check_table(table: pa.Table, name: str) -> None:
    """Refuses what is no table of ours, of one run or of several joined.

    Raises:
        ValueError: It has other columns than we write, or gaps where we leave none.
    """
    _check_types(table.schema, name)
    if name == "evaluations.parquet" and any(column.null_count for column in table.columns):
        raise ValueError("it has rows with gaps")


def _check_types(found: pa.Schema, name: str) -> None:
    """Refuses columns that are missing or of another type than we write."""
    if len(set(found.names)) < len(found.names):
        raise ValueError("a column occurs twice")
    declared, required = _DECLARED[name], _REQUIRED[name]
    if lacking := [column for column in required if column not in found.names]:
        raise ValueError(f"it has no column '{lacking[0]}'")
    more = [column for column in found.names if column not in required]
    # Further columns are a curriculum's own, unless other columns already have their names.
    refused = RESERVED if name == "updates.parquet" else set(more) - set(declared)
    if odd := [column for column in more if column in refused]:
        raise ValueError(f"it has a column '{odd[0]}'")
    for field in found:
        named = [declared[field.name]] if field.name in declared else _ARROW
        wanted = [_ARROW[one] for one in named]
        # Parquet calls the items of a list otherwise than Arrow does.
        kind = pa.list_(field.type.value_type) if pa.types.is_list(field.type) else field.type
        if kind not in wanted and kind not in [_WIDE.get(one) for one in wanted]:
            raise ValueError(f"its column '{field.name}' is of type {field.type}")
