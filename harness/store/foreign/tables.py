"""Tables of scores: CSV, TSV and Parquet, one row per run or per run and step."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign.scores import ForeignRow, content, number, whole

# Each column under the names that the field gives it; ours first.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "method": ("method", "algo", "algorithm", "exp_name", "label"),
    "task": ("task", "env_id", "env", "environment", "game", "setup"),
    "seed": ("seed", "run"),
    "step": ("step", "global_step", "timestep", "timesteps", "env_steps"),
    "score": ("score", "return", "episodic_return", "charts/episodic_return", "episode_reward"),
    "success": ("success", "success_rate", "is_success"),
    "status": ("status",),
}
_NEEDED = ("method", "task", "seed", "score")
_TRUTH = {"true": 1.0, "false": 0.0}


def table_rows(path: Path) -> Iterator[ForeignRow]:
    """Yields the rows of a table.

    Raises:
        UserError: It is no such table, or a value in it is not what it should be.
    """
    yield from _rows(_parquet(path) if path.suffix == ".parquet" else _text(path), str(path))


def frame_rows(frame: pd.DataFrame) -> Iterator[ForeignRow]:
    """Yields the rows of a table in memory; see `table_rows`."""
    lines = enumerate(frame.itertuples(index=False, name=None), start=1)
    yield from _rows(chain([(0, list(frame.columns))], lines), "the table")


def _rows(lines: Iterator[tuple[int, Sequence[Any]]], source: str) -> Iterator[ForeignRow]:
    header = next(lines, None)
    if header is None:
        raise UserError(f"{source}: is empty; its first line names the columns.")
    places = _places(source, [str(name) for name in header[1]])
    for count, line in lines:
        where = f"{source}, line {count}"
        if len(line) != len(header[1]):
            raise UserError(f"{where}: has {len(line)} values for {len(header[1])} columns.")
        yield _row({name: line[place] for name, place in places.items()}, where)


def _text(path: Path) -> Iterator[tuple[int, Sequence[Any]]]:
    try:
        text = content(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text in UTF-8; save it as CSV in UTF-8.") from None
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter="\t" if path.suffix == ".tsv" else ",",
        strict=True,
    )
    try:
        for line in reader:
            if line:
                yield reader.line_num, line
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: is no CSV ({error}).") from None


def _parquet(path: Path) -> Iterator[tuple[int, Sequence[Any]]]:
    try:
        table = pq.read_table(pa.BufferReader(content(path)))
        columns = [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: is no Parquet file ({str(error).splitlines()[0]}).") from None
    yield 0, table.column_names
    yield from enumerate(zip(*columns, strict=True), start=1)


def _places(path: str, header: Sequence[str]) -> dict[str, int]:
    """Returns where each column is."""
    names = [name.strip().lower() for name in header]
    found = {}
    for name, aliases in COLUMNS.items():
        # Where a table has our name for it, the others are something else.
        there = [alias for alias in aliases if alias in names]
        there = there[:1] if there and there[0] == name else there
        if len(there) > 1 or any(names.count(alias) > 1 for alias in there):
            raise UserError(
                f"{path}: several columns could be the {name} ({', '.join(there)}); call one of "
                f"them '{name}'."
            )
        if there:
            found[name] = names.index(there[0])
    lacking = [name for name in _NEEDED if name not in found]
    if lacking:
        hint = "; separate columns by commas" if ";" in "".join(header) else ""
        raise UserError(
            f"{path}: has no column '{lacking[0]}' (it has {_listed(header)}); a table of scores "
            f"has method, task, seed and score, and may have step and success{hint}."
        )
    return found


def _listed(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 100 else f"{text[:97]}…"


def _row(values: Mapping[str, Any], where: str) -> ForeignRow:
    success = values.get("success")
    if isinstance(success, bool) or str(success).strip().lower() in _TRUTH:
        success = _TRUTH[str(success).strip().lower()]
    return ForeignRow(
        method=_name(values["method"]),
        task=_name(values["task"]),
        seed=_seed(values["seed"]),
        step=whole(values["step"], where, "step") if "step" in values else 0,
        score=number(values["score"], where, "score"),
        success=number(success, where, "success") if "success" in values else math.nan,
        status=str(values.get("status") or ""),
        where=where,
    )


def _name(value: Any) -> str:
    """Returns a name; an apostrophe that kept it from being computed is no part of it."""
    text = "" if value is None else str(value)
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@") else text


def _seed(value: Any) -> str:
    """Returns how a seed is told apart: 3 and 3.0 are the same."""
    text = "" if value is None else str(value).strip()
    return text.removesuffix(".0")
