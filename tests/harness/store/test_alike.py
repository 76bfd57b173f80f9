"""Files that are read together hold what each holds alone, whatever they say of themselves."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacebench.harness.store.alike import read_alike
from pacebench.harness.store.tables import to_parquet

MOST = 1_000_000


def table(rows: int, seed: int = 0) -> pa.Table:
    """Columns of every kind that runs have, with gaps and lists of all lengths."""
    rng = np.random.default_rng(seed)
    lists = [
        rng.random(rng.integers(4)).tolist() if rng.random() < 0.8 else None for _ in range(rows)
    ]
    return pa.table(
        {
            "count": pa.array(rng.integers(10**12, size=rows), pa.int64()),
            "real": pa.array([None if x < 0.2 else x for x in rng.random(rows)], pa.float32()),
            "flag": pa.array((rng.random(rows) < 0.5).tolist(), pa.bool_()),
            "word": pa.array(rng.choice(["left", "right", "up"], rows).tolist(), pa.string()),
            "list": pa.array(lists, pa.list_(pa.float64())),
        }
    )


def alone(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


def test_files_of_any_length_are_read_together_as_they_are_alone():
    files = [to_parquet(table(rows, seed)) for seed, rows in enumerate((1, 7, 200, 20, 3_000) * 4)]
    read = read_alike(files, MOST)
    assert sorted(read) == list(range(20))
    assert len({id(rows.whole) for rows in read.values()}) == 1
    for i, rows in read.items():
        assert rows.table.equals(alone(files[i]))


def test_files_of_different_columns_are_read_in_groups():
    plain, other = table(5), table(5).drop_columns(["real"])
    files = [to_parquet(t) for t in (plain, other, plain, other, plain.select(["count"]))]
    read = read_alike(files, MOST)
    assert sorted(read) == [0, 1, 2, 3], "one has no other like it"
    for i, rows in read.items():
        assert rows.table.equals(alone(files[i]))


def written(of: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(of, sink, store_schema=False, write_statistics=False, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1PAR1",
        b"PAR1" + b"\xff" * 8 + b"PAR1",
        written(table(0)),
        written(table(30), row_group_size=10),
        written(table(3_000), data_page_size=64, write_batch_size=10),
        written(table(30), data_page_version="2.0"),
        written(pa.table({"pairs": [{"a": 1, "b": 2.0}] * 3})),
        written(pa.table({"lists": [[[1, 2], [3]]] * 3})),
        to_parquet(table(20))[:-1],
        to_parquet(table(20))[:200] + to_parquet(table(20))[210:],
    ],
)
def test_other_files_are_left_to_be_read_alone(data):
    files = [to_parquet(table(20)), data, to_parquet(table(20, 1)), data]
    read = read_alike(files, MOST)
    assert sorted(read) == [0, 2]
    assert read[2].table.equals(alone(files[2]))


def test_a_file_of_too_many_values_is_left_alone():
    files = [to_parquet(table(rows)) for rows in (10, 10, 100)]
    assert sorted(read_alike(files, 60)) == [0, 1]


def patched(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def test_no_byte_of_a_file_moves_a_value_to_another_file():
    """Any byte may be a number that lengthens, shortens or shifts something."""
    good = [to_parquet(table(6, seed)) for seed in (1, 2)]
    bad = to_parquet(table(6))
    whole = [alone(data) for data in good]
    for at in range(len(bad)):
        for change in (2, -2):  # one more, or less, as integers are written
            files = [good[0], patched(bad, at, (bad[at] + change) % 256), good[1]]
            read = read_alike(files, MOST)
            for i, one in ((0, whole[0]), (2, whole[1])):
                assert i not in read or read[i].table.equals(one), (at, change)


def rows_said(data: bytes, now: int, then: int) -> bytes:
    """Changes how many rows a footer says there are."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    old, new = bytes([0x16, 2 * now]), bytes([0x16, 2 * then])
    return data[:footer] + data[footer:].replace(old, new)


def test_lies_that_make_up_for_each_other_are_found():
    """Of two files, one claims a row of the other; together they have what they claim."""
    for lists in ([[1.0], [2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0], [4.0]]):
        one = to_parquet(pa.table({"list": pa.array(lists, pa.list_(pa.float64()))}))
        longer = to_parquet(pa.table({"list": pa.array([[1.0], [2.0]], pa.list_(pa.float64()))}))
        assert len(read_alike([one, longer], MOST)) == 2
        assert not read_alike([rows_said(one, 3, 2), rows_said(longer, 2, 3)], MOST)
    short, long = (to_parquet(pa.table({"x": [0.5] * n, "y": [0.5] * n})) for n in (3, 4))
    assert len(read_alike([short, long], MOST)) == 2
    assert not read_alike([rows_said(short, 3, 4), rows_said(long, 4, 3)], MOST)


def test_a_page_of_more_values_than_its_file_has_rows_is_not_read_with_others():
    """Two files have the first column of each other."""
    three, four = (to_parquet(pa.table({"x": range(n), "y": range(n)})) for n in (3, 4))
    head = b"\x15\x00\x15"  # how a page begins
    second = three.index(head, 5)
    assert second == four.index(head, 5)
    assert len(read_alike([three, four], MOST)) == 2
    forged = [four[:second] + three[second:], three[:second] + four[second:]]
    assert not read_alike(forged, MOST)


def test_a_column_in_another_file_is_not_read():
    files = [to_parquet(pa.table({"x": [0.5 + i] * 3})) for i in range(2)]
    length = int.from_bytes(files[0][-8:-4], "little")
    data, footer = files[0][: -8 - length], files[0][-8 - length : -8]
    there = 2 * (4 + len(files[0]) + 1)  # it is a byte longer then
    column = b"\x26\x08"  # is the fourth byte of the file
    footer = footer.replace(column, bytes([0x26, there & 127 | 128, there >> 7]), 1)
    forged = data + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert len(read_alike([*files, forged], MOST)) == 2
    assert not read_alike([forged, files[1]], MOST)
