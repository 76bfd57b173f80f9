"""A trained policy, loaded from the folder of its run, ready to act."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.learners.base import noise_width
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.reading import first_mistake
from pacebench.harness.store.runs import POLICY, BadRunError
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import Cell, PlannedRun

Floats = NDArray[np.float64]


class Player:
    """Maps observations (n, obs_dim) to actions (n, act_dim) as a run's final policy does.

    `rng` is the generator of the policy's noise; without one it acts deterministically.
    """

    def __init__(
        self,
        cell: Cell,
        seed: RunSeed,
        arrays: dict[str, NDArray[np.float32]],
        rng: np.random.Generator | None = None,
    ) -> None:
        self.setup = cell.task
        batch = envs.make_batch(self.setup, 1, 0)
        self._width = noise_width(batch.action_space)
        self._rng = rng
        self._agents = learners.get(cell.learner.name).build(
            cell.learner.params, batch.observation_space, batch.action_space, [seed]
        )
        self._agents.load_policy(0, arrays)

    def __call__(self, obs: Floats) -> Floats:
        """Acts."""
        shape = (len(obs), self._width)
        noise = np.zeros(shape) if self._rng is None else self._rng.standard_normal(shape)
        actions: Floats = self._agents.act(obs[None], noise[None])[0]
        return actions


def load_player(folder: Path, *, stochastic: bool = False, seed: int = 0) -> Player:
    """Loads the final policy of a finished run.

    Raises:
        UserError: The folder holds no finished run, or one without a policy of its learner.
    """
    folder = folder.resolve()
    store = RunStore(folder.parents[1])
    try:
        stored = store.read(folder.name)
        arrays = store.policy(folder.name)
    except BadRunError as error:
        raise UserError(f"'{folder}' cannot be played: {error}.") from None
    if stored is None:
        raise UserError(
            f"'{folder}' holds no finished run; give a folder results/STUDY/runs/ID that has a "
            "run.json."
        )
    if POLICY not in stored.record["files"]:
        raise UserError(
            f"the run in '{folder}' ended as '{stored.status}' and left no policy to play."
        )
    if not arrays:
        raise UserError(
            f"the run in '{folder}' was passed on without its policy; delete the folder and "
            "`pacebench run` makes both again."
        )
    try:
        run = PlannedRun(label="", **stored.record["run"])
    except ValidationError as error:
        raise UserError(f"'{folder}' cannot be played: {first_mistake(error)}.") from None
    rng = np.random.default_rng(seed) if stochastic else None
    try:
        return Player(run.cell, run.seed, arrays, rng)
    except (KeyError, ValueError, TypeError, RuntimeError):
        raise UserError(
            f"'{folder}' cannot be played: its policy is none of learner '{run.cell.learner.name}'."
        ) from None
