"""Executor `slurm`: one job per batch, through submitit.

A job outlives the runner that asked for it and holds its own leases, so a runner that is started
again finds the jobs of its predecessor at work and waits for them.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacebench.harness.errors import MissingExtraError, UserError
from pacebench.harness.runner.attempt import Attempt, AttemptOutcome, Ended, Ending
from pacebench.harness.runner.executors import ClusterExecutor
from pacebench.harness.runner.process import supervise

_POLL = 0.5


class SlurmExecutor(ClusterExecutor):
    """Runs each attempt in a Slurm job of one core.

    Attributes:
        slots: How many jobs at a time, waiting ones included.

    Args:
        workers: How many jobs at a time.
        root: The study's results folder; submitit keeps its files in `slurm/` under it.
        parameters: submitit's parameters, such as `slurm_partition`.
        cluster: `slurm`, or `local` for submitit's processes on this machine.

    Raises:
        UserError: submitit is not installed, there is no Slurm here, or a parameter is unknown.
    """

    def __init__(
        self,
        workers: int,
        root: Path,
        parameters: Mapping[str, Any] | None = None,
        cluster: str = "slurm",
    ) -> None:
        super().__init__()
        try:
            import submitit
        except ImportError:
            raise MissingExtraError("the executor 'slurm'", "slurm") from None
        self.slots = workers
        utils = submitit.core.utils
        self.failures = (utils.UncompletedJobError, utils.FailedJobError)
        self._taken_back: list[Ended] = []
        self._given = dict(parameters or {})
        try:
            self._executor = submitit.AutoExecutor(folder=root / "slurm", cluster=cluster)
            self._executor.update_parameters(cpus_per_task=1, name="pacebench", **self._given)
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise UserError(
                f"--executor slurm: {first}; start it where `sbatch` works, with parameters that "
                "submitit knows."
            ) from None

    def submit(self, attempt: Attempt) -> None:
        """Submits a job."""
        limits: dict[str, Any] = {}
        if attempt.seconds is not None:
            # Our own watch is to end it first: it knows what it ends.
            limits["timeout_min"] = math.ceil(attempt.seconds / 60) + 5
        if attempt.limits.memory is not None:
            limits["mem_gb"] = math.ceil(attempt.limits.memory / 2**30) + 1
        self._executor.update_parameters(**{**limits, **self._given})
        self._active[self._executor.submit(supervise, attempt.model_dump_json())] = attempt

    def poll(self, timeout: float) -> list[Ended]:
        """Returns the attempts that ended, waiting at most `timeout` seconds for the first."""
        if self._taken_back:
            taken_back, self._taken_back = self._taken_back, []
            return taken_back
        end = time.monotonic() + timeout
        while True:
            done = [job for job in self._active if job.done()]
            if done or not self._active or time.monotonic() >= end:
                return self._ended(done)
            time.sleep(min(_POLL, max(0.0, end - time.monotonic())))

    def _result(self, task: Any) -> str:
        return str(task.result())

    def _lost(self, task: Any, error: Exception) -> str:
        return f"Slurm job {task.job_id} ended without a result"

    def _cancel(self, task: Any) -> None:
        task.cancel(check=False)

    def stop(self) -> None:
        """Takes back the jobs that have not begun; the others look for the stop file."""
        for job in [job for job in self._active if job.state == "PENDING"]:
            with contextlib.suppress(Exception):
                self._cancel(job)
                reason = "taken back before it began"
                outcome = AttemptOutcome(ending=Ending.STOPPED, reason=reason)
                self._taken_back.append((self._active.pop(job), outcome))
