"""The training loop over a batch of seeds of one cell."""

from __future__ import annotations

import contextlib
import json
import platform
import resource
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pacebench.harness.errors import UserError
from pacebench.harness.learners.base import Clock
from pacebench.harness.records import (
    DIAGNOSTIC_COLUMNS,
    UPDATE_COLUMNS,
    Checkpoint,
    Hooks,
    RunResult,
    Status,
)
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training.checkpoints import UnusableCheckpointsError, pack, unpack
from pacebench.harness.training.evaluation import Evaluator, empty_evaluations
from pacebench.harness.training.resolved import ResolvedCell
from pacebench.harness.training.training_envs import EpisodeLog, TrainingEnvs


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
        discrete = isinstance(self.envs.action_space, spaces.Discrete)
        if discrete and not resolved.learner.capabilities.discrete:
            raise UserError(
                f"'{resolved.setup.name}' has discrete actions, which learner "
                f"'{resolved.learner.name}' cannot take; use ppo or sb3-ppo."
            )
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
        # physics, is smallest when they restart next.
        self.unsaved = [False] * len(seeds)
        self._restore({k: c for k, c in enumerate(checkpoints) if c is not None})

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

    def _diagnostic_rows(self, k: int) -> NDArray[np.float64]:
        return np.array(self.diagnostics[k], dtype=np.float64).reshape(-1, len(DIAGNOSTIC_COLUMNS))

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
                except (MemoryError, OSError):
                    raise  # the machine's doing, mostly
                except Exception as error:  # noqa: BLE001 - one seed's curriculum must not end the others
                    traceback.print_exc()
                    said = f"{type(error).__name__}: {error} (in the curriculum's update)"
                    self._finish(k, Status.CRASHED, said)

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
        """Saves seeds whose copies are about to restart after an evaluation; before a stop, all."""
        if not self.resolved.learner.capabilities.checkpoints:
            return
        for k in self.running:
            if stopping or (self.unsaved[k] and not self.schedulers[k].collecting):
                self.hooks.save(self.seeds[k], self._checkpoint(k))

    def _checkpoint(self, k: int) -> Checkpoint:
        arrays, state = self.agents.state(k)
        scheduler = self.schedulers[k]
        restarts = scheduler.wants_restart(self.iteration) or self.unsaved[k]
        midway = scheduler.collecting or not restarts
        return pack(
            step=self.env_steps,
            arrays={**arrays, "diagnostics": self._diagnostic_rows(k)},
            evaluations=self.evaluations[k],
            state={
                "iteration": self.iteration,
                "unsaved": self.unsaved[k],
                "agent": state,
                "scheduler": scheduler.state(),
                "streams": [rng.bit_generator.state for rng in self.envs.streams(k)],
                "obs": self.envs.obs[k].tolist() if midway else None,
                # Said by the curriculum as it was when the episodes began.
                "learned": None if self.envs.learned is None else self.envs.learned[k].tolist(),
                "timings": self._timings(k),
            },
            log=self.envs.log(k) if midway else None,
        )

    def _restore(self, checkpoints: Mapping[int, Checkpoint]) -> None:
        """Goes on from checkpoints.

        Raises:
            UnusableCheckpointsError: Some are not what a run of this cell can have left behind.
        """
        logs: dict[int, EpisodeLog] = {}
        for k, checkpoint in checkpoints.items():
            with self._blamed(k):
                arrays, self.evaluations[k], log = unpack(checkpoint)
                # Not every learner can tell everything: here alone NaN is in order.
                rows = arrays.pop("diagnostics", np.zeros((0, len(DIAGNOSTIC_COLUMNS))))
                _check(rows.shape[1:] == (len(DIAGNOSTIC_COLUMNS),), "its diagnostics")
                self.diagnostics[k] = rows.tolist()
                if log is not None:
                    self.envs.check_log(log)
                    logs[k] = log
                _check(len({len(c) for c in self.evaluations[k].values()}) == 1, "its evaluations")
                numbers = (a for name, a in checkpoint.arrays.items() if name != "diagnostics")
                _check(all(np.isfinite(a).all() for a in numbers), "a number")
                self._restore_agent(k, arrays, checkpoint)
        if logs:
            with self._blamed(*logs):
                self.envs.replay(logs)
        for k, checkpoint in checkpoints.items():
            with self._blamed(k):
                self._restore_scheduler(k, checkpoint.state, logs.get(k))

    def _restore_agent(self, k: int, arrays: dict[str, Any], checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        self.iteration = int(state["iteration"])
        _check(0 < self.iteration < self.resolved.iterations, "its iteration")
        _check(checkpoint.step == self.env_steps, "its step")
        self.unsaved[k] = bool(state["unsaved"])
        self.agents.load_state(k, arrays, state["agent"])
        found, rest = self.agents.state(k)
        _check(_described(found) == _described(arrays), "the agent's arrays")
        _check(_plain(rest) == state["agent"], "the agent's state")
        self.earlier[k] = {str(name): float(s) for name, s in state["timings"].items()}

    def _restore_scheduler(self, k: int, state: dict[str, Any], log: EpisodeLog | None) -> None:
        scheduler, streams = self.schedulers[k], self.envs.streams(k)
        scheduler.load_state(state["scheduler"])
        _check(_plain(scheduler.state()) == state["scheduler"], "the curriculum's state")
        _check(len({len(column) for column in scheduler.rows.values()}) <= 1, "its updates")
        if log is not None:
            scheduler.collecting = log.in_cohort
            _check(self.envs.obs[k].tolist() == state["obs"], "where its episodes led")
            _check(state["streams"] == [r.bit_generator.state for r in streams], "its streams")
            if self.envs.learned is not None:
                self.envs.learned[k] = state["learned"]
        for rng, saved in zip(streams, state["streams"], strict=True):
            rng.bit_generator.state = saved

    @contextlib.contextmanager
    def _blamed(self, *rows: int) -> Iterator[None]:
        """Says of whatever goes wrong inside the block that these seeds' checkpoints are at fault.

        What is in a file may be anything, and so may be what it makes of the code that reads it.
        """
        try:
            yield
        except (MemoryError, OSError):
            raise
        except Exception as error:
            reason = f"it cannot be gone on from ({type(error).__name__}: {error})"
            raise UnusableCheckpointsError({self.seeds[k]: reason for k in rows}) from error

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


def _check(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"{what} cannot be right")


def _described(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}


def _plain(state: dict[str, Any]) -> Any:
    """Returns a state as it is after it was written and read."""
    return json.loads(json.dumps(state))


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
