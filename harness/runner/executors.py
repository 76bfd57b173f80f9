"""The one small interface behind which batches run: here, on a Ray cluster, under Slurm."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Any

from pacebench.harness.runner.attempt import Attempt, AttemptOutcome, Ended, Ending


class Executor(ABC):
    """Runs attempts somewhere. Results go to the store, not through here.

    Attributes:
        slots: How many attempts it can run at a time.
    """

    slots: int

    @abstractmethod
    def submit(self, attempt: Attempt) -> None:
        """Starts an attempt; at most `slots` are given at a time."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Ended]:
        """Returns the attempts that ended, waiting at most `timeout` seconds for the first."""

    def abandon(self, attempt: Attempt) -> bool:
        """Hears that the worker of an attempt has fallen silent; says whether it gives it up.

        One that watches over its workers itself gives none up: `poll` says what became of them.
        """
        return False

    @abstractmethod
    def stop(self) -> None:
        """Asks all attempts to stop at their next checkpoint; the runner made the stop file."""

    @abstractmethod
    def close(self) -> None:
        """Ends whatever still runs, at once, and frees what was acquired."""


class ClusterExecutor(Executor):
    """Runs attempts as tasks of another program, which returns how they ended as JSON.

    Attributes:
        failures: What the other program raises where a task is lost.
    """

    failures: tuple[type[Exception], ...]

    def __init__(self) -> None:
        self._active: dict[Any, Attempt] = {}

    def _ended(self, tasks: list[Any]) -> list[Ended]:
        return [(self._active.pop(task), self._outcome(task)) for task in tasks]

    def _outcome(self, task: Any) -> AttemptOutcome:
        try:
            return AttemptOutcome.model_validate_json(self._result(task))
        except self.failures as error:
            # What training does is caught elsewhere: a node or a process of the program is gone.
            said = str(error).strip().splitlines()
            reason = f"{self._lost(task, error)}: {said[0] if said else ''}"
            return AttemptOutcome(ending=Ending.DIED, reason=reason)

    @abstractmethod
    def _result(self, task: Any) -> str: ...

    @abstractmethod
    def _lost(self, task: Any, error: Exception) -> str: ...

    @abstractmethod
    def _cancel(self, task: Any) -> None: ...

    def stop(self) -> None:
        """Leaves it to the stop file, since cancelling would not wait for a checkpoint."""

    def close(self) -> None:
        """Cancels what still runs."""
        for task in self._active:
            with contextlib.suppress(Exception):
                self._cancel(task)
        self._active = {}
