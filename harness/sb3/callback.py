"""Updates a curriculum while a Stable-Baselines3 model learns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from pacebench import curricula
from pacebench.harness.errors import UserError
from pacebench.harness.sb3.wrapper import KEY
from pacebench.harness.training.scheduler import MEASURED, Cohort

# The attribute of a model that keeps the curriculum's state; Stable-Baselines3 saves and loads it.
_ATTRIBUTE = "curriculum_state"


class CurriculumCallback(BaseCallback):
    """Updates a curriculum between the rollouts of a Stable-Baselines3 model.

    An update uses the first `episodes` episodes that *started* since the last one, and waits until
    all of them have ended: their contexts come from the current distribution, and none is chosen
    by how soon it ended. Episodes that were running at an update are left out. Nothing is reset.

    The state of the curriculum is kept with the model, saved and loaded with it. Training of a
    loaded model goes on from there, whatever state the curriculum is in that the callback is given.

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
        resume: bool = True,
        threads: int | None = 1,
        verbose: int = 0,
    ) -> None:
        """Prepares the callback.

        Args:
            curriculum: The curriculum, as given to the wrappers.
            episodes: Episodes per update.
            every: Rollouts between two updates, at least.
            warm_up: Rollouts before the first update.
            resume: Whether to go on from the state that the model has, if it has one.
            threads: Threads of torch while the model learns; None leaves them alone, and so does
                an environment variable OMP_NUM_THREADS. Small networks learn no faster with one
                thread per core, and take several times as much processor time.
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
        self._resume = resume
        self._threads = None if "OMP_NUM_THREADS" in os.environ else threads
        self._threads_before: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the model and its environments, which a callback is given when it is used."""
        return {**vars(self), "model": None, "parent": None, "locals": {}, "globals": {}}

    def _on_training_start(self) -> None:
        if self._threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(self._threads)
        if self._resume:
            self._load()
        self._send_curriculum()
        self._keep()
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
            if KEY not in infos[i]:
                raise UserError(
                    "an episode ended without CurriculumWrapper knowing; put TimeLimit, and "
                    "whatever else ends episodes, inside of it."
                )
            context, discounted_return, measured = infos[i][KEY]
            self._cohort.end(self._slots[i], context, discounted_return, **measured)
            self._slots[i] = self._cohort.begin()
        return True

    def _on_training_end(self) -> None:
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    def _on_rollout_end(self) -> None:
        self._wait -= 1
        if self._wait <= 0 and self._cohort.complete:
            self._update()
        self._keep()

    def _update(self) -> None:
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

    def _keep(self) -> None:
        kept = {"curriculum": self.curriculum.state_dict(), "wait": self._wait}
        setattr(self.model, _ATTRIBUTE, kept)

    def _load(self) -> None:
        kept = getattr(self.model, _ATTRIBUTE, None)
        if kept is None:
            return
        try:
            self.curriculum.load_state_dict(kept["curriculum"])
        except curricula.CurriculumError as error:
            raise UserError(
                f"the model was trained with another curriculum: {error} Or pass resume=False."
            ) from None
        self._wait = kept["wait"]
