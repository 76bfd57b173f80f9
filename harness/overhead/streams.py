"""Streams of instances: the synthetic grid, and updates recorded from real training runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.instances import KINDS, Floats, Instance, synthetic
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.study.specs import digest

RECORDED_SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
RECORDING_STEPS = 163_840


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
    grid = [_synthetic_stream(d, k, settings) for d in settings.dimensions for k in settings.sizes]
    return [*(_recorded_stream(f, settings) for f in sorted(folder.glob("streams/*.npz"))), *grid]


def _synthetic_stream(d: int, size: int, settings: Settings) -> ReplayStream:
    indices = _spread(settings.instances, len(KINDS))
    content = digest([d, size, indices, settings.seed, settings.epsilon])
    build = partial(synthetic, d, size, seed=settings.seed, epsilon=settings.epsilon)
    name = f"d{d:05d}-k{size:04d}"
    return ReplayStream("synthetic", name, d, size, indices, content, build)


def _recorded_stream(path: Path, settings: Settings) -> ReplayStream:
    instances = load_stream(path)
    size = int(np.median([len(instance.values) for instance in instances]))
    indices = _spread(2 * settings.instances, len(instances))
    content = digest([hashlib.sha256(path.read_bytes()).hexdigest(), indices])
    name, d = f"recorded-{path.stem}", instances[0].target.dim
    return ReplayStream("recorded", name, d, size, indices, content, lambda i: instances[i])


def _spread(wanted: int, there: int) -> tuple[int, ...]:
    """Returns evenly spaced indices from the first to the last."""
    return tuple(sorted({round(x) for x in np.linspace(0, there - 1, wanted)}))


def save_stream(path: Path, source: dict[str, Any], instances: Sequence[Instance]) -> None:
    """Writes a recorded stream as one compressed file, with where it comes from."""
    first = instances[0]
    np.savez_compressed(
        path,
        source=np.frombuffer(json.dumps(source).encode(), np.uint8),
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


def load_stream(path: Path) -> list[Instance]:
    """Returns the instances that `save_stream` wrote, one per update, in order.

    Raises:
        UserError: The file is not such a stream.
    """
    try:
        with np.load(path) as stored:
            data = {key: stored[key] for key in stored.files}
        target = curricula.Gaussian(data["target_mean"], data["target_variance"])
        ends = np.cumsum(data["sizes"])[:-1]
        given = np.split(data["contexts"], ends), np.split(data["values"], ends)
        limits = float(data["threshold"]), float(data["epsilon"])
        return [
            Instance(target, curricula.Gaussian(mean, variance), contexts, values, *limits)
            for mean, variance, contexts, values in zip(
                data["mean"], data["variance"], *given, strict=True
            )
        ]
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is not a recorded stream ({error}); delete it, and it is recorded anew."
        ) from None


def record(setup: str, steps: int, seed: int) -> tuple[dict[str, Any], list[Instance]]:
    """Returns where the stream of one training run comes from, and its instances."""
    from pacebench.harness.overhead.training import overhead_study
    from pacebench.harness.seeding import RunSeed, StudyRole
    from pacebench.harness.study.expand import resolve_cell
    from pacebench.harness.training import train

    study = overhead_study([RECORDED], setup, steps, seed)
    cell = resolve_cell(study, study.curricula[0], setup)
    run = RunSeed(root=seed, role=StudyRole.PILOT, index=0)
    with _recording() as (name, instances):
        named = cell.curriculum.model_copy(update={"name": name})
        train(cell.model_copy(update={"curriculum": named}), [run])
    about = cell.model_dump(mode="json", include={"setup", "curriculum", "learner", "schedule"})
    return {**about, "steps": steps, "seed": run.model_dump(mode="json")}, instances


@contextmanager
def _recording() -> Iterator[tuple[str, list[Instance]]]:
    """Registers, for a while, a curriculum that notes what each update is given."""
    name = "overhead-recording"
    instances: list[Instance] = []
    base: Any = curricula.get(RECORDED)

    class Recording(base):  # type: ignore[misc]
        """The recorded curriculum with a memory."""

        def _propose(self, contexts: Floats, values: Floats) -> Any:
            given = contexts.copy(), values.copy(), float(self.threshold), self.epsilon
            instances.append(Instance(self.target, self.distribution, *given))
            return super()._propose(contexts, values)

    curricula.register(name)(Recording)
    try:
        yield name, instances
    finally:
        curricula.unregister(name)
