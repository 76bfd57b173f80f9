"""The training loop over a batch of seeds of one cell."""

from __future__ import annotations

import platform
import resource
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pacebench.harness.learners.clock import Clock
from pacebench.harness.records import (
    DIAGNOSTIC_COLUMNS,
    UPDATE_COLUMNS,
    Checkpoint,
    Hooks,
    RunResult,
    Status,
)
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training.checkpoints import pack, unpack
from pacebench.harness.training.evaluation import Evaluator, empty_evaluations
from pacebench.harness.training.resolved import ResolvedCell
from pacebench.harness.training.training_envs import TrainingEnvs


class TrainingBatch:
    """Seeds of one cell that train in lockstep, all at the same iteration.

    Attributes:
        iteration: Rollouts collected, and so policy updates done, by each running seed.
        results: The results of the seeds that have ended, by position in the batch.
    """

    def __init__(
        self,
        resolved: ResolvedCell,
        seeds: Sequence[RunSeed],
        checkpoints: Sequence[Checkpoint | None],
        hooks: Hooks,
    ) -> None:
        self.resolved, self.seeds, self.hooks = resolved, seeds, hooks
        self.clock = Clock()
        self.results: dict[int, RunResult] = {}
        self.schedulers = [resolved.scheduler(seed) for seed in seeds]
        self.envs = TrainingEnvs(resolved.setup, seeds, self.schedulers, resolved.copies)
        self.agents = resolved.learner.build(
            resolved.cell.learner.params,
            self.envs.observation_space,
            self.envs.action_space,
            seeds,
        )
        self.evaluator = Evaluator(resolved.setup, resolved.cell.evaluation, seeds)
        self.evaluations = [empty_evaluations() for _ in seeds]
        # Rows of `DIAGNOSTIC_COLUMNS`.
        self.diagnostics: list[list[list[float]]] = [[] for _ in seeds]
        self.earlier: list[dict[str, float]] = [{} for _ in seeds]
        self.iteration = 0
        # Seeds that were evaluated since their copies last restarted: a checkpoint, which holds no
        # physics, can be written when they restart next.
        self.unsaved = [False] * len(seeds)
        for k, checkpoint in enumerate(checkpoints):
            if checkpoint is not None:
                self._restore(k, checkpoint)

    @property
    def running(self) -> list[int]:
        """Positions of the seeds that have not ended."""
        return [k for k in range(len(self.seeds)) if k not in self.results]

    @property
    def env_steps(self) -> int:
        """Environment steps that each running seed has consumed."""
        return self.iteration * self.resolved.rollout_steps

    def train(self) -> list[RunResult]:
        """Trains until the budget is used up or the hooks ask to stop."""
        last = self.resolved.iterations
        if self.iteration == 0:
            self._evaluate()
        while self.running and self.iteration < last:
            self.advance()
            self._evaluate()
            self.hooks.progress(self.resolved.rollout_steps * len(self.running))
            if self.iteration < last:
                stopping = self.hooks.should_stop()
                self._save_checkpoints(stopping)
                if stopping:
                    break
        if self.iteration >= last:
            for k in self.running:
                self._finish(k, Status.OK)
        return [self.results[k] for k in sorted(self.results)]

    def advance(self) -> None:
        """Does one iteration: collect a rollout, update the policies, update the curricula."""
        self._restart_copies()
        self.agents.iterate(self.envs, self.clock)
        self.iteration += 1
        self._note_diagnostics()
        for k, reason in self.agents.diverged.items():
            if k not in self.results:
                self._finish(k, Status.DIVERGED, reason)
        self._update_curricula()

    def _note_diagnostics(self) -> None:
        """Keeps what the learner tells of its update; learners of other packages may not."""
        if not hasattr(self.agents, "diagnostics"):
            return
        for k in self.running:
            told = self.agents.diagnostics(k)
            told |= {"iteration": self.iteration, "env_steps": self.env_steps}
            row = [float(told.get(name, np.nan)) for name in DIAGNOSTIC_COLUMNS]
            self.diagnostics[k].append(row)

    def _restart_copies(self) -> None:
        """Restarts the copies of the seeds that begin a cohort, or that a checkpoint waits for."""
        rows = []
        for k in self.running:
            scheduler = self.schedulers[k]
            begins_cohort = scheduler.wants_restart(self.iteration)
            if begins_cohort or (self.unsaved[k] and not scheduler.collecting):
                rows.append(k)
                self.unsaved[k] = False
            if begins_cohort:
                scheduler.open_cohort()
        # In the beginning all copies need a first episode, also those of seeds that have ended.
        chosen = rows if self.iteration else list(range(len(self.seeds)))
        with self.clock.phase("rollout"):
            self.envs.restart(chosen)

    def _update_curricula(self) -> None:
        """Updates the curricula whose cohort of episodes has ended."""
        with self.clock.phase("curriculum"):
            for k in self.running:
                scheduler = self.schedulers[k]
                if not scheduler.complete:
                    continue
                critic = partial(self.agents.values, k)
                try:
                    scheduler.update(self.iteration, self.env_steps, critic)
                except Exception as error:  # noqa: BLE001 - one seed's curriculum must not end the others
                    self._finish(k, Status.CRASHED, f"The curriculum's update failed: {error}")

    def _evaluate(self) -> None:
        """Evaluates the running seeds if this iteration reaches points of the evaluation grid."""
        for point, (step, iteration) in enumerate(self.resolved.grid):
            if iteration != self.iteration or not self.running:
                continue
            with self.clock.phase("evaluation"):
                current = [scheduler.curriculum for scheduler in self.schedulers]
                found = self.evaluator.evaluate(
                    self.agents,
                    current,
                    point,
                    step,
                    self.running,
                    last=point == len(self.resolved.grid) - 1,
                )
            for k, columns in found.columns.items():
                for name, column in columns.items():
                    self.evaluations[k][name] += column
                self.unsaved[k] = True
            for k, reason in found.broken.items():
                self._finish(k, Status.DIVERGED, reason)

    def _save_checkpoints(self, stopping: bool) -> None:
        """Saves seeds whose copies are about to restart: after an evaluation, or before a stop."""
        if not self.resolved.learner.capabilities.checkpoints:
            return
        for k in self.running:
            scheduler = self.schedulers[k]
            due = self.unsaved[k] or (stopping and scheduler.wants_restart(self.iteration))
            if due and not scheduler.collecting:
                self.hooks.save(self.seeds[k], self._checkpoint(k))

    def _checkpoint(self, k: int) -> Checkpoint:
        arrays, state = self.agents.state(k)
        return pack(
            step=self.env_steps,
            arrays={**arrays, "diagnostics": np.array(self.diagnostics[k], dtype=np.float64)},
            evaluations=self.evaluations[k],
            state={
                "iteration": self.iteration,
                "unsaved": self.unsaved[k],
                "agent": state,
                "scheduler": self.schedulers[k].state(),
                "streams": [rng.bit_generator.state for rng in self.envs.streams(k)],
                "timings": self._timings(k),
            },
        )

    def _restore(self, k: int, checkpoint: Checkpoint) -> None:
        arrays, self.evaluations[k] = unpack(checkpoint)
        self.diagnostics[k] = arrays.pop("diagnostics", np.zeros(0)).tolist()
        state = checkpoint.state
        self.iteration = int(state["iteration"])
        self.unsaved[k] = bool(state["unsaved"])
        self.agents.load_state(k, arrays, state["agent"])
        self.schedulers[k].load_state(state["scheduler"])
        for rng, saved in zip(self.envs.streams(k), state["streams"], strict=True):
            rng.bit_generator.state = saved
        self.earlier[k] = dict(state["timings"])

    def _timings(self, k: int) -> dict[str, float]:
        """Returns the seed's share of the batch's time, with what it took before a resumption."""
        return {
            phase: self.earlier[k].get(phase, 0.0) + seconds / len(self.seeds)
            for phase, seconds in self.clock.seconds.items()
        }

    def _finish(self, k: int, status: Status, reason: str = "") -> None:
        rows = self.diagnostics[k]
        result = RunResult(
            seed=self.seeds[k],
            status=status,
            reason=reason,
            env_steps=self.env_steps,
            evaluations=self.evaluations[k],
            updates=self.schedulers[k].rows or {name: [] for name in UPDATE_COLUMNS},
            timings=self._timings(k),
            policy=self.agents.policy(k) if status is Status.OK else {},
            extras=_machine_facts(len(self.seeds)),
            diagnostics={
                name: [int(row[i]) if kind.startswith("int") else row[i] for row in rows]
                for i, (name, kind) in enumerate(DIAGNOSTIC_COLUMNS.items())
            },
        )
        self.results[k] = result
        self.hooks.finished(result)


def _machine_facts(batch_size: int) -> dict[str, Any]:
    import torch

    return {
        "batch_size": batch_size,
        "torch_threads": torch.get_num_threads(),
        # The module `resource` is POSIX only, and its unit is the kibibyte on Linux only.
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
