"""A cell with its names looked up: its setup, its learner's parameters, its curriculum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacebench import curricula, envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.study.construct import blind_critic, make_curriculum, unfed
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.scheduler import CurriculumScheduler


@dataclass(frozen=True)
class ResolvedCell:
    """A cell, and what follows from it for training.

    Attributes:
        rollout_steps: Environment steps per seed and iteration.
        iterations: Rollouts until the budget is used up; the last one is whole, as in
            Stable-Baselines3.
        grid: Evaluation steps with the number of iterations after which each is due.
    """

    cell: Cell
    setup: envs.Setup
    learner: type[learners.Learner]
    params: Any
    rollout_steps: int
    copies: int
    iterations: int
    grid: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, cell: Cell) -> ResolvedCell:
        """Resolves the names of a cell.

        Raises:
            UserError: The value signal is `critic`, but the learner has no critic of states, or
                the critic cannot see the context; or the curriculum reads what the learner cannot
                tell of an episode.
        """
        setup = cell.task
        learner = learners.get(cell.learner.name)
        params = learner.Params.model_validate(cell.learner.params)
        if cell.schedule.value_signal == "critic":
            if sentence := blind_critic(setup):
                raise UserError(f"value_signal {sentence}")
            if not learner.capabilities.critic:
                raise UserError(
                    f"learner '{cell.learner.name}' has no critic of states; use value_signal "
                    "'return'."
                )
        chosen = cell.curriculum
        if sentence := unfed(curricula.get(chosen.name), learner, chosen.options):
            raise UserError(sentence)
        rollout = learner.rollout_steps(params)
        steps = sorted({*cell.evaluation.steps, cell.budget})
        return cls(
            cell=cell,
            setup=setup,
            learner=learner,
            params=params,
            rollout_steps=rollout,
            copies=learner.copies(params),
            iterations=-(-cell.budget // rollout),
            grid=tuple((step, -(-step // rollout)) for step in steps),
        )

    def curriculum(self, seed: RunSeed) -> curricula.Curriculum:
        """Returns a fresh curriculum of the cell; whatever its updates draw is the seed's own."""
        return make_curriculum(
            self.cell.curriculum,
            self.setup,
            seed=int(seed.sequence(RunRole.CURRICULUM, 0).generate_state(1, np.uint64)[0]),
            record_every=self.cell.schedule.record_every,
        )

    def scheduler(self, seed: RunSeed) -> CurriculumScheduler:
        """Returns the scheduler of one seed, with a fresh curriculum."""
        rng = seed.generator(RunRole.CURRICULUM)
        return CurriculumScheduler(self.curriculum(seed), rng, self.cell.schedule, self.copies)
