"""Checkpoints of unfinished runs: one file each, no pickle, refused when anything about it is odd.

The file is a line of JSON that says whose it is and what its checksum is, and then a safetensors
payload with the arrays, which carries the rest of the state as JSON in its metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from pacebench.harness.records import Checkpoint
from pacebench.harness.store.files import sha256, write_atomic
from pacebench.harness.store.provenance import kernels, package_versions
from pacebench.harness.store.reading import BadFileError, open_stream, parse_json, read_file

NAME = "checkpoint.bin"
_LONGEST_HEADER = 65536


class BadCheckpointError(Exception):
    """A checkpoint that must not be used; the message says why."""


class _Header(BaseModel):
    """The first line of the file."""

    run_id: str
    step: Annotated[int, Field(ge=0)]
    versions: dict[str, str]
    sha256: str


def save_checkpoint(
    path: Path, run_id: str, checkpoint: Checkpoint, *, durable: bool = True
) -> None:
    """Replaces the checkpoint of a run; a durable one is not lost to a power cut.

    Raises:
        StorageError: It cannot be written; the one before is still there.
        TypeError: An array or the state cannot be stored.
    """
    arrays = {name: _plain(name, array) for name, array in checkpoint.arrays.items()}
    payload = save_arrays(arrays, {"state": json.dumps(checkpoint.state)})
    header = {
        "format": 1,
        "run_id": run_id,
        "step": checkpoint.step,
        "versions": _numerics(),
        "sha256": sha256(payload),
    }
    write_atomic(path, json.dumps(header).encode() + b"\n" + payload, durable=durable)


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"checkpoint array {name!r} has type {array.dtype}, which is no number.")
    return np.ascontiguousarray(array).reshape(array.shape)


def load_checkpoint(path: Path, run_id: str) -> Checkpoint | None:
    """Returns the checkpoint of a run, or None where there is none.

    Raises:
        BadCheckpointError: The file is torn, belongs to another run, or was written under other
            library versions or kernels, from which the bits would go on differently.
    """
    try:
        head, _, payload = read_file(path).partition(b"\n")
    except FileNotFoundError:
        return None
    except BadFileError as error:
        raise BadCheckpointError(f"it {error.what}") from None
    header = _header(head, path, run_id)
    if sha256(payload) != header.sha256:
        raise BadCheckpointError("its content does not match its checksum")
    try:
        return Checkpoint(step=header.step, arrays=load_arrays(payload), state=_state(payload))
    except (SafetensorError, BadFileError, LookupError, TypeError, ValueError):
        raise BadCheckpointError("its content is not ours") from None


def checkpointed_steps(path: Path, run_id: str) -> int:
    """Returns how many environment steps a run need not do again, as its checkpoint says."""
    try:
        with open_stream(path) as file:
            return _header(file.readline(_LONGEST_HEADER), path, run_id).step
    except (OSError, BadFileError, BadCheckpointError):
        return 0


def _header(head: bytes, path: Path, run_id: str) -> _Header:
    try:
        header = _Header.model_validate(parse_json(head, path))
    except (BadFileError, ValidationError):
        raise BadCheckpointError("its header is not ours") from None
    if header.run_id != run_id:
        raise BadCheckpointError(f"it belongs to run {header.run_id}")
    if header.versions != _numerics():
        raise BadCheckpointError("it was written under other library versions or kernels")
    return header


def _numerics() -> dict[str, str]:
    """Returns what must be the same for the bits to go on as they would have."""
    return {**package_versions(), "kernels of matrix products": kernels()}


def _state(payload: bytes) -> dict[str, Any]:
    # safetensors: eight bytes of length, then a JSON header whose __metadata__ is ours.
    length = int.from_bytes(payload[:8], "little")
    metadata = parse_json(payload[8 : 8 + length], NAME)["__metadata__"]
    state = parse_json(metadata["state"].encode(), NAME)
    if not isinstance(state, dict):
        raise TypeError("a state that is no object")
    return state
