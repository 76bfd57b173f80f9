"""Environments whose contexts come from a curriculum."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from numpy.typing import ArrayLike, NDArray

from pacebench import curricula
from pacebench.harness.errors import UserError

# Where the last `info` of an episode tells its context, its value and what else was measured.
KEY = "curriculum_episode"
# Steps after which two contexts are to have made a difference; most make it at the first.
_PROBES = (1, 100)


class CurriculumWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws the context of each episode from the curriculum's current distribution.

    It keeps a copy of the curriculum, which the callback brings up to date; so it works in another
    process as well. The last `info` of an episode tells its context and its discounted return.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        curriculum: curricula.Curriculum,
        gamma: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        check: bool = True,
    ) -> None:
        """Wraps an environment.

        Args:
            env: An environment that takes `options={"context": c}` at its reset.
            curriculum: The curriculum that the callback is given, too.
            gamma: Discount factor of the values; one of our environments knows its own.
            bounds: Lowest and highest context that the environment is given; the curriculum's if
                not given. The curriculum itself learns from contexts as they were drawn.
            check: Whether an environment that ignores its context is refused.

        Raises:
            UserError: There is no discount factor.
        """
        super().__init__(env)
        setup = getattr(env.unwrapped, "setup", None)
        found = gamma if gamma is not None else getattr(setup, "gamma", None)
        if found is None:
            raise UserError("CurriculumWrapper needs the discount factor: pass gamma=….")
        self.gamma = float(found)
        self._curriculum = copy.deepcopy(curriculum)
        self._rng: np.random.Generator | None = None
        self._begin()
        self._context = np.zeros(curriculum.dim)
        self._bounds = bounds or curriculum.bounds or (-np.inf, np.inf)
        self._unchecked = check

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode with a context of the curriculum, unless `options` name one.

        Raises:
            UserError: The environment ignores its context.
        """
        if self._unchecked:
            self._unchecked = False
            self._check()
            if seed is None:  # the environment is seeded by now, and every copy alike
                seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            # Another branch than the environment's own, which is seeded with `seed` itself.
            self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        elif self._rng is None:
            self._rng = np.random.default_rng()
        options = dict(options or {})
        if "context" not in options:
            options["context"] = self._curriculum.sample(1, self._rng)[0]
        self._context = np.asarray(options["context"], dtype=np.float64)
        self._begin()
        options["context"] = np.clip(self._context, *self._bounds)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps, and adds up the discounted return."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += self._discount * float(reward)
        self._discount *= self.gamma
        self._undiscounted += float(reward)
        self._length += 1
        if terminated or truncated:
            solved = info.get("success", info.get("is_success", False))
            measured = {
                "returns": self._undiscounted,
                "success": float(solved),
                "lengths": self._length,
            }
            info = {**info, KEY: (self._context, self._return, measured)}
        return obs, reward, terminated, truncated, info

    def _begin(self) -> None:
        self._return, self._discount, self._undiscounted, self._length = 0.0, 1.0, 0.0, 0

    def follow_curriculum(self, state: dict[str, Any]) -> None:
        """Takes over the state of the callback's curriculum."""
        self._curriculum.load_state_dict(state)

    def curriculum_state(self) -> dict[str, Any]:
        """Returns the state of the curriculum that contexts are drawn from."""
        return self._curriculum.state_dict()

    def _check(self) -> None:
        """Refuses an environment in which two contexts make no difference."""
        rng = np.random.default_rng(0)
        now, target = self._curriculum.distribution, self._curriculum.target
        contexts = [*now.sample(2, rng), *target.sample(1, rng)]
        for steps in _PROBES:
            first, *others = (self._play(context, steps) for context in contexts)
            if not all(data_equivalence(first, other) for other in others):
                return
        raise UserError(
            "CurriculumWrapper: the environment ignores its context: observations and rewards of "
            f"{_PROBES[-1]} steps are the same for any; make its reset take "
            'options={"context": …}, or pass check=False if the context matters later only.'
        )

    def _play(self, context: NDArray[np.float64], steps: int) -> list[Any]:
        """Returns what is seen in the first steps of an episode, the same actions every time."""
        actions = copy.deepcopy(self.env.action_space)
        actions.seed(0)
        clipped = np.clip(context, *self._bounds)
        seen: list[Any] = [self.env.reset(seed=0, options={"context": clipped})[0]]
        for _ in range(steps):
            obs, reward, terminated, truncated, _ = self.env.step(actions.sample())
            seen += [obs, np.float64(reward)]
            if terminated or truncated:
                break
        return copy.deepcopy(seen)
