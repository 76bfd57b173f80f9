"""Context distributions as plain numbers, where a Gaussian with independent dimensions is not it.

A setup says its distributions in figures that any program can read; the harness turns them into
what curricula work with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from pacebench.envs.arrays import Floats
from pacebench.envs.errors import SetupError
from pacebench.envs.importing import import_object

Vector = tuple[float, ...]


def as_vector(value: Any, d: int, what: str) -> Vector:
    """Returns d finite numbers as a tuple.

    Raises:
        SetupError: They are not; `what` says where they stand.
    """
    try:
        vector = tuple(float(x) for x in value)
    except (TypeError, ValueError):
        vector = ()
    if len(vector) != d or not all(map(math.isfinite, vector)):
        raise SetupError(f"{what} needs {d} finite numbers, got {value}.")
    return vector


@dataclass(frozen=True)
class MixtureSpec:
    """A mixture of Gaussians, the dimensions of each independent.

    Attributes:
        means: One mean per component.
        variances: The variances of each component.
        weights: What share of contexts each component has; they sum to one.
    """

    means: tuple[Vector, ...]
    variances: tuple[Vector, ...]
    weights: Vector

    def checked(self, d: int, what: str) -> MixtureSpec:
        """Returns it with d dimensions confirmed."""
        k = len(self.means)
        weights = as_vector(self.weights, k, f"{what}: 'weights'")
        if len(self.variances) != k or min(weights, default=0) <= 0:
            raise SetupError(f"{what} needs variances and a positive weight for each of {k} means.")
        if not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
            raise SetupError(f"{what}: 'weights' must sum to 1, not to {sum(weights):g}.")
        means = tuple(as_vector(mean, d, f"{what}: 'means'") for mean in self.means)
        variances = tuple(as_vector(var, d, f"{what}: 'variances'") for var in self.variances)
        if min(map(min, variances)) <= 0:
            raise SetupError(f"{what}: 'variances' must be positive in every dimension.")
        return MixtureSpec(means, variances, weights)

    def moments(self) -> tuple[Vector, Vector]:
        """Returns the mean and the variances."""
        means, weights = np.array(self.means), np.array(self.weights)
        mean = weights @ means
        variance = weights @ (np.array(self.variances) + (means - mean) ** 2)
        return tuple(mean.tolist()), tuple(variance.tolist())

    def sample(self, n: int, rng: Generator) -> Floats:
        """Draws contexts (n, d)."""
        chosen = rng.choice(len(self.weights), size=n, p=self.weights)
        return rng.normal(np.array(self.means)[chosen], np.sqrt(np.array(self.variances)[chosen]))


@dataclass(frozen=True)
class UniformSpec:
    """The uniform distribution over a box."""

    lower: Vector
    upper: Vector

    def checked(self, d: int, what: str) -> UniformSpec:
        """Returns it with d dimensions confirmed."""
        lower = as_vector(self.lower, d, f"{what}: 'lower'")
        upper = as_vector(self.upper, d, f"{what}: 'upper'")
        if not all(low <= high for low, high in zip(lower, upper, strict=True)):
            raise SetupError(f"{what}: 'lower' must not exceed 'upper' in any dimension.")
        return UniformSpec(lower, upper)

    def moments(self) -> tuple[Vector, Vector]:
        """Returns the mean and the variances."""
        ends = list(zip(self.lower, self.upper, strict=True))
        return tuple(0.5 * (a + b) for a, b in ends), tuple((b - a) ** 2 / 12 for a, b in ends)

    def sample(self, n: int, rng: Generator) -> Floats:
        """Draws contexts (n, d)."""
        return rng.uniform(self.lower, self.upper, (n, len(self.lower)))


@dataclass(frozen=True)
class SamplerSpec:
    """A distribution that only its sampler knows, such as the feasible part of a space.

    Attributes:
        function: `module:function`, called with a number n and a generator; returns (n, d).
    """

    function: str

    def checked(self, d: int, what: str) -> SamplerSpec:
        """Returns itself; the function is imported when it is first needed."""
        if ":" not in self.function:
            raise SetupError(f"{what}: 'function' must be module:function, got {self.function!r}.")
        return self

    def moments(self) -> tuple[Vector, Vector]:
        """Refuses: only those who wrote the sampler know them."""
        raise SetupError(
            f"the sampler {self.function!r} needs 'mean' and 'variance' beside it: the Gaussian "
            "that stands in for it where a method needs one."
        )

    def sample(self, n: int, rng: Generator) -> Floats:
        """Draws contexts (n, d)."""
        drawn = import_object(self.function, "the sampler")(n, rng)
        return np.asarray(drawn, dtype=np.float64)


ContextSpec = MixtureSpec | UniformSpec | SamplerSpec
_KINDS: dict[str, type[Any]] = {
    "mixture": MixtureSpec,
    "uniform": UniformSpec,
    "sampler": SamplerSpec,
}


def to_plain(spec: ContextSpec) -> dict[str, Any]:
    """Returns the distribution as JSON-able values, with the name of its kind."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(spec, cls))
    plain = {key: _listed(value) for key, value in asdict(spec).items()}
    return {"kind": kind, **plain}


def from_plain(data: Mapping[str, Any], what: str) -> ContextSpec:
    """Builds a distribution from what `to_plain` returned.

    Raises:
        SetupError: There is no such kind, or its figures have other names; `what` says where.
    """
    kind, figures = data.get("kind"), {k: _tupled(v) for k, v in data.items() if k != "kind"}
    if kind not in _KINDS:
        raise SetupError(f"{what}: 'kind' must be one of {', '.join(_KINDS)}, not {kind!r}.")
    try:
        found: ContextSpec = _KINDS[kind](**figures)
    except TypeError:
        names = ", ".join(_KINDS[kind].__dataclass_fields__)
        raise SetupError(f"{what}: a {kind} distribution is given by {names}.") from None
    return found


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(v) for v in value) if isinstance(value, list | tuple) else value
