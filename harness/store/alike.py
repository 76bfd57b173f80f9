"""Many small Parquet files of one shape, read as if they were one.

To open a file of a few kilobytes and to set up the reading of its columns takes several times as
long as to decode them. Files that differ in nothing but numbers are therefore strung together under
one footer, which lists the row groups of all.

Nothing that a file says of itself may move a value from its run to another's. So a file is read
with others only if it is as we write them: one row group, of which every column lies within the
file and is one page (after its dictionary, if it has one) of as many values as there are rows. From
each the reader then takes at most those, and as it has found all of them in the end, it took
exactly those. Of lists, which hold more values than rows, it shows in how many values were found in
the rows of each file. Whatever is not so is left to be read alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow._parquet import ParquetReader

from pacebench.harness.store.parts import Rows

Integers = NDArray[np.int64]
# An integer of a footer: where it is, as numbers of fields and places in lists from the top, and
# its first byte and the one after it.
Place = tuple[tuple[int, ...], int, int]

_MAGIC = b"PAR1"
_END = 8  # bytes after a footer: its length, and the magic again
_LARGEST, _LARGEST_FOOTER = 2**20, 2**14  # bytes; to open a larger file takes no time to speak of
# An integer in Thrift's compact protocol: seven bits to a byte, the lowest first, and all bytes but
# the last are marked. It is twice the number, since the lowest bit is the sign.
_MOST_BYTES = 5
_INTEGER = rb"([\x80-\xff]{0,%d}[\x00-\x7f])" % (_MOST_BYTES - 1)
_SHIFTS = 7 * np.arange(_MOST_BYTES)
_MARKS = np.array([128] * (_MOST_BYTES - 1) + [0])
# Thrift's types.
_FLAGS, _BYTE, _INTEGERS, _I64, _TEXT, _LIST, _STRUCT = (1, 2), 3, (4, 5, 6), 6, 8, 9, 12
_DEEPEST = 8
# How a footer's list of row groups begins: with one, and with more than 14.
_ONE_GROUP, _MANY_GROUPS = b"\x19\x1c", b"\x19\xfc"
# Where in a footer, and in its row group, the number of rows is; then the numbers of a column.
_ROWS = (3,)
_VALUES, _SIZE, _DATA, _DICTIONARY = (3, 5), (3, 7), (3, 9), (3, 11)
# How heads of pages are, apart from the integers in between: the sizes of the page before and after
# compression, the number of values, and in the end how those of a data page are encoded.
_DATA_HEAD = (b"\x15\x00\x15", b"\x15", b"\x2c\x15", b"\x15", b"\x15\x06\x15\x06\x1c\x00\x00\x00")
_DICTIONARY_HEAD = (b"\x15\x04\x15", b"\x15", b"\x4c\x15", b"\x15\x00\x12\x00\x00")


def read_alike(files: Sequence[bytes], most: int) -> dict[int, Rows]:
    """Reads those files together that can be.

    Args:
        files: Their contents.
        most: How many values a file may have.

    Returns:
        The rows of those that were read, by their place among the files.
    """
    footers = {i: footer for i, data in enumerate(files) if (footer := _footer(data))}
    read: dict[int, Rows] = {}
    while len(footers) > 1:
        first = next(iter(footers))
        try:
            shape = _Shape(footers[first])
        except (ValueError, LookupError):
            del footers[first]
            continue
        found = {i: m for i, f in footers.items() if (m := shape.pattern.fullmatch(f))}
        footers = {i: f for i, f in footers.items() if i not in found and i != first}
        if len(found) > 1:
            some = shape.read([files[i] for i in found], _integers(found.values()), most)
            places = list(found)
            read |= {places[i]: rows for i, rows in some.items()}
    return read


def _footer(data: bytes) -> bytes:
    """Returns the footer of a small file; nothing where it has none."""
    length = int.from_bytes(data[-_END:-4], "little")
    whole = data[:4] == data[-4:] == _MAGIC and length <= len(data) - _END - len(_MAGIC)
    small = len(data) <= _LARGEST and length <= _LARGEST_FOOTER
    return data[-_END - length : -_END] if whole and small else b""


class _Shape:
    """What footers have in common that differ in nothing but numbers.

    Attributes:
        pattern: Matches them; its groups are the number of rows and the integers of the row group.

    Args:
        footer: One of them.

    Raises:
        ValueError: It is not as ours are.
        LookupError: Likewise.
    """

    def __init__(self, footer: bytes) -> None:
        everything: list[Place] = []
        if _walk(footer, 0, _STRUCT, (), everything) != len(footer):
            raise ValueError("something follows the footer")
        rows, at = {where: (a, b) for where, a, b in everything}[_ROWS]
        at += len(_ONE_GROUP)
        group: list[Place] = []
        end = _walk(footer, at, _STRUCT, (), group)
        self._before, self._after = footer[:rows], footer[end:]
        literals = []
        for _, start, stop in group:
            literals.append(footer[at:start])
            at = stop
        literals.append(footer[at:end])
        self.pattern = re.compile(
            re.escape(self._before)
            + _INTEGER
            + re.escape(_ONE_GROUP)
            + _INTEGER.join(map(re.escape, literals))
            + re.escape(self._after)
        )
        self._blank = np.frombuffer(bytes(_MOST_BYTES).join(literals), np.uint8)
        lengths = [len(literal) + _MOST_BYTES for literal in literals[:-1]]
        self._places = np.cumsum(lengths)[:, None] - _SHIFTS[::-1] // 7 - 1
        # Where among the integers of a match those are that count, by column.
        index = {where: i for i, (where, _, _) in enumerate(group, 1)}
        columns = range(sum(where[2:] == _VALUES for where in index))
        self._group_rows = index[_ROWS]
        self._values = [index[(1, i, *_VALUES)] for i in columns]
        self._sizes = [index[(1, i, *_SIZE)] for i in columns]
        self._data = [index[(1, i, *_DATA)] for i in columns]
        self._starts = [index.get((1, i, *_DICTIONARY), self._data[i]) for i in columns]

    def read(self, files: Sequence[bytes], integers: Integers, most: int) -> dict[int, Rows]:
        """Returns the rows of those files with such footers that can be read together."""
        lengths = np.array([[len(data)] for data in files])
        begins = np.cumsum(lengths, axis=0) - lengths
        text = b"".join(files)
        kept = np.flatnonzero(self._are_ours(text, begins, lengths, integers, most))
        if len(kept) < 2:
            return {}
        integers = integers[kept]
        for place in {*self._data, *self._starts}:
            integers[:, place] += 2 * begins[kept, 0]
        rows = integers[:, 0] // 2
        table = _read(text + self._footer(integers), rows, integers[:, self._values] // 2)
        if table is None:
            return {}
        first = np.cumsum(rows) - rows
        found = zip(kept.tolist(), first.tolist(), rows.tolist(), strict=True)
        return {i: Rows(table, start, count) for i, start, count in found}

    def _are_ours(
        self, text: bytes, begins: Integers, lengths: Integers, integers: Integers, most: int
    ) -> NDArray[np.bool_]:
        """Says of files, which follow one another in a text, whether they are as we write them."""
        numbers = integers // 2
        rows, group_rows = numbers[:, [0]], numbers[:, [self._group_rows]]
        values, data, starts = (numbers[:, i] for i in (self._values, self._data, self._starts))
        page = _Heads(text, begins + data, _DATA_HEAD)
        fits = page.fit & (page.values == values) & (values >= rows) & (rows > 0)
        fits &= (starts >= len(_MAGIC)) & (starts + numbers[:, self._sizes] <= lengths)
        coded = np.not_equal(self._starts, self._data)
        page = _Heads(text, (begins + starts)[:, coded], _DICTIONARY_HEAD)
        fits[:, coded] &= page.fit & (page.end + page.size == (begins + data)[:, coded])
        held = np.maximum(values.sum(axis=1), rows[:, 0] * len(self._values))
        fits &= (rows == group_rows) & (held <= most)[:, None]
        ours: NDArray[np.bool_] = fits.all(axis=1) & (integers % 2 == 0).all(axis=1)
        return ours

    def _footer(self, integers: Integers) -> bytes:
        """Returns the end of a file that has all those row groups."""
        groups = np.tile(self._blank, (len(integers), 1))
        groups[:, self._places] = _written(integers[:, 1:])
        rows, count = _written(integers[:, 0].sum()), _written(np.int64(len(integers)))
        parts = (self._before, rows.tobytes(), _MANY_GROUPS, count.tobytes(), groups.tobytes())
        footer = b"".join(parts) + self._after
        return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _walk(data: bytes, at: int, kind: int, where: tuple[int, ...], found: list[Place]) -> int:
    """Notes the 64-bit integers of a value in Thrift's compact protocol, and returns its end.

    Raises:
        ValueError: There is something that our footers do not have.
        IndexError: It has no end.
    """
    if kind in _INTEGERS:
        begin = at
        while data[at] & 128:
            at += 1
        if kind == _I64:
            found.append((where, begin, at + 1))
        return at + 1
    if kind == _BYTE:
        return at + 1
    if kind == _TEXT:
        return at + 1 + _short(data[at])
    if kind == _LIST and len(where) < _DEEPEST:
        count, of, at = data[at] >> 4, data[at] & 15, at + 1
        if count == 15:
            count, at = _short(data[at]), at + 1
        for i in range(count):
            at = _walk(data, at, of, (*where, i), found)
        return at
    if kind == _STRUCT and len(where) < _DEEPEST:
        field = 0
        while head := data[at]:
            if not head >> 4:
                raise ValueError("a field is out of order")
            field, at = field + (head >> 4), at + 1
            if head & 15 not in _FLAGS:  # whose value is their type
                at = _walk(data, at, head & 15, (*where, field), found)
        return at + 1
    raise ValueError(f"a value of type {kind}")


def _short(byte: int) -> int:
    if byte & 128:
        raise ValueError("a length of several bytes")
    return byte


def _integers(found: Iterable[re.Match[bytes]]) -> Integers:
    """Returns the integers of footers, one row for each."""
    groups = [match.groups() for match in found]
    digits = np.frombuffer(b"".join([b"".join(one) for one in groups]), np.uint8).astype(np.int64)
    last = np.flatnonzero(digits < 128)
    begins = np.concatenate(([0], last[:-1] + 1))
    shifts = 7 * (np.arange(len(digits)) - np.repeat(begins, last - begins + 1))
    return np.add.reduceat((digits & 127) << shifts, begins).reshape(len(groups), -1)


def _written(integers: Integers | np.int64) -> NDArray[np.uint8]:
    digits: Integers = np.asarray(integers)[..., None] >> _SHIFTS & 127 | _MARKS
    return digits.astype(np.uint8)


class _Heads:
    """The heads of pages.

    Attributes:
        fit: Whether they are as expected; only of these the rest is true.
        size: Bytes of the page itself.
        values: How many it has.
        end: Where the page itself begins.

    Args:
        text: What they are in.
        at: Where they begin.
        words: What is expected, with an integer between one and the next.
    """

    def __init__(self, text: bytes, at: Integers, words: Sequence[bytes]) -> None:
        self._text = np.frombuffer(text, np.uint8)
        self.fit = np.ones(at.shape, bool)
        self.end = at
        self._expect(words[0])
        integers = []
        for word in words[1:]:
            integers.append(self._integer())
            self._expect(word)
        _, self.size, self.values = integers[:3]

    def _bytes(self) -> Integers:
        return self._text.take(self.end, mode="clip").astype(np.int64)

    def _expect(self, word: bytes) -> None:
        for byte in word:
            self.fit &= self._bytes() == byte
            self.end = self.end + 1

    def _integer(self) -> Integers:
        integer, more = np.zeros_like(self.end), np.ones(self.end.shape, bool)
        for shift in _SHIFTS:
            byte = self._bytes()
            integer += np.where(more, (byte & 127) << shift, 0)
            self.end = self.end + more
            more &= byte > 127
        self.fit &= ~more & (integer % 2 == 0)
        return integer // 2


def _read(data: bytes, rows: Integers, values: Integers) -> pa.Table | None:
    """Reads a joint file; returns nothing where it has not what its parts say."""
    reader = ParquetReader()
    try:
        reader.open(pa.BufferReader(data), pre_buffer=False)
        table = reader.read_all(use_threads=False).combine_chunks()
        schema = reader.metadata.schema
        if not table.num_columns == len(schema) == values.shape[1]:
            return None
        ends = np.cumsum(rows)
        for i, column in enumerate(table.columns):
            if len(column) != ends[-1]:
                return None
            held = rows
            if schema.column(i).max_repetition_level:
                # An empty list is written as one value too.
                lengths = pc.list_value_length(column).fill_null(0).to_numpy()
                held = np.diff(np.cumsum(np.maximum(lengths, 1))[ends - 1], prepend=0)
            if (held != values[:, i]).any():
                return None
    except (pa.ArrowException, OSError):
        return None
    return table
