"""What training asks of a learner: a batch of agents, one per seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.training.clock import Clock
    from harness.training.practice import Practice

Floats = NDArray[np.float64]


class Agents(Protocol):
    """S independent agents that learn in lockstep.

    Attributes:
        count: S.
        diverged: Why an agent can learn no more, by its position; it is left alone from then on
            and must not disturb the others.
    """

    count: int
    diverged: dict[int, str]

    def iterate(self, practice: Practice, clock: Clock) -> None:
        """Collects one rollout and updates the policies once."""

    def act(self, obs: Floats, noise: Floats) -> Floats:
        """Returns actions (S, M, action) at observations (S, M, observation).

        Args:
            obs: Observations as the environment gives them.
            noise: Standard normal numbers (S, M, action); zeros ask for the deterministic action.
        """

    def values(self, agent: int, obs: Floats) -> Floats:
        """Returns the critic's values (M,) of one agent, on the scale of the environment."""

    def policy(self, agent: int) -> dict[str, NDArray[np.float32]]:
        """Returns the parameters that acting needs, by name."""

    def load_policy(self, agent: int, arrays: dict[str, NDArray[np.float32]]) -> None:
        """Takes the parameters that `policy` returned."""

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns all that the agent's future depends on: arrays, and JSON-able values."""

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Restores what `state` returned."""
