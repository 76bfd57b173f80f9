"""The one small interface behind which batches run: here, on a Ray cluster, under Slurm."""

from __future__ import annotations

from typing import Protocol

from pacebench.harness.runner.attempt import Attempt, Ended


class Executor(Protocol):
    """Runs attempts somewhere. Results go to the store, not through here.

    Attributes:
        name: What `--executor` calls it.
        slots: How many attempts it can run at a time.
    """

    name: str
    slots: int

    def submit(self, attempt: Attempt) -> None:
        """Starts an attempt; at most `slots` are given at a time."""

    def poll(self, timeout: float) -> list[Ended]:
        """Returns the attempts that ended, waiting at most `timeout` seconds for the first."""

    def abandon(self, attempt: Attempt) -> bool:
        """Hears that the worker of an attempt has fallen silent; says whether it gives it up.

        One that watches over its workers itself will say in `poll` what became of them.
        """

    def stop(self) -> None:
        """Asks all attempts to stop at their next checkpoint; the runner made the stop file."""

    def close(self) -> None:
        """Ends whatever still runs, at once, and frees what was acquired."""
