"""Checkpoints: arrays and JSON-able values, nothing pickled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench.harness.records import EVALUATION_COLUMNS, Checkpoint
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training.training_envs import EpisodeLog

_PREFIX = "evaluations/"
_LOG = "log/"


class UnusableCheckpointsError(Exception):
    """Checkpoints that training cannot go on from.

    Attributes:
        reasons: What is wrong with each, by its seed.
    """

    def __init__(self, reasons: dict[RunSeed, str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons.values()))


def pack(
    step: int,
    arrays: dict[str, NDArray[Any]],
    evaluations: dict[str, list[Any]],
    state: dict[str, Any],
    log: EpisodeLog | None = None,
) -> Checkpoint:
    """Returns a checkpoint; recorded episodes go into arrays, since there may be many.

    The log tells what led to the middle of the episodes; there is none where they are about to
    restart.
    """
    texts: dict[str, list[str]] = {}
    stored = dict(arrays)
    if log is not None:
        stored |= {_LOG + name: getattr(log, name) for name in ("actions", "contexts", "episodes")}
        state = {**state, "log": {"streams": log.streams, "in_cohort": log.in_cohort}}
    for name, column in evaluations.items():
        if EVALUATION_COLUMNS[name] == "category":
            texts[name] = sorted(set(column))
            stored[_PREFIX + name] = np.array([texts[name].index(c) for c in column], np.int8)
        else:
            stored[_PREFIX + name] = np.array(column)
    return Checkpoint(step=step, arrays=stored, state={**state, "texts": texts})


def unpack(
    checkpoint: Checkpoint,
) -> tuple[dict[str, NDArray[Any]], dict[str, list[Any]], EpisodeLog | None]:
    """Returns the agent's arrays, the recorded episodes and the log of a checkpoint."""
    arrays, evaluations = {}, {}
    played: dict[str, Any] = {}
    for name, array in checkpoint.arrays.items():
        kind, _, column = name.partition("/")
        if kind + "/" == _LOG:
            played[column] = array
        elif kind + "/" != _PREFIX:
            arrays[name] = array
        else:
            texts = checkpoint.state["texts"].get(column)
            evaluations[column] = array.tolist() if texts is None else [texts[i] for i in array]
    log = EpisodeLog(**played, **checkpoint.state["log"]) if played else None
    return arrays, {name: evaluations[name] for name in EVALUATION_COLUMNS}, log
