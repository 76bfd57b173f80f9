"""What stands around the model of one seed: its environments, and the generators it draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from pacebench.harness.learners.base import RolloutEnvs
from pacebench.harness.seeding import RunRole, RunSeed


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


class GlobalStreams:
    """PyTorch's and NumPy's global generators, kept for one agent.

    Stable-Baselines3 draws from them. Each agent gets its own state of both, put in place while the
    agent works and taken out again: what it draws depends on its seed alone, and the rest of the
    process does not notice.
    """

    def __init__(self, seed: RunSeed) -> None:
        init, minibatch = (
            int(seed.sequence(role).generate_state(1)[0])
            for role in (RunRole.INIT, RunRole.MINIBATCH)
        )
        self._torch = torch.Generator().manual_seed(init).get_state()
        self._numpy: Any = np.random.RandomState(minibatch).get_state()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Puts the agent's state into the global generators for the time of the context."""
        outer = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)  # noqa: NPY002
        try:
            yield
        finally:
            self._torch, self._numpy = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
            torch.set_rng_state(outer[0])
            np.random.set_state(outer[1])  # noqa: NPY002

    def state(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Returns PyTorch's state as an array, NumPy's as JSON-able values."""
        name, keys, position, has_gauss, cached = self._numpy
        return self._torch.numpy().copy(), {
            "name": str(name),
            "keys": [int(key) for key in keys],
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        }

    def load_state(self, array: NDArray[Any], state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._torch = torch.from_numpy(array.copy())
        keys = np.array(state["keys"], dtype=np.uint32)
        self._numpy = (state["name"], keys, state["position"], state["has_gauss"], state["cached"])
