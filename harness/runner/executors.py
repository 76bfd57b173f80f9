"""The one small interface behind which batches run: here, on a Ray cluster, under Slurm."""

from __future__ import annotations

from typing import Protocol

from pacebench.harness.runner.task import Ended, Task


class Executor(Protocol):
    """Runs tasks somewhere. Results go to the store, not through here.

    Attributes:
        name: What `--executor` calls it.
        slots: How many tasks it can run at a time.
    """

    name: str
    slots: int

    def submit(self, task: Task) -> None:
        """Starts a task; at most `slots` are given at a time."""

    def poll(self, timeout: float) -> list[Ended]:
        """Returns the tasks that ended, waiting at most `timeout` seconds for the first."""

    def stop(self) -> None:
        """Asks all tasks to stop at their next checkpoint; the runner made the stop file."""

    def close(self) -> None:
        """Ends whatever still runs, at once, and frees what was acquired."""
