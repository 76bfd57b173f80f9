"""Problem instances: what every curriculum is given, the same for all.

A stream is a list of instances: a cell of the synthetic grid, or the updates of a real training
run. Each instance holds the distribution that the contexts were sampled from,
so every curriculum starts every replayed update from *that* distribution, whatever it would have
done before. All methods then solve the same problem, and speed and quality can be compared update
by update; feeding each the contexts of somebody else's distribution would compare nothing.
"""

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
from numpy.typing import NDArray

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.settings import Settings
from pacebench.harness.study.specs import digest

Floats = NDArray[np.float64]

RECORDED_SETUPS = ("point-mass-1", "point-mass-2")
# The curriculum that makes the stream must keep to a diagonal Gaussian, which every method can
# start from, and to an exact budget, so that no method is asked for what a breach led to.
RECORDED = "spgl-shared"
RECORDING_STEPS = 163_840

# In turn: below the threshold; above with little to lose; above with plenty to lose.
KINDS = (*("performance", "tight", "loose") * 2, "performance", "tight", "near", "near-tight")
# How far the mean value lies above the threshold, in standard deviations of the values.
_MARGIN = {"performance": -0.5, "tight": 0.02, "loose": 2.0, "near": 2.0, "near-tight": 0.02}


@dataclass(frozen=True)
class Instance:
    """One update to be made."""

    target: curricula.Gaussian  # the target distribution ψ
    current: curricula.Gaussian  # the distribution p that the contexts were sampled from
    contexts: Floats  # (K, d), unclipped
    values: Floats  # (K,)
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
    spread = float(values.std())
    threshold = float(values.mean()) - _MARGIN[kind] * spread
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
