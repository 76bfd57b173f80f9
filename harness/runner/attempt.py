"""What is handed to a worker, and what comes back; plain JSON in both directions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import Field

from pacebench.harness.runner.leases import EXPIRY, HEARTBEAT, LONGEST_HEARTBEAT, StaleLease
from pacebench.harness.study.specs import Frozen, PlannedRun

TRAIN = "pacebench.harness.training:train"


class Limits(Frozen):
    """What an attempt may use.

    Attributes:
        seconds: Training time per run; a batch of k seeds has k times as much. None: no limit.
        memory: Bytes of resident memory of a worker. None: no limit.
        heartbeat: Seconds between two signs of life.
        expiry: Seconds without a sign of life after which a worker counts as dead.
    """

    seconds: float | None = Field(default=None, gt=0)
    memory: int | None = Field(default=None, gt=0, le=2**60)
    heartbeat: float = Field(default=HEARTBEAT, gt=0, le=LONGEST_HEARTBEAT)
    expiry: float = Field(default=EXPIRY, gt=0)


class Job(Frozen):
    """Something for a worker process to do.

    Attributes:
        name: Names the job in logs and in the ledger.
        function: What the worker calls, as `module:function`.
        root: The results folder, on storage that every worker sees.
    """

    name: str = Field(default_factory=lambda: uuid.uuid4().hex[:12])
    function: str
    root: str
    limits: Limits = Limits()

    @property
    def log(self) -> str:
        """The file, under the root, that takes the worker's output during the job."""
        return f"attempts/{self.name}.log"

    @property
    def seconds(self) -> float | None:
        """The time limit."""
        return self.limits.seconds


class Call(Job):
    """A function to be called in a worker process; it leaves what it finds in files."""

    arguments: dict[str, Any]


class Attempt(Job):
    """One attempt at a batch: runs of one cell that are trained together.

    Attributes:
        runs: What to train.
        failures: Infrastructure failures of each run so far.
        stale: Leases of these runs that the runner saw expire, so that the worker may follow them
            without watching them as long.
        stop_file: Workers stop at the next checkpoint once this file exists.
    """

    runs: tuple[PlannedRun, ...]
    failures: tuple[int, ...]
    stale: tuple[StaleLease, ...] = ()
    stop_file: str

    @property
    def seconds(self) -> float | None:
        """The time limit of the whole batch."""
        return None if self.limits.seconds is None else self.limits.seconds * len(self.runs)


class Ending(StrEnum):
    """How an attempt ended."""

    DONE = "done"  # training returned
    STOPPED = "stopped"  # it was asked to
    RAISED = "raised"  # training raised an exception: the method's failure
    TIMEOUT = "timeout"  # past its time limit
    MEMORY = "memory"  # past its memory limit
    DIED = "died"  # the worker is gone: exit, signal, lost node
    STORAGE = "storage"  # the results folder cannot be written
    LOST = "lost"  # another runner took its runs over


class AttemptOutcome(Frozen):
    """What is known about an attempt that ended.

    Attributes:
        reason: One sentence for every ending but `DONE`.
        busy: Runs that were left alone because somebody else holds them or has finished them.
        seconds: Time spent inside training, its hooks included.
        storing: The part of it that was spent inside the hooks.
        starting: Time from handing the task to the worker until it trained.
    """

    ending: Ending
    reason: str = ""
    busy: tuple[str, ...] = ()
    seconds: float = 0.0
    storing: float = 0.0
    starting: float = 0.0


Ended = tuple[Attempt, AttemptOutcome]


@dataclass
class Accounts:
    """Where the time of the workers went, in seconds, summed over all of them.

    Attributes:
        preparing: Before the first batch: reading the plan, verifying what is there.
        starting: From handing a batch to a worker until it trains: process, imports.
        training: Inside training, without the next.
        storing: Inside training's hooks: checkpoints, results, leases, ledger.
        waiting: Workers without a batch although there was one.
        idle: Workers without a batch because there was none left, at the end.
    """

    preparing: float = 0.0
    starting: float = 0.0
    training: float = 0.0
    storing: float = 0.0
    waiting: float = 0.0
    idle: float = 0.0

    def add(self, outcome: AttemptOutcome) -> None:
        """Adds an attempt that ended."""
        self.starting += outcome.starting
        self.storing += outcome.storing
        self.training += outcome.seconds - outcome.storing

    @property
    def total(self) -> float:
        """Seconds of all kinds."""
        return float(sum(vars(self).values()))

    @property
    def scheduling(self) -> float:
        """Seconds that the runner cost: preparing, storing and letting workers wait."""
        return self.preparing + self.storing + self.waiting
