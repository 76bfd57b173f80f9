"""Streams of instances: the synthetic grid, and updates recorded from real training runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.instances import KINDS, Instance, synthetic
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.study.specs import Frozen

RECORDED_SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
RECORDING_STEPS = 163_840
_RECORDED_INSTANCES = 20
# Contexts of one block are kept in memory together.
_BLOCK_BYTES = 200e6


class ReplayStream(Frozen):
    """Where the instances of a cell come from; enough to build them in any process.

    Attributes:
        kind: `synthetic`, `recorded`, or `check` for the self-check on a synthetic stream.
        name: Unique; names the cell's file.
        d: Context dimensions.
        size: Contexts per update; the median for a recorded stream.
        indices: The instances that blocks take in turn.
        seed: Root of a synthetic stream.
        epsilon: ε of a synthetic stream.
        path: File of a recorded stream.
    """

    kind: str
    name: str
    d: int
    size: int
    indices: tuple[int, ...]
    seed: int = 0
    epsilon: float = 0.05
    path: str = ""

    def build(self, indices: Sequence[int]) -> list[Instance]:
        """Returns some of the instances, the same in every process."""
        if self.kind == "recorded":
            stored = load_stream(Path(self.path)).instances
            return [stored[i] for i in indices]
        return [
            synthetic(self.d, self.size, i, seed=self.seed, epsilon=self.epsilon) for i in indices
        ]

    def at_most(self) -> int:
        """Returns how many instances fit into one block."""
        return max(1, min(len(self.indices), int(_BLOCK_BYTES / (8 * self.d * self.size))))

    def of_block(self, number: int, wanted: int) -> tuple[int, ...]:
        """Returns the instances that a block replays, so that blocks cover them all evenly."""
        count = len(self.indices)
        first = number * wanted
        positions = {(first + j) % count for j in range(min(wanted, count))}
        return tuple(self.indices[position] for position in sorted(positions))


def grid_streams(settings: Settings) -> list[ReplayStream]:
    """Returns the grid of d and K."""
    return [
        _synthetic_stream("synthetic", f"d{d:05d}-k{size:04d}", d, size, settings)
        for d in settings.dimensions
        for size in settings.sizes
    ]


def check_stream(settings: Settings) -> ReplayStream:
    """Returns the stream of the self-check."""
    return _synthetic_stream("check", "check-d00003-k0064", 3, 64, settings)


def _synthetic_stream(kind: str, name: str, d: int, size: int, settings: Settings) -> ReplayStream:
    return ReplayStream(
        kind=kind, name=name, d=d, size=size, indices=tuple(range(len(KINDS))),
        seed=settings.seed, epsilon=settings.epsilon,
    )  # fmt: skip


def recorded_streams(folder: Path) -> list[ReplayStream]:
    """Returns the recorded streams in a folder, evenly spaced instances of each."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        stream = load_stream(path)
        last = len(stream.instances) - 1
        chosen = sorted({round(x) for x in np.linspace(0, last, _RECORDED_INSTANCES)})
        sizes = [len(instance.values) for instance in stream.instances]
        found.append(
            ReplayStream(
                kind="recorded",
                name=f"recorded-{stream.name}",
                d=stream.instances[0].target.dim,
                size=int(np.median(sizes)),
                indices=tuple(chosen),
                path=str(path),
            )
        )
    return found


@dataclass(frozen=True)
class RecordedStream:
    """Updates recorded from a real training run.

    Attributes:
        name: Where it is from, e.g. `point-mass-2`.
        source: Curriculum, learner, seed and settings of the run, JSON-able.
        instances: One per update, in order.
    """

    name: str
    source: dict[str, Any]
    instances: tuple[Instance, ...]


def save_stream(path: Path, stream: RecordedStream) -> None:
    """Writes a recorded stream as one compressed file."""
    instances = stream.instances
    first = instances[0]
    np.savez_compressed(
        path,
        source=np.frombuffer(json.dumps({"name": stream.name, **stream.source}).encode(), np.uint8),
        target_mean=first.target.mean,
        target_variance=first.target.variance,
        mean=np.stack([i.current.mean for i in instances]),
        variance=np.stack([i.current.variance for i in instances]),
        contexts=np.concatenate([i.contexts for i in instances]),
        values=np.concatenate([i.values for i in instances]),
        sizes=np.array([len(i.values) for i in instances]),
        threshold=first.threshold,
        epsilon=first.epsilon,
    )


def load_stream(path: Path) -> RecordedStream:
    """Reads what `save_stream` wrote.

    Raises:
        UserError: The file is not such a stream.
    """
    try:
        with np.load(path) as stored:
            data = {key: stored[key] for key in stored.files}
        source = json.loads(data["source"].tobytes())
        target = curricula.Gaussian(data["target_mean"], data["target_variance"])
        ends = np.cumsum(data["sizes"])[:-1]
        parts = zip(
            data["mean"],
            data["variance"],
            np.split(data["contexts"], ends),
            np.split(data["values"], ends),
            strict=True,
        )
        limits = float(data["threshold"]), float(data["epsilon"])
        instances = tuple(
            Instance(target, curricula.Gaussian(mean, variance), contexts, values, *limits)
            for mean, variance, contexts, values in parts
        )
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is not a recorded stream ({error}); delete it, and it is recorded anew."
        ) from None
    return RecordedStream(source.pop("name"), source, instances)


def record(setup: str, steps: int, seed: int) -> RecordedStream:
    """Returns the stream of one training run of `steps` environment steps."""
    from pacebench.harness.overhead.training import training_cell
    from pacebench.harness.seeding import RunSeed, StudyRole
    from pacebench.harness.training import train

    cell = training_cell(RECORDED, setup, steps, seed)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    with _recording() as (name, instances):
        named = cell.curriculum.model_copy(update={"name": name})
        train(cell.model_copy(update={"curriculum": named}), [run])
    source = {
        "setup": setup,
        **cell.model_dump(mode="json", include={"curriculum", "learner", "schedule"}),
        "steps": steps,
        "seed": run.model_dump(mode="json"),
    }
    return RecordedStream(setup, source, tuple(instances))


@contextmanager
def _recording() -> Iterator[tuple[str, list[Instance]]]:
    """Registers, for a while, a curriculum that notes what each update is given."""
    name = "overhead-recording"
    instances: list[Instance] = []
    base: Any = curricula.get(RECORDED)

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def update(self, episodes: curricula.Episodes) -> curricula.UpdateRecord:
            given = episodes.contexts.copy(), np.array(episodes.values)
            limits = float(self.threshold), self.epsilon
            instances.append(Instance(self.target, self.distribution, *given, *limits))
            record: curricula.UpdateRecord = super().update(episodes)
            return record

    curricula.register(name)(Recording)
    try:
        yield name, instances
    finally:
        curricula.unregister(name)
