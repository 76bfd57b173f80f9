"""The cells of a measurement: problem instances, the same for every curriculum, and what is known.

A stream is a list of instances: a cell of the synthetic grid, or the updates of a real training
run. Each holds the distribution that its contexts were sampled from, and every curriculum starts
the update from *that* distribution: all solve the same problem, update by update. What is measured
on a stream is kept in one file per cell, rewritten after every block.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator

from pacebench import curricula
from pacebench.harness.overhead.findings import MainClock, StoredRecord
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.store.files import sha256
from pacebench.harness.study.specs import digest

Floats = NDArray[np.float64]
# As JSON: nested lists; mean and variances.
StoredFloats = Annotated[Floats, PlainValidator(np.array), PlainSerializer(np.ndarray.tolist)]
StoredGaussian = Annotated[
    curricula.Gaussian,
    PlainValidator(lambda stored: curricula.Gaussian(*stored)),
    PlainSerializer(lambda p: [p.mean.tolist(), p.variance.tolist()]),
]

# In turn: below the threshold; above with little to lose; above with plenty to lose.
KINDS = (*("performance", "tight", "loose") * 2, "performance", "tight", "near", "near-tight")
# How far the mean value lies above the threshold, in standard deviations of the values.
_MARGIN = {"performance": -0.5, "tight": 0.02, "loose": 2.0, "near": 2.0, "near-tight": 0.02}


@dataclass(frozen=True)
class Instance:
    """One update to be made."""

    target: StoredGaussian  # the target distribution ψ
    current: StoredGaussian  # the distribution p that the contexts were sampled from
    contexts: StoredFloats  # (K, d), unclipped
    values: StoredFloats  # (K,)
    threshold: float  # V₋
    epsilon: float  # ε

    def make(self, name: str) -> curricula.Curriculum:
        """Returns the curriculum `name` at p, before the update.

        V₋ counts as not reached before, so that a shortfall asks every self-paced curriculum for
        its performance step. Divergences and distances, which only readers of a record need, are
        not recorded; training runs tell what they cost.
        """
        reach = 8.0 * (self.current.std + self.target.std)
        low = np.minimum(self.current.mean, self.target.mean) - reach
        high = np.maximum(self.current.mean, self.target.mean) + reach
        return curricula.make(
            name,
            target=self.target,
            initial=self.current,
            bounds=(low, high),
            epsilon=self.epsilon,
            threshold=self.threshold,
            record_every=0,
        )


class RecordedStream(StoredRecord):
    """The updates of a training run, in order, and where they come from."""

    source: dict[str, Any]
    instances: tuple[Instance, ...]


def synthetic(d: int, size: int, index: int, *, seed: int, epsilon: float) -> Instance:
    """Returns instance `index` of the synthetic stream for d dimensions and `size` contexts.

    The state lies on the way from a wide initial distribution to the target, further on with every
    index and close to the target at the end. The value falls along a direction that leads partly
    to the target, as it does for a policy that has learnt the easy contexts, and is noisy. The
    threshold is set by `KINDS`, so that every case of every update rule occurs.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, d, size, index)))
    # One problem per d: instances differ in how far they are, not in where they go.
    fixed = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, d)))
    kind = KINDS[index % len(KINDS)]
    std = np.exp(fixed.uniform(-1.5, 0.5, d))
    target = curricula.Gaussian(3.0 * std * fixed.standard_normal(d), std**2)
    gap0 = np.sign(fixed.standard_normal(d)) * fixed.uniform(1.0, 3.0, d)
    log_theta0 = fixed.uniform(1.0, 4.0, d)
    direction = fixed.standard_normal(d)
    far = 1.0 - (index % len(KINDS)) / len(KINDS)
    if kind.startswith("near"):
        # Close enough for the target to be within one budget, whatever d.
        far = 0.5 * float(np.sqrt(epsilon / (gap0 @ gap0 + log_theta0 @ log_theta0)))
    theta = np.exp(far * log_theta0)
    gap = far * gap0  # in units of the current standard deviation
    current = curricula.Gaussian(target.mean - gap * std * np.sqrt(theta), std**2 * theta)
    z = rng.standard_normal((size, d))
    # Unequal parts: in one dimension equal ones could cancel.
    slope = 0.8 * gap0 / np.linalg.norm(gap0) + 0.6 * direction / np.linalg.norm(direction)
    logits = -(z @ (slope / np.linalg.norm(slope))) + 0.5 * rng.standard_normal(size)
    values = 10.0 / (1.0 + np.exp(-logits))
    z *= current.std
    z += current.mean
    threshold = float(values.mean() - _MARGIN[kind] * values.std())
    return Instance(target, current, z, values, threshold, epsilon)


