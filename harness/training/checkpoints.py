"""Checkpoints: arrays and JSON-able values, nothing pickled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench.harness.records import EVALUATION_COLUMNS, Checkpoint

_PREFIX = "evaluations/"


def pack(
    step: int,
    arrays: dict[str, NDArray[Any]],
    evaluations: dict[str, list[Any]],
    state: dict[str, Any],
) -> Checkpoint:
    """Returns a checkpoint; recorded episodes go into arrays, since there may be many."""
    texts: dict[str, list[str]] = {}
    stored = dict(arrays)
    for name, column in evaluations.items():
        if EVALUATION_COLUMNS[name] == "category":
            texts[name] = sorted(set(column))
            stored[_PREFIX + name] = np.array([texts[name].index(c) for c in column], np.int8)
        else:
            stored[_PREFIX + name] = np.array(column)
    return Checkpoint(step=step, arrays=stored, state={**state, "texts": texts})


def unpack(checkpoint: Checkpoint) -> tuple[dict[str, NDArray[Any]], dict[str, list[Any]]]:
    """Returns the arrays and the recorded episodes of a checkpoint."""
    arrays, evaluations = {}, {}
    for name, array in checkpoint.arrays.items():
        if not name.startswith(_PREFIX):
            arrays[name] = array
            continue
        column = name.removeprefix(_PREFIX)
        texts = checkpoint.state["texts"].get(column)
        evaluations[column] = array.tolist() if texts is None else [texts[i] for i in array]
    return arrays, {name: evaluations[name] for name in EVALUATION_COLUMNS}
