"""Executor `local`: processes on this machine, each watched, none able to harm another."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator

from pacebench.harness.errors import UserError
from pacebench.harness.runner.attempt import Attempt, AttemptOutcome, Call, Ended, Ending
from pacebench.harness.runner.executors import Executor
from pacebench.harness.runner.process import WorkerProcess
from pacebench.harness.store.files import describe

# Idle workers that the next executor may use, inside of `kept_workers`.
_kept: list[WorkerProcess] | None = None


@contextlib.contextmanager
def kept_workers() -> Iterator[None]:
    """Lets one executor after another use the same workers: starting one takes seconds.

    Inside of another one it does nothing: that one keeps them already.
    """
    global _kept
    if _kept is not None:
        yield
        return
    _kept = []
    try:
        yield
    finally:
        for worker in _kept:
            worker.close()
        _kept = None


def do_aside(job: Call) -> AttemptOutcome:
    """Does a job in a worker; inside of `kept_workers`, it is there for the next executor."""
    worker, done = _kept.pop() if _kept else _start(), False
    try:
        outcome = worker.complete(job)
        done = outcome.ending is Ending.DONE
        return outcome
    finally:
        if done and _kept is not None:
            _kept.append(worker)
        else:
            worker.close()


def _start() -> WorkerProcess:
    try:
        return WorkerProcess()
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"no worker process can be started ({describe(error)}); end other programs, or "
            "give fewer --workers, and run the same command again."
        ) from error


class LocalExecutor(Executor):
    """Keeps up to `workers` worker processes; one that fails is replaced."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._busy: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = _kept[:workers] if _kept else []
        if _kept:
            del _kept[:workers]

    def submit(self, attempt: Attempt) -> None:
        """Gives the attempt to an idle worker, or to a new one.

        Raises:
            UserError: The machine does not let us start one.
        """
        worker = self._idle.pop() if self._idle else _start()
        self._busy.append(worker)
        worker.submit(attempt)

    def poll(self, timeout: float) -> list[Ended]:
        """Returns the attempts that ended, waiting at most `timeout` seconds for the first."""
        if self._busy:
            select.select(self._busy, [], [], timeout)
        ended = []
        for worker in list(self._busy):
            attempt = worker.attempt
            outcome = worker.check()
            if outcome is None or not isinstance(attempt, Attempt):
                continue
            ended.append((attempt, outcome))
            self._busy.remove(worker)
            if outcome.ending is Ending.DONE:
                self._idle.append(worker)
            else:
                # Whatever went wrong may have left traces in the process.
                worker.close()
        return ended

    def stop(self) -> None:
        """Asks all workers to stop at their next checkpoint."""
        for worker in self._busy:
            worker.stop()

    def close(self) -> None:
        """Ends all workers at once, except idle ones that are kept for others."""
        spare = self._idle if _kept is None else []
        if _kept is not None:
            _kept.extend(self._idle)
        for worker in (*self._busy, *spare):
            worker.close()
        self._busy, self._idle = [], []