@dataclass(frozen=True)
class ReplayStream:
    """Where the instances of a cell come from."""

    kind: Literal["synthetic", "recorded"]
    path: Path  # of the cell's file
    d: int  # context dimensions
    size: int  # contexts per update; the median for a recorded stream
    indices: tuple[int, ...]  # the instances, all of which every block replays
    fingerprint: str  # a hash of what is replayed
    # Makes the instance of an index, the same in every process.
    build: Callable[[int], Instance] = field(compare=False)

    @property
    def name(self) -> str:
        """The cell's name."""
        return self.path.name.removesuffix(".json.gz")


def replay_streams(folder: Path, settings: Settings) -> list[ReplayStream]:
    """Returns the recorded streams in a results folder, then the grid of d and K."""
    cells, streams = folder / "cells", []
    count, seed, epsilon = settings.instances, settings.seed, settings.epsilon
    for file in sorted(folder.glob("streams/*.json.gz")):
        instances = RecordedStream.read(file, "delete it, and it is recorded anew").instances
        d, size = instances[0].target.dim, int(np.median([len(x.values) for x in instances]))
        path, indices = cells / f"recorded-{file.name}", _spread(2 * count, len(instances))
        given = d, size, indices, digest([sha256(file.read_bytes()), indices])
        streams.append(ReplayStream("recorded", path, *given, instances.__getitem__))
    indices = _spread(count, len(KINDS))
    for d, size in product(settings.dimensions, settings.sizes):
        path = cells / f"d{d:05d}-k{size:04d}.json.gz"
        given = d, size, indices, digest([d, size, indices, seed, epsilon])
        build = partial(synthetic, d, size, seed=seed, epsilon=epsilon)
        streams.append(ReplayStream("synthetic", path, *given, build))
    return streams


def _spread(wanted: int, there: int) -> tuple[int, ...]:
    """Returns evenly spaced indices from the first to the last."""
    return tuple(sorted({round(x) for x in np.linspace(0, there - 1, wanted)}))


class Answer(StoredRecord):
    """What one method made of one instance."""

    # An answer may be infinitely far off.
    model_config = ConfigDict(ser_json_inf_nan="constants")

    accepted: bool = True  # False where the method rejected its own solution and stayed
    iterations: int = 0  # of its numerical solver
    kl_forward: float  # KL(ψ‖p')
    kl_reverse: float  # KL(p'‖ψ)
    kl_new_old: float  # KL(p'‖p) / ε, SPGL's trust region
    kl_old_new: float  # KL(p‖p') / ε, SPDL's trust region
    value: float  # the importance-weighted value minus V₋, in standard deviations of the values


# Of the whole update by `perf_counter` and by `process_time`, and of the method's own step as the
# update's record says.
Clock = MainClock | Literal["step"]
CLOCKS: tuple[Clock, ...] = ("wall", "cpu", "step")
# Seconds of one contestant in one block, per instance.
BlockTimes = dict[Clock, tuple[float, ...]]


class BlockRecord(StoredRecord):
    """One block of one cell: times by label, the load before, the stolen share."""

    times: dict[str, BlockTimes]
    load: float
    steal: float


class CellRecord(StoredRecord):
    """All that is known of one cell; it grows block by block."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    stream: ReplayStream = Field(exclude=True)
    digest: str  # of the settings and of the stream that it was measured with
    # Probed seconds per update of the curricula that are timed here, and why the others are not.
    seconds: dict[str, float] = Field(default_factory=dict)
    untimed: dict[str, str] = Field(default_factory=dict)
    # By number; every block replays all instances.
    blocks: dict[int, BlockRecord] = Field(default_factory=dict)
    # By curriculum, one per instance; the same in every block.
    answers: dict[str, tuple[Answer, ...]] = Field(default_factory=dict)

    def times(self, label: str, clock: Clock) -> Floats:
        """Returns the seconds of one contestant, (instances, blocks)."""
        return np.array([b.times[label][clock] for _, b in sorted(self.blocks.items())]).T


def load_cells(folder: Path, settings: Settings) -> list[CellRecord]:
    """Returns the cells of all streams, empty where nothing of these settings is stored yet."""
    cells = []
    for stream in replay_streams(folder, settings):
        cell = CellRecord(stream=stream, digest=f"{settings.cell_digest()}-{stream.fingerprint}")
        with suppress(OSError, EOFError, ValueError):
            stored = json.loads(gzip.decompress(stream.path.read_bytes()))
            if stored.get("digest") == cell.digest:
                cell = CellRecord.model_validate({**stored, "stream": stream})
        cells.append(cell)
    return cells
