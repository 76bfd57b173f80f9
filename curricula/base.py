"""The base class of curricula: it checks input, applies updates, records them and saves state."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter_ns
from typing import Any, ClassVar, Required, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacebench.curricula.capabilities import Capabilities
from pacebench.curricula.checks import Array, as_bounds, as_number
from pacebench.curricula.distributions import Distribution, divergence, fitted_gaussian, moments
from pacebench.curricula.episodes import Episodes
from pacebench.curricula.errors import CurriculumError
from pacebench.curricula.gaussian import Gaussian
from pacebench.curricula.options import Option, SearchRange, own_options
from pacebench.curricula.record import UpdateRecord
from pacebench.curricula.wasserstein import SlicedWasserstein


class Common(TypedDict, total=False):
    """The keywords that every curriculum takes."""

    target: Required[Distribution]
    initial: Required[Distribution]
    bounds: tuple[ArrayLike, ArrayLike] | None
    epsilon: float
    threshold: float | None
    fit: str | None
    seed: int
    record_every: int


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
        log_weights: Returns ln(p_new/p_old) at each context, where the curriculum has a better
            formula than the difference of the two log densities. Called for the record alone.
    """

    step: str
    case: str
    distribution: Distribution
    state: dict[str, Any] = field(default_factory=dict)
    predicted_value: float | None = None
    iterations: int = 0
    accepted: bool = True
    log_weights: Callable[[], Array] | None = None


