"""Where the time of the workers went: training, or what the runner made of it."""

from __future__ import annotations

from dataclasses import dataclass

from pacebench.harness.runner.attempt import AttemptOutcome


@dataclass
class Accounts:
    """Seconds, summed over all workers.

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
        """All of it."""
        return float(sum(vars(self).values()))

    @property
    def scheduling(self) -> float:
        """Seconds that the runner cost: preparing, storing and letting workers wait."""
        return self.preparing + self.storing + self.waiting
