"""What becomes of the runs that an attempt left unfinished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pacebench.harness.records import Status
from pacebench.harness.runner.attempt import Ending

# An infrastructure failure is retried with the same seed, at most twice.
RETRIES = 2

# Done, and yet something is unfinished: what the worker wrote could not be read back.
_INFRASTRUCTURE = (Ending.DIED, Ending.MEMORY, Ending.DONE)


class Action(Enum):
    """What to do with the unfinished runs of an attempt."""

    TOGETHER = "together"  # try them again as they were
    ALONE = "alone"  # try each by itself, to find out which is to blame
    GIVE_UP = "give up"  # record how they failed


@dataclass(frozen=True)
class Decision:
    """What to do, and how to record the runs that are given up."""

    action: Action
    status: Status = Status.INFRASTRUCTURE
    counts: bool = False


def decide(ending: Ending, unfinished: int, failures: int) -> Decision:
    """Returns what to do with the unfinished runs of an attempt.

    `failures` are the earlier infrastructure failures of the run that had most of them; `counts` of
    the decision says whether this is another one.
    """
    if ending in _INFRASTRUCTURE:
        if failures >= RETRIES:
            return Decision(Action.GIVE_UP, counts=True)
        # The last attempt is made alone, so that one bad run does not take the others with it; and
        # after running out of memory a smaller batch is the remedy in any case.
        alone = ending is Ending.MEMORY or failures + 1 >= RETRIES
        return Decision(Action.ALONE if alone else Action.TOGETHER, counts=True)
    if ending in (Ending.RAISED, Ending.TIMEOUT):
        if unfinished == 1:
            timeout = ending is Ending.TIMEOUT
            return Decision(Action.GIVE_UP, Status.TIMEOUT if timeout else Status.CRASHED)
        return Decision(Action.ALONE)
    # Stopped, lost to another runner, or out of space: nobody's failure.
    return Decision(Action.TOGETHER)


def infrastructure_failures(ledger: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Counts each run's infrastructure failures since it was last given a fresh start."""
    counts: Counter[str] = Counter()
    for entry in ledger:
        if entry["event"] == "failure" and entry.get("counts"):
            counts.update(entry.get("runs") or ())
        elif entry["event"] == "fresh-start":
            for run_id in entry["runs"]:
                counts.pop(run_id, None)
    return counts
