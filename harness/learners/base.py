"""What learners and training share, and what every learner says about itself.

Nothing here imports a tensor library.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import attrgetter
from pkgutil import resolve_name
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pacebench import envs
from pacebench.envs.arrays import Bools, Floats
from pacebench.harness.seeding import RunSeed

if TYPE_CHECKING:
    from gymnasium import spaces

Floats32 = NDArray[np.float32]


PHASES = ("rollout", "policy", "curriculum", "evaluation")


class Clock:
    """Adds up the seconds of each phase of training; phases must not be nested."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time spent inside to a phase."""
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += perf_counter() - started


class EnvStep(NamedTuple):
    """What a step led to, one row per seed: arrays of shape (S, n, …)."""

    obs: Floats
    reward: Floats
    terminated: Bools
    truncated: Bools
    final_obs: Floats


def noise_width(action_space: spaces.Box | spaces.Discrete) -> int:
    """Returns how many normal numbers a policy draws per action: one for each entry or choice."""
    return int(getattr(action_space, "n", 0) or np.prod(action_space.shape or 1))


class RolloutEnvs(Protocol):
    """The environments that S agents collect rollouts in, n copies each.

    Attributes:
        obs: The current observations (S, n, observation).
        restarted: Agents whose copies all began new episodes since the last rollout.
        broken: Why the observations of an agent cannot be learned from, by its position.
        learned: Which running episodes (S, n) may be learned from; None if all may.
        copies: n.
    """

    obs: Floats
    restarted: list[int]
    broken: dict[int, str]
    learned: Bools | None
    copies: int
    observation_space: spaces.Box
    action_space: spaces.Box | spaces.Discrete

    def step(self, actions: NDArray[Any]) -> EnvStep:
        """Steps all copies with actions (S, n, …); finished ones begin anew by themselves."""


class Agents(Protocol):
    """S independent agents that learn in lockstep.

    Attributes:
        count: S.
        diverged: Why an agent can learn no more, by its position; it is left alone from then on
            and must not disturb the others.
    """

    count: int
    diverged: dict[int, str]

    def iterate(self, envs: RolloutEnvs, clock: Clock) -> None:
        """Collects one rollout and updates the policies once."""

    def act(self, obs: Floats, noise: Floats) -> NDArray[Any]:
        """Returns actions at observations (S, M, observation).

        They are of shape (S, M, action), or integers (S, M) where the action space is discrete.

        Args:
            obs: Observations as the environment gives them.
            noise: Standard normal numbers (S, M, `noise_width`); zeros ask for the deterministic
                action.
        """

    def diagnostics(self, agent: int) -> dict[str, float]:
        """Returns what is known of the last update, by names of `records.DIAGNOSTIC_COLUMNS`."""

    def values(self, agent: int, obs: Floats) -> Floats:
        """Returns the critic's values (M,) of one agent, on the scale of the environment."""

    def policy(self, agent: int) -> dict[str, Floats32]:
        """Returns the parameters that acting needs, by name."""

    def load_policy(self, agent: int, arrays: dict[str, Floats32]) -> None:
        """Takes the parameters that `policy` returned."""

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns all that the agent's future depends on: arrays, and JSON-able values."""

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Restores what `state` returned."""


@dataclass(frozen=True)
class LearnerCapabilities:
    """What a learner can do; checked before a study is launched.

    Attributes:
        batched_seeds: Trains several seeds in one tensor program.
        critic: Has a state value, so that `value_signal: critic` is possible.
        checkpoints: A run can be continued bit for bit from its middle; where it cannot, an
            interrupted run starts again.
        on_policy: Learns from the rollout of the current policy alone.
        discrete: Learns in environments with discrete actions as well.
        selective_gradients: Takes no gradient from episodes that its curriculum excludes.
    """

    batched_seeds: bool
    critic: bool
    checkpoints: bool
    on_policy: bool
    discrete: bool = False
    selective_gradients: bool = False


class LearnerParams(BaseModel):
    """Hyperparameters of a learner, under the names of Stable-Baselines3."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Learner(ABC):
    """A way to learn a policy. A subclass is registered by name and never instantiated.

    Attributes:
        name: The registered name.
        doc: What it is, in a sentence.
        Params: The model of its hyperparameters.
        capabilities: What it can do.
        agents: The class of its `Agents`, as `module:Class`; for learners that leave `build` alone.
    """

    name: ClassVar[str]
    doc: ClassVar[str]
    Params: ClassVar[type[LearnerParams]]
    capabilities: ClassVar[LearnerCapabilities]
    agents: ClassVar[str]
    # Raised when a change to one of ours alters its results: runs made before get other ids.
    result_version: ClassVar[str] = "1"

    @classmethod
    def defaults(cls, setup: str | envs.Setup) -> dict[str, Any]:
        """Returns the parameters for one setup, chosen on its initial distribution alone.

        A setup that differs from another in its target alone shares its settings; one for which
        nothing was chosen gets the learner's own defaults. γ is always the setup's.
        """
        spec = envs.setup(setup)
        chosen: dict[str, Any] = {}
        for name, by_learner in recorded_settings().items():
            same = name == spec.name or (
                name in envs.names() and _initial_task(envs.setup(name)) == _initial_task(spec)
            )
            if same and cls.name in by_learner:
                chosen = by_learner[cls.name]["params"]
                if name == spec.name:
                    break
        return {"gamma": spec.gamma, **chosen}

    @classmethod
    @abstractmethod
    def rollout_steps(cls, params: Any) -> int:
        """Returns the environment steps of one seed between two policy updates."""

    @classmethod
    def copies(cls, params: Any) -> int:
        """Returns the number of environment copies that each seed trains in."""
        return int(params.n_envs)

    @classmethod
    def build(
        cls,
        params: Mapping[str, Any],
        observation_space: spaces.Box,
        action_space: spaces.Box | spaces.Discrete,
        seeds: Sequence[RunSeed],
    ) -> Agents:
        """Makes freshly initialised agents, one per seed; imports what is heavy."""
        checked = cls.Params.model_validate(params)
        made: Agents = resolve_name(cls.agents)(checked, observation_space, action_space, seeds)
        return made


# What a setup's task on its initial distribution depends on: all but its target and threshold.
_initial_task = attrgetter(
    "environment",
    "initial_mean",
    "initial_variance",
    "lower",
    "upper",
    "visible",
    "gamma",
    "horizon",
)


@cache
def recorded_settings() -> dict[str, Any]:
    """Returns `settings.json`: per setup and learner the chosen parameters and their evidence."""
    text = files("pacebench.harness.learners").joinpath("settings.json").read_text(encoding="utf-8")
    settings: dict[str, Any] = json.loads(text)["settings"]
    return settings