class Curriculum:
    """Holds the sampling distribution p(c) and changes it between policy updates.

    A subclass sets `capabilities`, implements `_propose`, and describes its own keywords under
    `Args:` in its docstring, from where `options()` takes them. One that reads more of an episode
    than its context and value says so in `reads` and implements `_propose_from` instead. If an
    update changes more than the distribution, `_state` and `_load_state` save and restore the rest.

    Args:
        target: The target distribution ψ: a `Gaussian`, a `Mixture`, a `UniformBox`, or anything
            else with `dim` and `sample(n, rng)`.
        initial: The distribution to start from, likewise.
        bounds: Lower and upper context bounds, where the curriculum needs them.
        epsilon: The KL budget ε of one update, in nats.
        threshold: The value threshold V₋, on the scale of the values given to `update`.
        fit: `gaussian` replaces a target and an initial distribution that are no Gaussian by the
            Gaussian with the same mean and covariance, for a curriculum that needs Gaussians.
        seed: Seed of whatever an update draws; the harness gives every run its own.
        record_every: Divergences, effective sample size and the distance to the target are recorded
            at the first update and every so many; 0 for never.
    """

    name: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()
    # The fields of `Episodes` that an update uses; training provides these and refuses a learner
    # that cannot.
    reads: ClassVar[frozenset[str]] = frozenset({"contexts", "values"})
    # Where tuning searches, beside ε and V₋, unless the study says otherwise.
    search: ClassVar[dict[str, SearchRange]] = {}
    # Raised when a change to one of ours alters its results: runs made before get other ids.
    result_version: ClassVar[str] = "1"
    requires_epsilon_below: ClassVar[float | None] = None
    # Whether `learns_from` leaves episodes out.
    selective: bool = False

    def __init__(
        self,
        *,
        target: Distribution,
        initial: Distribution,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        epsilon: float = 0.05,
        threshold: float | None = None,
        fit: str | None = None,
        seed: int = 0,
        record_every: int = 1,
    ) -> None:
        if fit not in (None, "gaussian"):
            raise CurriculumError(f"fit must be 'gaussian' or left out, not {fit!r}.")
        # What the distance is measured to, also where a Gaussian stands in for it.
        self.true_target = self._checked_distribution(target, "target")
        self.target: Any = self._suited(target, "target", fit)
        self.initial: Any = self._suited(initial, "initial distribution", fit)
        if target.dim != initial.dim:
            raise CurriculumError(
                f"the target has {target.dim} dimensions and the initial distribution "
                f"{initial.dim}; give both the same."
            )
        self.epsilon = self._checked_epsilon(epsilon)
        self.threshold = self._checked_threshold(threshold)
        if bounds is None and self.capabilities.needs_bounds:
            raise CurriculumError(f"{self._label} needs bounds=(lower, upper).")
        self.bounds = None if bounds is None else as_bounds(bounds, self.dim)
        self.seed, self.record_every = seed, record_every
        self.updates = 0
        self.rejected = 0
        self._distribution: Any = self.initial

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Returns the keywords accepted beyond the common ones, with defaults and docs."""
        return own_options(cls, Curriculum, Common.__annotations__)

    @classmethod
    def asks(cls, options: dict[str, Any]) -> frozenset[str]:
        """Returns the capabilities that a learner must have to train with these options."""
        return frozenset()

    @property
    def dim(self) -> int:
        """The number of context dimensions d."""
        return int(self.target.dim)

    @property
    def distribution(self) -> Any:
        """The current sampling distribution p; `curricula.Distribution` says what it has."""
        return self._distribution

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws `n` contexts from p, (n, d), not clipped to any bounds."""
        try:
            count = operator.index(n)
        except TypeError:
            count = -1
        if count < 0:
            raise CurriculumError(f"cannot draw {n!r} contexts; give a whole number n ≥ 0.")
        drawn: Array = self._distribution.sample(count, rng)
        return drawn

    def update(
        self, contexts: Episodes | ArrayLike, values: ArrayLike | None = None
    ) -> UpdateRecord:
        """Takes K episodes whose contexts were sampled from p, and moves p.

        Args:
            contexts: The `Episodes`; or in short their contexts, (K, d), as they were sampled.
            values: In the short form the value V of each, (K,).

        Raises:
            CurriculumError: A shape does not fit, K is 0, a number is not finite, or something
                that this curriculum reads is missing. Nothing has changed then.
        """
        started = perf_counter_ns()
        short = not isinstance(contexts, Episodes)
        episodes: Any = Episodes(contexts, values) if short else contexts  # type: ignore[arg-type]
        episodes.require(self.dim, self.reads, self._label)
        begun = perf_counter_ns()
        proposal = self._propose_from(episodes)
        ended = perf_counter_ns()
        record = self._record(episodes, proposal, (ended - begun) * 1e-9, started)
        # Nothing has changed up to here, so an exception above leaves the curriculum as it was.
        self._install(proposal.state)
        self._distribution = proposal.distribution
        self.updates += 1
        self.rejected += not proposal.accepted
        return record

    def _propose_from(self, episodes: Episodes) -> Proposal:
        """Returns what the update is to change; changes nothing itself.

        Args:
            episodes: Checked episodes, with everything that `reads` names.
        """
        assert episodes.values is not None
        return self._propose(episodes.contexts, episodes.values)

    def _propose(self, contexts: Array, values: Array) -> Proposal:
        """Does the same for a curriculum that reads contexts and values alone.

        Args:
            contexts: Checked contexts, (K, d).
            values: Their values, (K,).
        """
        raise NotImplementedError

    def best_returns(self, contexts: Array) -> Array:
        """Returns the best discounted return known of each context, −∞ where none is."""
        return np.full(len(contexts), -math.inf)

    def learns_from(self, contexts: Array) -> NDArray[np.bool_]:
        """Says of each context whether the learner should take gradients from its episodes."""
        return np.ones(len(contexts), dtype=np.bool_)

    def _record(
        self, episodes: Episodes, proposal: Proposal, seconds: float, started: int
    ) -> UpdateRecord:
        """Returns the record of an update that is not yet in force."""
        values, budget = episodes.values, self.capabilities.has_budget
        mean_value = None if values is None else float(values.sum()) / len(values)
        threshold = self.threshold
        due = self.record_every > 0 and self.updates % self.record_every == 0
        return UpdateRecord(
            step=proposal.step,
            case=proposal.case,
            epsilon=self.epsilon if budget else None,
            threshold=threshold,
            mean_value=mean_value,
            slack=None if threshold is None or mean_value is None else mean_value - threshold,
            predicted_value=proposal.predicted_value,
            iterations=proposal.iterations,
            accepted=proposal.accepted,
            **(self._diagnostics(episodes.contexts, proposal) if due else {}),
            seconds=seconds,
            seconds_recording=(perf_counter_ns() - started) * 1e-9 - seconds,
        )

    def _diagnostics(self, contexts: Array, proposal: Proposal) -> dict[str, Any]:
        """Returns what the record says about the distributions before and after the update."""
        old, new = self._distribution, proposal.distribution
        step, forward, reverse = (
            divergence(p, q) for p, q in ((new, old), (self.target, new), (new, self.target))
        )
        return {
            "kl_step": step[0],
            "kl_target_forward": forward[0],
            "kl_target_reverse": reverse[0],
            "kl_estimated": step[1] or forward[1] or reverse[1],
            "ess": _effective_samples(contexts, old, proposal),
            "sliced_wasserstein": self._distance_to_target(new),
        }

    @cached_property
    def _distance_to_target(self) -> SlicedWasserstein:
        if self.bounds is not None:
            return SlicedWasserstein(
                self.true_target, *self.bounds, self.bounds[1] - self.bounds[0]
            )
        unit = moments(self.initial)[1]
        unlimited = np.full(self.dim, math.inf)
        return SlicedWasserstein(
            self.true_target, -unlimited, unlimited, np.where(unit > 0.0, unit, 1.0)
        )

    def _rng(self) -> np.random.Generator:
        """Returns the random numbers of the next update: the same ones until it is done."""
        return np.random.default_rng([self.seed, self.updates])

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

    def _suited(self, given: Distribution, what: str, fit: str | None) -> Distribution:
        """Returns a distribution that the curriculum can work with, fitted if that was asked."""
        given = self._checked_distribution(given, what)
        if isinstance(given, Gaussian) or not self.capabilities.needs_gaussian:
            return given
        if fit == "gaussian":
            return fitted_gaussian(given)
        raise CurriculumError(
            f"{self._label} needs a Gaussian as its {what}, not a {type(given).__name__}; "
            "fit='gaussian' takes the one with the same mean and covariance."
        )

    def _checked_distribution(self, given: Distribution, what: str) -> Distribution:
        if not isinstance(given, Distribution):
            raise CurriculumError(
                f"the {what} must be a curricula.Gaussian or another distribution with `dim` and "
                f"`sample(n, rng)`, not {given!r}."
            )
        return given

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


def _effective_samples(contexts: Array, old: Distribution, proposal: Proposal) -> float | None:
    """Returns the effective sample size (Σw)²/Σw² of the importance weights w = p_new/p_old."""
    new: Any = proposal.distribution
    if new is old:
        return float(len(contexts))
    if proposal.log_weights is not None:
        logs = proposal.log_weights()
    elif hasattr(new, "log_prob") and hasattr(old, "log_prob"):
        with np.errstate(invalid="ignore"):
            logs = new.log_prob(contexts) - old.log_prob(contexts)
        # Contexts that neither can draw have no weight.
        logs = logs[~np.isnan(logs)]
    else:
        return None
    if not len(logs) or not math.isfinite(float(logs.max())):
        return None
    # Subtracting the largest logarithm keeps exp from overflowing and leaves the ratio as it is.
    weights = np.exp(logs - logs.max())
    return float(weights.sum()) ** 2 / float(weights @ weights)
