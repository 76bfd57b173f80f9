"""The tables of many runs as few: one for each file and its columns.

Small tables by the thousand take several times the memory, and whatever is done with them several
times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa


class Rows(NamedTuple):
    """The rows of one run in a table of many.

    Attributes:
        whole: The table.
        start: The first of them.
        length: How many.
    """

    whole: pa.Table
    start: int
    length: int

    @property
    def table(self) -> pa.Table:
        """They as a table of their own."""
        all_of_it = self.length == self.whole.num_rows
        return self.whole if all_of_it else self.whole.slice(self.start, self.length)


Tables = dict[str, Rows]  # of one run, by the file that they are from


class RunTables(NamedTuple):
    """The rows of runs that have equal columns.

    Attributes:
        name: The file that they are from.
        table: All of them, each column in one piece.
        rows: Those of each run.
    """

    name: str
    table: pa.Table
    rows: dict[str, Rows]


def join(runs: Mapping[str, Tables]) -> list[RunTables]:
    """Returns the rows of some runs in few tables."""
    files: dict[str, dict[str, Rows]] = {}
    for run, tables in runs.items():
        for name, rows in tables.items():
            files.setdefault(name, {})[run] = rows
    parts = []
    for name, found in files.items():
        try:
            parts.append(_part(name, found))
        except pa.ArrowInvalid:  # Not all have the same columns.
            groups: dict[pa.Schema, dict[str, Rows]] = {}
            for run, rows in found.items():
                groups.setdefault(rows.whole.schema, {})[run] = rows
            parts += [_part(name, group) for group in groups.values()]
    return parts


def _part(name: str, rows: Mapping[str, Rows]) -> RunTables:
    table = pa.concat_tables(pieces(rows.values())).combine_chunks()
    placed, start = {}, 0
    for run, (_, _, count) in rows.items():
        placed[run] = Rows(table, start, count)
        start += count
    return RunTables(name, table, placed)


def pieces(rows: Iterable[Rows]) -> list[pa.Table]:
    """Returns the tables of rows, where those that follow one another in a table are one."""
    found: list[Rows] = []
    for one in rows:
        last = found[-1] if found else None
        if last and last.whole is one.whole and last.start + last.length == one.start:
            found[-1] = Rows(last.whole, last.start, last.length + one.length)
        else:
            found.append(one)
    return [one.table for one in found]
