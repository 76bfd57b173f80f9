"""A setup: an environment with everything that makes it one fixed benchmark task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.random import Generator

from pacebench.envs.arrays import Floats
from pacebench.envs.distributions import ContextSpec, Vector, as_vector, from_plain, to_plain
from pacebench.envs.errors import SetupError


@dataclass(frozen=True)
class PolicyScore:
    """How one scripted policy scores on the target distribution, with standard errors.

    Attributes:
        policy: `random`, `hold` or `reference`, or `declared` where no policy was played: then only
            the return is known.
        mean_return: Undiscounted return of an episode, the score that anchors normalise.
        return_se: Standard error of `mean_return`.
        discounted_return: Return discounted with the setup's γ, comparable with the threshold V₋.
        discounted_return_se: Standard error of `discounted_return`.
        success_rate: Share of successful episodes.
        success_rate_se: Standard error of `success_rate`.
    """

    policy: str
    mean_return: float
    return_se: float | None = None
    discounted_return: float | None = None
    discounted_return_se: float | None = None
    success_rate: float | None = None
    success_rate_se: float | None = None


@dataclass(frozen=True)
class Anchors:
    """The two fixed scores between which results are normalised: baseline 0, reference 1.

    Attributes:
        baseline: The score that is mapped to 0, of the random or hold-still policy.
        reference: The score that is mapped to 1.
        episodes: Episodes played per policy, each with its own target context; none of a policy
            whose return is declared.
        seed: Seed of the measurement.
        command: The command that made these figures, or where they are declared.
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

    @classmethod
    def declared(cls, baseline: float, reference: float, where: str) -> Anchors:
        """Returns anchors whose two returns somebody stated instead of playing policies."""
        low, high = (PolicyScore("declared", float(end)) for end in (baseline, reference))
        return cls(low, high, episodes=0, seed=0, command=where, version="")

    def normalise(self, score: float) -> float:
        """Maps an undiscounted mean return to the scale baseline 0, reference 1."""
        low, high = self.baseline.mean_return, self.reference.mean_return
        return (score - low) / (high - low)


@dataclass(frozen=True)
class GymnasiumSpec:
    """How a plain `gymnasium.Env` becomes the environment of a setup; see `from_gymnasium`.

    Attributes:
        apply: How a context reaches it: `attributes`, `options`, `constructor`, or the
            `module:function` that is called with the environment and the context by name.
        paths: The attribute, reset option or keyword of each context dimension.
        keywords: Further keywords of its constructor.
        success: When an episode is a success: (`info`, key), (`return`, at least) or (`function`,
            `module:function`); None for never.
        processes: Worker processes that step the copies; 0 to step them here.
    """

    apply: str
    paths: tuple[str, ...]
    keywords: tuple[tuple[str, Any], ...] = field(default=(), hash=False)
    success: tuple[str, Any] | None = None
    processes: int = 0


@dataclass(frozen=True)
class Setup:
    """Environment, context distributions, threshold and horizon: one benchmark task.

    Distributions are Gaussians with diagonal covariance, `*_variance` their variances, unless
    `target` or `initial` says otherwise; the Gaussian then stands in for it where a method needs
    one. Contexts are drawn unclipped and clipped to `lower`, `upper` before they reach the physics.

    Attributes:
        name: What the setup is called in studies and on the command line.
        environment: Name of a registered environment, or `module:Class` of a `BatchEnv`; with
            `gymnasium`, `gymnasium:ID`, or `module:Class` of a `gymnasium.Env` or its factory.
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
        target: The target distribution where it is not Gaussian.
        initial: The initial distribution where it is not Gaussian.
        options: Options that a curriculum has on this setup unless a study says otherwise, by its
            name: what its authors published for the task.
        reference_return: The return that is normalised to 1 where there is no reference policy.
        gymnasium: How the environment is adapted, if it is a plain `gymnasium.Env`.
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
    target: ContextSpec | None = None
    initial: ContextSpec | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    reference_return: float | None = None
    gymnasium: GymnasiumSpec | None = None

    def __post_init__(self) -> None:
        """Checks that the figures fit together."""
        d = len(self.context_names)
        for field_name in _VECTORS:
            value = as_vector(getattr(self, field_name), d, f"setup {self.name!r}: {field_name!r}")
            object.__setattr__(self, field_name, value)
        for field_name in ("target", "initial"):
            spec: ContextSpec | None = getattr(self, field_name)
            if spec is not None:
                checked = spec.checked(d, f"setup {self.name!r}: {field_name!r}")
                object.__setattr__(self, field_name, checked)
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

    def sample(self, which: str, n: int, rng: Generator) -> Floats:
        """Draws contexts (n, d) from the `target` or the `initial` distribution, unclipped."""
        spec: ContextSpec | None = getattr(self, which)
        if spec is not None:
            return spec.sample(n, rng)
        mean, variance = getattr(self, f"{which}_mean"), getattr(self, f"{which}_variance")
        return rng.normal(mean, np.sqrt(variance), (n, self.dim))

    def to_dict(self) -> dict[str, Any]:
        """Returns the setup as plain JSON-able values (tuples as lists).

        What only some setups have is left out of the others, so that their digests stay.
        """
        plain = asdict(self)
        for name in _ADDED:
            if plain[name] in (None, {}):
                del plain[name]
        for name in ("target", "initial"):
            if name in plain:
                plain[name] = to_plain(getattr(self, name))
        if self.gymnasium is not None:
            plain["gymnasium"] |= {"keywords": dict(self.gymnasium.keywords)}
        listed: dict[str, Any] = _listed(plain)
        return listed

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setup:
        """Builds a setup from what `to_dict` returned."""
        plain = dict(data)
        if plain.get("anchors") is not None:
            plain["anchors"] = Anchors.from_dict(plain["anchors"])
        for name in ("target", "initial"):
            if plain.get(name) is not None:
                plain[name] = from_plain(plain[name], f"setup {plain.get('name')!r}: {name!r}")
        if plain.get("gymnasium") is not None:
            spec = dict(plain["gymnasium"])
            spec["paths"] = tuple(spec["paths"])
            spec["keywords"] = tuple(sorted(spec["keywords"].items()))
            spec["success"] = spec["success"] and tuple(spec["success"])
            plain["gymnasium"] = GymnasiumSpec(**spec)
        return cls(**plain)


_VECTORS = (
    "target_mean",
    "target_variance",
    "initial_mean",
    "initial_variance",
    "lower",
    "upper",
)
_ADDED = ("target", "initial", "options", "reference_return", "gymnasium")


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _listed(v) for key, v in value.items()}
    return [_listed(v) for v in value] if isinstance(value, tuple | list) else value
