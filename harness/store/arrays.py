"""Arrow arrays from plain values, without pandas.

`pyarrow.array` imports pandas to find out whether it was given some; a worker that trains for half
a minute should not spend a third of a second on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NUMPY = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def to_arrow(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Returns an array of the given type; None becomes null, NaN stays a value.

    Args:
        values: Numbers, truth values, texts, or sequences of numbers.
        kind: A number, boolean, string, or list of doubles.
    """
    present = _present(values)
    if pa.types.is_string(kind):
        texts = [str(value).encode() if there else b"" for value, there in _pairs(values, present)]
        offsets = _offsets([len(text) for text in texts])
        return _build(kind, present, offsets, b"".join(texts))
    if pa.types.is_list(kind):
        rows = [list(value) if there else [] for value, there in _pairs(values, present)]
        child = to_arrow(np.asarray([x for row in rows for x in row], float), kind.value_type)
        offsets = _offsets([len(row) for row in rows])
        buffers = [_bits(present), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, len(rows), buffers, children=[child])
    if not present.all():
        values = [value if there else 0 for value, there in _pairs(values, present)]
    if pa.types.is_boolean(kind):
        bits = np.packbits(np.asarray(values, bool), bitorder="little")
        return _build(kind, present, bits)
    numbers = np.asarray(values)
    typed = numbers.astype(_NUMPY[kind], casting="unsafe")
    if numbers.dtype.kind not in "biuf" or (typed.dtype.kind == "i" and (typed != numbers).any()):
        raise ValueError(f"these are no values of type {kind}: {numbers[:5].tolist()} …")
    return _build(kind, present, np.ascontiguousarray(typed))


def _present(values: Sequence[Any] | NDArray[Any]) -> NDArray[np.bool_]:
    if isinstance(values, np.ndarray):
        return np.ones(len(values), bool)
    return np.fromiter((value is not None for value in values), bool, len(values))


def _pairs(values: Sequence[Any] | NDArray[Any], present: NDArray[np.bool_]) -> Any:
    return zip(values, present, strict=True)


def _offsets(lengths: list[int]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _bits(present: NDArray[np.bool_]) -> pa.Buffer | None:
    if present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _build(kind: pa.DataType, present: NDArray[np.bool_], *data: Any) -> pa.Array:
    buffers = [_bits(present), *(pa.py_buffer(part) for part in data)]
    return pa.Array.from_buffers(kind, len(present), buffers)
