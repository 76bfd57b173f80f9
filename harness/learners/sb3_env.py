"""Our batched environments as Stable-Baselines3's vectorised ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from pacebench.harness.learners.base import RolloutEnvs


class SpacesVecEnv(VecEnv):
    """Spaces without an environment behind them: what a model needs to be built."""

    def __init__(
        self, observation_space: spaces.Box, action_space: spaces.Box, copies: int
    ) -> None:
        # Stable-Baselines3 stores rollouts in the dtype of the space.
        super().__init__(copies, _single(observation_space), _single(action_space))

    def reset(self) -> Any:
        """Refuses: there is nothing to reset."""
        raise NotImplementedError

    def step_async(self, actions: Any) -> None:
        """Refuses: there is nothing to step."""
        raise NotImplementedError

    def step_wait(self) -> Any:
        """Refuses: there is nothing to step."""
        raise NotImplementedError

    def close(self) -> None:
        """Does nothing."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns an attribute of this object, once per copy."""
        value = getattr(self, attr_name, None)
        return [value] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute of this object."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refuses: the copies have no methods of their own."""
        raise AttributeError(f"copies of a batched environment have no method {method_name!r}.")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Returns False: the copies are not wrapped."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Any) -> Sequence[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else list(indices)


class TrainingVecEnv(SpacesVecEnv):
    """The envs of one seed, as Stable-Baselines3 wants it.

    `reset` returns the current observations, since it is the curriculum's schedule that decides
    when episodes are restarted.
    """

    def __init__(self, envs: RolloutEnvs) -> None:
        super().__init__(envs.observation_space, envs.action_space, envs.copies)
        self._envs = envs
        self._actions: Any = None

    def reset(self) -> Any:
        """Returns the current observations."""
        return self._envs.obs[0].astype(np.float32)

    def step_async(self, actions: Any) -> None:
        """Keeps the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Steps all copies."""
        step = self._envs.step(self._actions[None])
        done = step.terminated[0] | step.truncated[0]
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done).tolist():
            infos[i] = {
                "terminal_observation": step.final_obs[0, i].astype(np.float32),
                "TimeLimit.truncated": bool(step.truncated[0, i]),
            }
        return step.obs[0].astype(np.float32), step.reward[0].astype(np.float32), done, infos


def _single(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
