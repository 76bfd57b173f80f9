"""Problem instances: what every curriculum is given, the same for all.

A stream is a list of instances. Each holds the distribution that the contexts were sampled from,
so every curriculum starts every replayed update from *that* distribution, whatever it would have
done before. All methods then solve the same problem, and speed and quality can be compared update
by update; feeding each the contexts of somebody else's distribution would compare nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import curricula
from pacebench.harness.errors import UserError

Floats = NDArray[np.float64]

SYNTHETIC_INSTANCES = 10
# In turn: below the threshold; above with little to lose; above with plenty to lose.
KINDS = (
    "performance",
    "tight",
    "loose",
    "performance",
    "tight",
    "loose",
    "performance",
    "tight",
    "near",
    "near-tight",
)


@dataclass(frozen=True)
class Instance:
    """One update to be made.

    Attributes:
        target: The target distribution ψ.
        current: The distribution p that the contexts were sampled from.
        contexts: (K, d), unclipped.
        values: (K,).
        threshold: V₋.
        epsilon: ε.
    """

    target: curricula.Gaussian
    current: curricula.Gaussian
    contexts: Floats
    values: Floats
    threshold: float
    epsilon: float

    @property
    def slack(self) -> float:
        """The slack a = V̄ − V₋."""
        return float(self.values.mean()) - self.threshold

    @property
    def converging(self) -> bool:
        """Whether the update is a convergence step (a ≥ 0) or a performance step."""
        return self.slack >= 0.0

    def make(self, name: str, **options: Any) -> curricula.Curriculum:
        """Returns the curriculum `name` at p, before the update.

        V₋ counts as not reached before, so that a shortfall asks every self-paced curriculum for
        its performance step rather than some for nothing.
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
            **options,
        )


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
    kind = KINDS[index % SYNTHETIC_INSTANCES]
    std = np.exp(fixed.uniform(-1.5, 0.5, d))
    target = curricula.Gaussian(3.0 * std * fixed.standard_normal(d), std**2)
    gap0 = np.sign(fixed.standard_normal(d)) * fixed.uniform(1.0, 3.0, d)
    log_theta0 = fixed.uniform(1.0, 4.0, d)
    direction = fixed.standard_normal(d)
    far = 1.0 - (index % SYNTHETIC_INSTANCES) / SYNTHETIC_INSTANCES
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
    margin = {"performance": -0.5, "tight": 0.02, "loose": 2.0, "near": 2.0, "near-tight": 0.02}
    threshold = float(values.mean()) - margin[kind] * spread
    return Instance(target, current, z, values, threshold, epsilon)


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

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.instances[0].target.dim

    @property
    def size(self) -> int:
        """The median number of contexts per update."""
        return int(np.median([len(i.values) for i in self.instances]))


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
        ends = np.cumsum(data["sizes"])
        instances = tuple(
            Instance(
                target,
                curricula.Gaussian(data["mean"][i], data["variance"][i]),
                data["contexts"][end - count : end],
                data["values"][end - count : end],
                float(data["threshold"]),
                float(data["epsilon"]),
            )
            for i, (end, count) in enumerate(zip(ends, data["sizes"], strict=True))
        )
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is not a recorded stream ({error}); delete it, and it is recorded anew."
        ) from None
    return RecordedStream(source.pop("name"), source, instances)


def spread_over(count: int, wanted: int, block: int) -> list[int]:
    """Returns which of `count` instances a block replays, so that blocks cover them all evenly."""
    first = block * wanted
    return sorted({(first + j) % count for j in range(min(wanted, count))})


def recorded_choice(instances: Sequence[Instance], wanted: int) -> list[int]:
    """Returns evenly spaced instances of a recorded stream, first and last included."""
    return sorted({round(x) for x in np.linspace(0, len(instances) - 1, wanted)})
