"""Our curricula inside your own Stable-Baselines3 script.

    curriculum = curricula.make("spgl", target=target, initial=initial, threshold=5.0)
    env = make_vec_env(lambda: CurriculumWrapper(make_my_env(), curriculum, gamma=0.95), n_envs=16)
    model = PPO("MlpPolicy", env, gamma=0.95)
    model.learn(400_000, callback=CurriculumCallback(curriculum))

The environment must take its context as `reset(options={"context": c})`; ours do
(`gymnasium.make("pacebench/PointMass-v0", setup="point-mass-2")`). Any algorithm and any vectorised
environment of Stable-Baselines3 will do, subprocesses and `VecNormalize` included.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.training.scheduler import MEASURED, Cohort

__all__ = ["CurriculumCallback", "CurriculumWrapper"]

_KEY = "curriculum_episode"


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
    ) -> None:
        """Wraps an environment.

        Args:
            env: An environment that takes `options={"context": c}` at its reset.
            curriculum: The curriculum that the callback is given, too.
            gamma: Discount factor of the values; one of our environments knows its own.

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
        self._return, self._discount, self._undiscounted, self._length = 0.0, 1.0, 0.0, 0
        self._context = np.zeros(curriculum.dim)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode with a context of the curriculum, unless `options` name one."""
        if seed is not None:
            # Another branch than the environment's own, which is seeded with `seed` itself.
            self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        elif self._rng is None:
            self._rng = np.random.default_rng()
        options = dict(options or {})
        if "context" not in options:
            options["context"] = self._curriculum.sample(1, self._rng)[0]
        self._context = np.asarray(options["context"], dtype=np.float64)
        self._return, self._discount, self._undiscounted, self._length = 0.0, 1.0, 0.0, 0
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
            info = {**info, _KEY: (self._context, self._return, measured)}
        return obs, reward, terminated, truncated, info

    def follow_curriculum(self, state: dict[str, Any]) -> None:
        """Takes over the state of the callback's curriculum."""
        self._curriculum.load_state_dict(state)

    def curriculum_state(self) -> dict[str, Any]:
        """Returns the state of the curriculum that contexts are drawn from."""
        return self._curriculum.state_dict()


class CurriculumCallback(BaseCallback):
    """Updates a curriculum between the rollouts of a Stable-Baselines3 model.

    An update uses the first `episodes` episodes that *started* since the last one, and waits until
    all of them have ended: their contexts come from the current distribution, and none is chosen
    by how soon it ended. Episodes that were running at an update are left out. Nothing is reset.

    Attributes:
        records: The `UpdateRecord` of each update.
    """

    def __init__(
        self,
        curriculum: curricula.Curriculum,
        *,
        episodes: int = 20,
        every: int = 1,
        warm_up: int = 0,
        verbose: int = 0,
    ) -> None:
        """Prepares the callback.

        Args:
            curriculum: The curriculum, as given to the wrappers.
            episodes: Episodes per update.
            every: Rollouts between two updates, at least.
            warm_up: Rollouts before the first update.
            verbose: As in Stable-Baselines3.
        """
        super().__init__(verbose)
        if episodes < 1 or every < 1 or warm_up < 0:
            raise UserError("CurriculumCallback needs episodes ≥ 1, every ≥ 1 and warm_up ≥ 0.")
        if lacking := curriculum.reads - {"contexts", "values", *MEASURED}:
            raise UserError(
                f"'{curriculum.name}' reads {', '.join(sorted(lacking))} of each episode, which "
                "CurriculumCallback cannot tell; run it in a study, or choose another curriculum."
            )
        self.curriculum = curriculum
        self.records: list[curricula.UpdateRecord] = []
        self._every = every
        self._wait = warm_up + every
        self._cohort = Cohort(episodes, curriculum.dim)
        self._slots: list[int] = []

    def _on_training_start(self) -> None:
        self._send_curriculum()
        # The episodes that run now are the first of the cohort where training begins with them;
        # where it goes on, nobody knows which distribution their contexts came from.
        self._cohort.open()
        fresh = self.num_timesteps == 0
        self._slots = [
            self._cohort.begin() if fresh else -1 for _ in range(self.training_env.num_envs)
        ]

    def _on_step(self) -> bool:
        dones, infos = self.locals["dones"], self.locals["infos"]
        for i in np.flatnonzero(dones).tolist():
            if _KEY not in infos[i]:
                raise UserError(
                    "an episode ended without CurriculumWrapper knowing; put TimeLimit, and "
                    "whatever else ends episodes, inside of it."
                )
            context, discounted_return, measured = infos[i][_KEY]
            self._cohort.end(self._slots[i], context, discounted_return, **measured)
            self._slots[i] = self._cohort.begin()
        return True

    def _on_rollout_end(self) -> None:
        self._wait -= 1
        if self._wait > 0 or not self._cohort.complete:
            return
        values = self._cohort.columns["discounted_returns"]
        record = self.curriculum.update(self._cohort.episodes(self.curriculum.reads, values=values))
        self.records.append(record)
        for name, value in record.to_dict().items():
            if isinstance(value, int | float):
                self.logger.record(f"curriculum/{name}", value)
        self._send_curriculum()
        self._wait = self._every
        self._cohort.open()
        self._slots = [-1] * len(self._slots)

    def _send_curriculum(self) -> None:
        try:
            self.training_env.env_method("follow_curriculum", self.curriculum.state_dict())
        except AttributeError:
            raise UserError(
                "CurriculumCallback needs every environment wrapped in CurriculumWrapper."
            ) from None
