"""Problem instances: what every curriculum is given, the same for all.

A stream is a list of instances: a cell of the synthetic grid, or the updates of a real training
run. Each holds the distribution that its contexts were sampled from, and every curriculum starts
the update from *that* distribution: all solve the same problem, update by update.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, PlainSerializer, PlainValidator

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.store.files import make_folder, write_atomic
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
        its performance step rather than some for nothing. Divergences and distances, which only
        readers of a record need and which cost all curricula the same, are not recorded; training
        runs tell what that costs.
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

    def given(self, curriculum: curricula.Curriculum) -> tuple[Any, ...]:
        """Returns the arguments of the update; what else is read is made up from the values."""
        if curriculum.reads <= {"contexts", "values"}:
            return self.contexts, self.values
        return (curricula.Episodes.standing_in(self.contexts, self.values, curriculum.reads),)


class RecordedStream(BaseModel):
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
    name: str  # unique; names the cell's file
    d: int  # context dimensions
    size: int  # contexts per update; the median for a recorded stream
    indices: tuple[int, ...]  # the instances, all of which every block replays
    fingerprint: str  # a hash of what is replayed
    # Makes the instance of an index, the same in every process.
    build: Callable[[int], Instance] = field(compare=False)


def replay_streams(folder: Path, settings: Settings) -> list[ReplayStream]:
    """Returns the recorded streams in a results folder, then the grid of d and K."""
    files = sorted(folder.glob("streams/*.json.gz"))
    grid = [_synthetic_stream(d, k, settings) for d in settings.dimensions for k in settings.sizes]
    return [*(_recorded_stream(file, settings) for file in files), *grid]


def _synthetic_stream(d: int, size: int, settings: Settings) -> ReplayStream:
    indices = _spread(settings.instances, len(KINDS))
    content = digest([d, size, indices, settings.seed, settings.epsilon])
    build = partial(synthetic, d, size, seed=settings.seed, epsilon=settings.epsilon)
    name = f"d{d:05d}-k{size:04d}"
    return ReplayStream("synthetic", name, d, size, indices, content, build)


def _recorded_stream(path: Path, settings: Settings) -> ReplayStream:
    instances = load_stream(path).instances
    size = int(np.median([len(instance.values) for instance in instances]))
    indices = _spread(2 * settings.instances, len(instances))
    content = digest([hashlib.sha256(path.read_bytes()).hexdigest(), indices])
    name, d = f"recorded-{path.name.removesuffix('.json.gz')}", instances[0].target.dim
    return ReplayStream("recorded", name, d, size, indices, content, lambda i: instances[i])


def _spread(wanted: int, there: int) -> tuple[int, ...]:
    """Returns evenly spaced indices from the first to the last."""
    return tuple(sorted({round(x) for x in np.linspace(0, there - 1, wanted)}))


def load_stream(path: Path) -> RecordedStream:
    """Returns a stream from its file.

    Raises:
        UserError: The file is not such a stream.
    """
    try:
        return RecordedStream.model_validate_json(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError):
        said = f"{path} is not a recorded stream; delete it, and it is recorded anew."
        raise UserError(said) from None


def write_packed(path: Path, text: str) -> None:
    """Writes a compressed text; the same text is the same bytes."""
    make_folder(path.parent)
    write_atomic(path, gzip.compress(text.encode(), mtime=0), durable=False)
