"""The base class of curricula: it checks input, applies updates, records them and saves state."""

from __future__ import annotations

import inspect
import math
import operator
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, ClassVar, Required, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_bounds, as_number, as_samples
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.record import UpdateRecord
from pacebench.curricula.uniform import Distribution, divergence


class Common(TypedDict, total=False):
    """The keywords that every curriculum takes."""

    target: Required[Gaussian]
    initial: Required[Gaussian]
    bounds: tuple[ArrayLike, ArrayLike] | None
    epsilon: float
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of one curriculum beyond the common ones: its default and its description."""

    default: Any
    doc: str


@dataclass(slots=True)
class Proposal:
    """Everything that one update is going to change, before any of it has changed.

    Attributes:
        step: The kind of step, as in `UpdateRecord.step`.
        case: Which case of the step applied, as in `UpdateRecord.case`.
        distribution: The next sampling distribution; the current object itself if p stays.
        state: New values of the curriculum's own attributes (θ, a flag, a buffer), by name.
        predicted_value: The value that the curriculum's model predicts after the step.
        iterations: Iterations of a numerical solver.
        accepted: False if the step could not be used, so that p stays for want of a better one.
        log_weights: ln(p_new/p_old) at each context, where the curriculum has a better formula
            than the difference of the two log densities.
    """

    step: str
    case: str
    distribution: Distribution
    state: dict[str, Any] = field(default_factory=dict)
    predicted_value: float | None = None
    iterations: int = 0
    accepted: bool = True
    log_weights: Array | None = None


class Curriculum(ABC):
    """Holds the sampling distribution p(c) and changes it between policy updates.

    A subclass sets `capabilities`, implements `_propose`, and describes its own keywords under
    `Args:` in its docstring, from where `options()` takes them. If an update changes more than the
    distribution, `_state` and `_load_state` save and restore the rest.

    Args:
        target: The target distribution ψ.
        initial: The distribution to start from.
        bounds: Lower and upper context bounds, where the curriculum needs them.
        epsilon: The KL budget ε of one update, in nats.
        threshold: The value threshold V₋, on the scale of the values given to `update`.
    """

    name: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()
    # Raised when a change to one of ours alters its results: runs made before get other ids.
    result_version: ClassVar[str] = "1"
    requires_epsilon_below: ClassVar[float | None] = None

    def __init__(
        self,
        *,
        target: Gaussian,
        initial: Gaussian,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        epsilon: float = 0.05,
        threshold: float | None = None,
    ) -> None:
        for what, given in (("target", target), ("initial distribution", initial)):
            if not isinstance(given, Gaussian):
                raise CurriculumError(f"the {what} must be a curricula.Gaussian, not {given!r}.")
        if target.dim != initial.dim:
            raise CurriculumError(
                f"the target has {target.dim} dimensions and the initial distribution "
                f"{initial.dim}; give both the same."
            )
        self.target, self.initial = target, initial
        self.epsilon = self._checked_epsilon(epsilon)
        self.threshold = self._checked_threshold(threshold)
        if bounds is None and self.capabilities.needs_bounds:
            raise CurriculumError(f"{self._label} needs bounds=(lower, upper).")
        self.bounds = None if bounds is None else as_bounds(bounds, self.dim)
        self.updates = 0
        self.rejected = 0
        self._distribution: Distribution = initial

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Returns the keywords accepted beyond the common ones, with defaults and docs."""
        common = set(Common.__annotations__)
        found: dict[str, Option] = {}
        for base in reversed(cls.__mro__):
            if not issubclass(base, Curriculum) or "__init__" not in vars(base):
                continue
            for name, parameter in inspect.signature(base.__init__).parameters.items():
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in common:
                    found[name] = Option(parameter.default, _documented(cls, name))
        return found

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return self.target.dim

    @property
    def distribution(self) -> Distribution:
        """The current sampling distribution p."""
        return self._distribution

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts from p, (n, d), not clipped to any bounds."""
        try:
            count = operator.index(n)
        except TypeError:
            count = -1
        if count < 0:
            raise CurriculumError(f"cannot draw {n!r} contexts; give a whole number n ≥ 0.")
        return self._distribution.sample(count, rng)

    def update(self, contexts: ArrayLike, values: ArrayLike) -> UpdateRecord:
        """Takes K contexts sampled from p with one value each, and moves p.

        Args:
            contexts: The contexts as they were sampled, (K, d), not clipped.
            values: The value V of each, (K,).

        Raises:
            CurriculumError: A shape does not fit, K is 0 or a number is not finite. Nothing has
                changed then.
        """
        started = perf_counter_ns()
        c, v = as_samples(contexts, values, self.dim)
        mean_value = float(v.sum()) / len(v)
        proposal = self._propose(c, v)
        old, new = self._distribution, proposal.distribution
        record = UpdateRecord(
            step=proposal.step,
            case=proposal.case,
            epsilon=self.epsilon,
            threshold=self.threshold,
            mean_value=mean_value,
            slack=None if self.threshold is None else mean_value - self.threshold,
            predicted_value=proposal.predicted_value,
            kl_step=0.0 if new is old else divergence(new, old),
            kl_target_forward=divergence(self.target, new),
            kl_target_reverse=divergence(new, self.target),
            ess=float(len(v)) if new is old else _effective_samples(c, old, proposal),
            iterations=proposal.iterations,
            accepted=proposal.accepted,
            seconds=(perf_counter_ns() - started) * 1e-9,
        )
        # Nothing has changed up to here, so an exception above leaves the curriculum as it was.
        self._install(proposal.state)
        self._distribution = new
        self.updates += 1
        self.rejected += not proposal.accepted
        return record

    @abstractmethod
    def _propose(self, contexts: Array, values: Array) -> Proposal:
        """Returns what the update is to change; changes nothing itself.

        Args:
            contexts: Checked contexts, (K, d).
            values: Their values, (K,).
        """

    def _install(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything an update changes, as plain JSON-able values."""
        return {
            "name": self.name,
            "dim": self.dim,
            "updates": self.updates,
            "rejected": self.rejected,
            **self._state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned, bit by bit.

        Raises:
            CurriculumError: The state is of another curriculum or is malformed; nothing has
                changed then.
        """
        if not isinstance(state, dict):
            raise CurriculumError(f"a saved state is a dictionary, not {type(state).__name__}.")
        for key, own in (("name", self.name), ("dim", self.dim)):
            if state.get(key) != own:
                raise CurriculumError(
                    f"this state has {key} {state.get(key)!r}, not {own!r}; load it into the "
                    "curriculum that it was saved from."
                )
        try:
            counts = {"updates": int(state["updates"]), "rejected": int(state["rejected"])}
            attributes = self._load_state(state)
            if min(counts.values()) < 0:
                raise ValueError("a count below zero")
        except CurriculumError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CurriculumError(
                f"the saved state of {self.name!r} is incomplete or damaged ({error}); save it "
                "again."
            ) from None
        self._install({**attributes, **counts})

    def _state(self) -> dict[str, Any]:
        """Returns the JSON-able part of `state_dict` that is this curriculum's own."""
        return {}

    def _load_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the attributes that a saved state stands for, by name; changes nothing itself."""
        return {}

    def _checked_epsilon(self, epsilon: float) -> float:
        value, limit = as_number(epsilon, "epsilon"), self.requires_epsilon_below
        if not 0.0 < value < math.inf:
            raise CurriculumError(f"epsilon must be positive, not {epsilon!r}; 0.05 is usual.")
        if limit is not None and value >= limit:
            raise CurriculumError(
                f"{self._label} needs epsilon < {limit}, not {epsilon!r}: "
                "only then does every variance stay positive."
            )
        return value

    def _checked_threshold(self, threshold: float | None) -> float | None:
        if threshold is None:
            if self.capabilities.self_paced:
                raise CurriculumError(
                    f"{self._label} paces itself by the values and needs a threshold; "
                    "give one on the scale of the discounted return."
                )
            return None
        value = as_number(threshold, "threshold")
        if not math.isfinite(value):
            raise CurriculumError(f"the threshold must be finite, not {threshold!r}.")
        return value

    @property
    def _label(self) -> str:
        return self.name or type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, d = {self.dim}, {self.updates} updates>"


def _effective_samples(contexts: Array, old: Distribution, proposal: Proposal) -> float:
    """Returns the effective sample size (Σw)²/Σw² of the importance weights w = p_new/p_old."""
    logs = proposal.log_weights
    if logs is None:
        logs = proposal.distribution.log_prob(contexts) - old.log_prob(contexts)
    # Subtracting the largest logarithm keeps exp from overflowing and leaves the ratio as it is.
    weights = np.exp(logs - logs.max())
    return float(weights.sum()) ** 2 / float(weights @ weights)


def _documented(cls: type, option: str) -> str:
    """Returns what the `Args:` section of the nearest docstring says about `option`."""
    for base in cls.__mro__:
        doc = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        match = re.search(rf"^    {option}: (.+(?:\n {{8}}.+)*)", doc, re.MULTILINE)
        if match:
            return re.sub(r"\s+", " ", match.group(1))
    return ""
