"""The rollout environments of one seed as Stable-Baselines3's vectorised environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from pacebench.harness.learners.base import RolloutEnvs


class RolloutVecEnv(VecEnv):
    """A `VecEnv` around the `RolloutEnvs` of one seed.

    A model is built from the spaces alone; `envs` is set before it learns. `reset` returns the
    current observations, since it is the curriculum's schedule that decides when episodes restart.
    """

    envs: RolloutEnvs

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Box | spaces.Discrete,
        copies: int,
    ) -> None:
        # Stable-Baselines3 stores rollouts in the dtype of the space.
        actions = _single(action_space) if isinstance(action_space, spaces.Box) else action_space
        super().__init__(copies, _single(observation_space), actions)
        self._actions: Any = None

    def reset(self) -> Any:
        """Returns the current observations."""
        return self.envs.obs[0].astype(np.float32)

    def step_async(self, actions: Any) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Steps all copies."""
        step = self.envs.step(self._actions[None])
        done = step.terminated[0] | step.truncated[0]
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done).tolist():
            infos[i] = {
                "terminal_observation": step.final_obs[0, i].astype(np.float32),
                "TimeLimit.truncated": bool(step.truncated[0, i]),
            }
        return step.obs[0].astype(np.float32), step.reward[0].astype(np.float32), done, infos

    def close(self) -> None:
        """Does nothing: the environments belong to training."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns an attribute of this object, once per copy."""
        return [getattr(self, attr_name, None) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute of this object."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refuses: the copies have no methods of their own."""
        raise AttributeError(f"copies of a batched environment have no method {method_name!r}.")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Returns False: the copies are not wrapped."""
        return [False for _ in self._get_indices(indices)]


def _single(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
