"""The training loop over a batch of seeds of one cell."""

from __future__ import annotations

import platform
import resource
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pacebench.harness.learners.clock import Clock
from pacebench.harness.records import Checkpoint, Hooks, RunResult, Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training.checkpoints import pack, unpack
from pacebench.harness.training.evaluation import Evaluator, empty_evaluations
from pacebench.harness.training.resolved import ResolvedCell
from pacebench.harness.training.scheduler import empty_updates
from pacebench.harness.training.training_envs import TrainingEnvs


class TrainingBatch:
    """Seeds of one cell that train in lockstep, all at the same iteration.

    Attributes:
        results: What has ended, by position.
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
        probe = resolved.spaces()
        observation = int(probe.observation_space.shape[0])
        self.schedulers = [resolved.scheduler(seed, observation) for seed in seeds]
        self.envs = TrainingEnvs(resolved.setup, seeds, self.schedulers, resolved.copies)
        self.agents = resolved.learner.build(
            resolved.cell.learner.params, probe.observation_space, probe.action_space, seeds
        )
        self.evaluator = Evaluator(resolved.setup, resolved.cell.evaluation, seeds)
        self.evaluations = [empty_evaluations() for _ in seeds]
        self.earlier: list[dict[str, float]] = [{} for _ in seeds]
        self.iteration = 0
        # A grid point has passed and the checkpoint that it asks for is not written yet.
        self.unsaved = [False] * len(seeds)
        for k, checkpoint in enumerate(checkpoints):
            if checkpoint is not None:
                self._restore(k, checkpoint)

    @property
    def running(self) -> list[int]:
        """Positions of the seeds that have not ended."""
        return [k for k in range(len(self.seeds)) if k not in self.results]

    def train(self) -> list[RunResult]:
        """Trains until the budget is used up or the hooks ask to stop."""
        resolved = self.resolved
        if self.iteration == 0:
            self._evaluate()
        while self.running and self.iteration < resolved.iterations:
            self.advance()
            self._evaluate()
            self.hooks.progress(resolved.rollout_steps * len(self.running))
            if self.iteration < resolved.iterations:
                stopping = self.hooks.should_stop()
                self._save(everything=stopping)
                if stopping:
                    break
        else:
            for k in self.running:
                self._finish(k, Status.OK, "")
        return [self.results[k] for k in sorted(self.results)]

    def advance(self) -> None:
        """Does one iteration: rollout, policy update, curriculum update where one is due."""
        self._begin_cohorts()
        self.agents.iterate(self.envs, self.clock)
        self.iteration += 1
        self._end_diverged()
        with self.clock.phase("curriculum"):
            self._update_curricula()

    def _begin_cohorts(self) -> None:
        rows = []
        for k in self.running:
            scheduler = self.schedulers[k]
            collect = scheduler.wants_restart(self.iteration)
            # Where no cohort begins, the copies restart after a grid point all the same: the
            # checkpoint written there holds no physics.
            if collect or self.iteration == 0 or (self.unsaved[k] and not scheduler.collecting):
                rows.append(k)
                self.unsaved[k] = False
            if collect:
                scheduler.open_cohort()
        with self.clock.phase("rollout"):
            self.envs.restart(rows if self.iteration else list(range(len(self.seeds))))

    def _end_diverged(self) -> None:
        for k, reason in self.agents.diverged.items():
            if k not in self.results:
                self._finish(k, Status.DIVERGED, reason)

    def _update_curricula(self) -> None:
        for k in self.running:
            scheduler = self.schedulers[k]
            if not scheduler.complete:
                continue
            try:
                scheduler.update(self.iteration, self.env_steps, partial(self.agents.values, k))
            except Exception as error:  # noqa: BLE001 - one seed's curriculum must not end the others
                self._finish(k, Status.CRASHED, f"The curriculum's update failed: {error}")

    @property
    def env_steps(self) -> int:
        """Environment steps that each running seed has consumed."""
        return self.iteration * self.resolved.rollout_steps

    def _evaluate(self) -> None:
        due = [
            (point, step)
            for point, (step, iteration) in enumerate(self.resolved.grid)
            if iteration == self.iteration
        ]
        if not due or not self.running:
            return
        paced = [scheduler.curriculum for scheduler in self.schedulers]
        with self.clock.phase("evaluation"):
            for point, step in due:
                found = self.evaluator.evaluate(self.agents, paced, point, step, self.running)
                for k, columns in found.columns.items():
                    for name, column in columns.items():
                        self.evaluations[k][name] += column
                for k, reason in found.broken.items():
                    self._finish(k, Status.DIVERGED, reason)
        for k in self.running:
            self.unsaved[k] = True

    def _save(self, *, everything: bool) -> None:
        if not self.resolved.learner.capabilities.checkpoints:
            return
        for k in self.running:
            scheduler = self.schedulers[k]
            restarts = scheduler.wants_restart(self.iteration) or not scheduler.collecting
            if restarts and (
                self.unsaved[k] or (everything and scheduler.wants_restart(self.iteration))
            ):
                self.hooks.save(self.seeds[k], self._checkpoint(k))

    def _checkpoint(self, k: int) -> Checkpoint:
        arrays, state = self.agents.state(k)
        n = self.resolved.copies
        streams = self.envs.streams[k * n : (k + 1) * n]
        return pack(
            step=self.env_steps,
            arrays=arrays,
            evaluations=self.evaluations[k],
            state={
                "iteration": self.iteration,
                "unsaved": self.unsaved[k],
                "agent": state,
                "scheduler": self.schedulers[k].state(),
                "streams": [stream.bit_generator.state for stream in streams],
                "timings": self._timings(k),
            },
        )

    def _restore(self, k: int, checkpoint: Checkpoint) -> None:
        arrays, evaluations = unpack(checkpoint)
        state = checkpoint.state
        self.iteration = int(state["iteration"])
        self.unsaved[k] = bool(state["unsaved"])
        self.agents.load_state(k, arrays, state["agent"])
        self.schedulers[k].load_state(state["scheduler"])
        n = self.resolved.copies
        for stream, saved in zip(
            self.envs.streams[k * n : (k + 1) * n], state["streams"], strict=True
        ):
            stream.bit_generator.state = saved
        self.evaluations[k] = evaluations
        self.earlier[k] = dict(state["timings"])

    def _timings(self, k: int) -> dict[str, float]:
        """Returns the seed's share of the batch's time, with what it took before a resumption."""
        return {
            phase: self.earlier[k].get(phase, 0.0) + seconds / len(self.seeds)
            for phase, seconds in self.clock.seconds.items()
        }

    def _finish(self, k: int, status: Status, reason: str) -> None:
        result = RunResult(
            seed=self.seeds[k],
            status=status,
            reason=reason,
            env_steps=self.env_steps,
            evaluations=self.evaluations[k],
            updates=self.schedulers[k].rows or empty_updates(),
            timings=self._timings(k),
            policy=self.agents.policy(k) if status is Status.OK else {},
            extras=facts(len(self.seeds)),
        )
        self.results[k] = result
        self.hooks.finished(result)


def facts(batch: int) -> dict[str, Any]:
    """Returns what else is worth knowing about where a run took place."""
    import torch

    return {
        "batch_size": batch,
        "torch_threads": torch.get_num_threads(),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
