"""A setup: an environment with everything that makes it one fixed benchmark task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pacebench.envs.errors import SetupError

Vector = tuple[float, ...]


@dataclass(frozen=True)
class PolicyScore:
    """How one scripted policy scores on the target distribution, with standard errors.

    Attributes:
        policy: `random`, `hold` or `reference`.
        mean_return: Undiscounted return of an episode, the score that anchors normalise.
        return_se: Standard error of `mean_return`.
        discounted_return: Return discounted with the setup's γ, comparable with the threshold V₋.
        discounted_return_se: Standard error of `discounted_return`.
        success_rate: Share of successful episodes.
        success_rate_se: Standard error of `success_rate`.
    """

    policy: str
    mean_return: float
    return_se: float
    discounted_return: float
    discounted_return_se: float
    success_rate: float
    success_rate_se: float


@dataclass(frozen=True)
class Anchors:
    """The two fixed scores between which results are normalised: baseline 0, reference 1.

    Attributes:
        baseline: The score that is mapped to 0, of the random or hold-still policy.
        reference: The score that is mapped to 1.
        episodes: Episodes played per policy, each with its own target context.
        seed: Seed of the measurement.
        command: The command that made these figures.
        version: Version of pacebench that made them.
    """

    baseline: PolicyScore
    reference: PolicyScore
    episodes: int
    seed: int
    command: str
    version: str

    def __post_init__(self) -> None:
        low, high = self.baseline.mean_return, self.reference.mean_return
        if not low < high:
            raise SetupError(
                f"the reference policy's return of {high:g} does not exceed the baseline's of "
                f"{low:g}, so that scores have no scale; give a better reference."
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Anchors:
        """Builds anchors from what `Setup.to_dict` or `anchors.json` holds."""
        plain = {f.name: data[f.name] for f in fields(cls)}
        plain["baseline"] = PolicyScore(**data["baseline"])
        plain["reference"] = PolicyScore(**data["reference"])
        return cls(**plain)

    def normalise(self, score: float) -> float:
        """Maps an undiscounted mean return to the scale baseline 0, reference 1."""
        low, high = self.baseline.mean_return, self.reference.mean_return
        return (score - low) / (high - low)


@dataclass(frozen=True)
class Setup:
    """Environment, context distributions, threshold and horizon: one benchmark task.

    Distributions are Gaussians with diagonal covariance; `*_variance` are variances. Contexts are
    drawn unclipped and clipped to `lower`, `upper` before they reach the physics.

    Attributes:
        name: What the setup is called in studies and on the command line.
        environment: Name of a registered environment, or `module:Class` of a `BatchEnv`.
        context_names: One name per context dimension.
        target_mean: Mean of the target context distribution.
        target_variance: Variances of the target context distribution.
        initial_mean: Mean of the initial context distribution.
        initial_variance: Variances of the initial context distribution.
        lower: Lower context bounds.
        upper: Upper context bounds.
        threshold: V₋, the discounted return that the curriculum demands before moving on.
        visible: Whether observations end with the context, scaled to [−1, 1].
        gamma: Discount factor γ.
        horizon: Steps after which an episode is truncated.
        doc: What the task is, in a sentence or two.
        source: Where the figures come from.
        success: When an episode counts as a success.
        min_return: A floor that no episode's undiscounted return can fall below, if known.
        max_return: A ceiling that no episode's undiscounted return can exceed, if known.
        anchors: The normalisation anchors, None until they have been measured.
    """

    name: str
    environment: str
    context_names: tuple[str, ...]
    target_mean: Vector
    target_variance: Vector
    initial_mean: Vector
    initial_variance: Vector
    lower: Vector
    upper: Vector
    threshold: float
    visible: bool
    gamma: float
    horizon: int
    doc: str
    source: str
    success: str
    min_return: float | None = None
    max_return: float | None = None
    anchors: Anchors | None = None

    def __post_init__(self) -> None:
        """Checks that the figures fit together."""
        d = len(self.context_names)
        for field_name in _VECTORS:
            value = tuple(float(x) for x in getattr(self, field_name))
            object.__setattr__(self, field_name, value)
            if len(value) != d or not all(map(math.isfinite, value)):
                raise self._wrong(field_name, f"needs {d} finite numbers, got {value}")
        object.__setattr__(self, "context_names", tuple(self.context_names))
        for field_name in ("target_variance", "initial_variance"):
            if min(getattr(self, field_name)) <= 0:
                raise self._wrong(field_name, "must be positive in every dimension")
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise self._wrong("lower", "must be below 'upper' in every dimension")
        if not 0 < self.gamma <= 1:
            raise self._wrong("gamma", f"must be in (0, 1], got {self.gamma}")
        if self.horizon < 1:
            raise self._wrong("horizon", f"must be at least one step, got {self.horizon}")
        if not math.isfinite(self.threshold):
            raise self._wrong("threshold", f"must be finite, got {self.threshold}")

    def _wrong(self, field_name: str, what: str) -> SetupError:
        return SetupError(f"setup {self.name!r}: {field_name!r} {what}.")

    @property
    def dim(self) -> int:
        """Number of context dimensions."""
        return len(self.context_names)

    def to_dict(self) -> dict[str, Any]:
        """Returns the setup as plain JSON-able values (tuples as lists)."""
        plain = asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in plain.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setup:
        """Builds a setup from what `to_dict` returned."""
        plain = dict(data)
        if plain.get("anchors") is not None:
            plain["anchors"] = Anchors.from_dict(plain["anchors"])
        return cls(**plain)


_VECTORS = (
    "target_mean",
    "target_variance",
    "initial_mean",
    "initial_variance",
    "lower",
    "upper",
)
