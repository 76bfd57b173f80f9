"""TensorBoard event files: scalars in, scalars out, without TensorBoard.

An event file is a sequence of framed protocol-buffer messages. Scalars need three messages of a
handful of fields, so the few bytes are read and written here: TensorBoard would bring a web server,
and those who are handed event files need not have it. Frames carry a CRC-32C that TensorBoard
checks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pacebench.harness.errors import UserError
from pacebench.harness.store.foreign.scores import content

MARK = "tfevents"


class Scalar(NamedTuple):
    """One point of one curve."""

    tag: str
    step: int
    value: float
    time: float = 0.0


def is_event_file(path: Path) -> bool:
    """Says whether TensorBoard would read a file of this name."""
    return MARK in path.name


def read_scalars(path: Path) -> list[Scalar]:
    """Returns the scalars of an event file; a last event that was cut short is left out.

    Raises:
        UserError: It is no event file.
    """
    data, place = content(path), 0
    found: list[Scalar] = []
    try:
        while place + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            if _masked_crc(data[place : place + 8]) != struct.unpack_from("<I", data, place + 8)[0]:
                raise ValueError("a frame does not match its checksum")
            body = data[place + 12 : place + 12 + length]
            place += 12 + length + 4
            if place > len(data):
                break  # Its writer was stopped in the middle of it.
            found += _event(body)
    except (ValueError, struct.error, IndexError) as error:
        raise UserError(f"{path}: is no TensorBoard event file, or damaged ({error}).") from None
    if place == 0:
        raise UserError(f"{path}: is no TensorBoard event file: it holds no event.")
    return found


def write_scalars(path: Path, scalars: Iterable[Scalar]) -> None:
    """Writes an event file."""
    events = [_double(1, 0.0) + _text(3, b"brain.Event:2")]
    for scalar in scalars:
        value = _text(1, scalar.tag.encode()) + _key(2, 5) + struct.pack("<f", scalar.value)
        step = _key(2, 0) + _varint(scalar.step)
        events.append(_double(1, scalar.time) + step + _text(5, _text(1, value)))
    path.write_bytes(b"".join(map(_frame, events)))


def _frame(body: bytes) -> bytes:
    head = struct.pack("<Q", len(body))
    return head + struct.pack("<I", _masked_crc(head)) + body + struct.pack("<I", _masked_crc(body))


def _event(body: bytes) -> Iterator[Scalar]:
    """Yields the scalars of one Event message."""
    numbers, parts = _fields(body)
    time = struct.unpack("<d", parts[1][0])[0] if 1 in parts else 0.0
    for summary in parts.get(5, ()):
        for value in _fields(summary)[1].get(1, ()):
            yield from _value(value, numbers.get(2, 0), time)


def _value(body: bytes, step: int, time: float) -> Iterator[Scalar]:
    """Yields the scalar of one Summary.Value message; pictures and histograms are none."""
    _, parts = _fields(body)
    name = parts.get(1, [b""])[0].decode(errors="replace")
    if 2 in parts:
        yield Scalar(name, step, struct.unpack("<f", parts[2][0])[0], time)
    for tensor in parts.get(8, ()):
        numbers, held = _fields(tensor)
        # TensorFlow 2 writes a scalar as a tensor, of float32 (1) or float64 (2), as raw bytes (4)
        # or in a field of its type (5, 6).
        kind = {1: "<f", 2: "<d"}.get(numbers.get(1, 0))
        raw = next((held[field][0] for field in (4, 5, 6) if field in held), b"")
        if kind and len(raw) == struct.calcsize(kind):
            yield Scalar(name, step, struct.unpack(kind, raw)[0], time)


def _fields(body: bytes) -> tuple[dict[int, int], dict[int, list[bytes]]]:
    """Returns the fields of a message by number: whole numbers, and everything else as bytes."""
    numbers: dict[int, int] = {}
    parts: dict[int, list[bytes]] = {}
    place = 0
    while place < len(body):
        key, place = _read_varint(body, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            numbers[number], place = _read_varint(body, place)
            continue
        if kind == 2:
            size, place = _read_varint(body, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if place + size > len(body):
            raise ValueError("a field is longer than its message")
        parts.setdefault(number, []).append(body[place : place + size])
        place += size
    return numbers, parts


def _read_varint(body: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = body[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number that never ends")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _text(number: int, value: bytes) -> bytes:
    return _key(number, 2) + _varint(len(value)) + value


def _double(number: int, value: float) -> bytes:
    return _key(number, 1) + struct.pack("<d", value)


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        table.append(byte)
    return table


_CRC = _crc_table()


def _masked_crc(data: bytes) -> int:
    """Returns the CRC-32C of some bytes, masked as TensorFlow's records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
