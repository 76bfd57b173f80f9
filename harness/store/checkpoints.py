"""Checkpoints of unfinished runs: one file each, no pickle, refused when anything about it is odd.

The file is a line of JSON that says whose it is and what its checksum is, and then a safetensors
payload with the arrays, which carries the rest of the state as JSON in its metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from pacebench.harness.records import Checkpoint
from pacebench.harness.store.files import sha256, write_atomic
from pacebench.harness.store.provenance import package_versions

NAME = "checkpoint.bin"


class BadCheckpointError(Exception):
    """A checkpoint that must not be used; the message says why."""


def save_checkpoint(
    path: Path, run_id: str, checkpoint: Checkpoint, *, durable: bool = True
) -> None:
    """Replaces the checkpoint of a run.

    Args:
        path: Where it is.
        run_id: Whose it is.
        checkpoint: What to keep.
        durable: Wait for the disk, so that a power cut does not cost it.

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
        "versions": package_versions(),
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
            library versions, from which the bits would go on differently.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    head, _, payload = data.partition(b"\n")
    try:
        header = json.loads(head)
        step, owner = int(header["step"]), header["run_id"]
        versions, checksum = header["versions"], header["sha256"]
    except (ValueError, KeyError, TypeError):
        raise BadCheckpointError("its header is not ours") from None
    if owner != run_id:
        raise BadCheckpointError(f"it belongs to run {owner}")
    if sha256(payload) != checksum:
        raise BadCheckpointError("its content does not match its checksum")
    if versions != package_versions():
        raise BadCheckpointError("it was written under other library versions")
    return Checkpoint(step=step, arrays=load_arrays(payload), state=_state(payload))


def _state(payload: bytes) -> dict[str, Any]:
    # safetensors: eight bytes of length, then a JSON header whose __metadata__ is ours.
    length = int.from_bytes(payload[:8], "little")
    state: dict[str, Any] = json.loads(json.loads(payload[8 : 8 + length])["__metadata__"]["state"])
    return state
