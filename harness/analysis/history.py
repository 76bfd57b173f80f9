"""What a study's ledger says: who looked when, what was known by then, what had to be repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pacebench.harness.records import Status
from pacebench.harness.store.ledger import Ledger

REPORT_EVENT = "report"
SHARE_EVENT = "share"
# Events after which a run's outcome is known.
_ENDS = ("finish", "failure")


@dataclass(frozen=True)
class History:
    """What the study's diary says.

    Attributes:
        looks: Numbers of runs per cell at which the data were looked at before.
        reports: How many reports were made before this one.
        retries: Runs that were started again after an infrastructure failure.
        quarantined: Runs that were set aside as damaged.
        ended: When the outcome of a run was first known, by run.
        sources: The study that a run was taken over from, by run.
        verdicts: The verdicts of the last report under each code of the analysis, by its hash.
    """

    looks: tuple[int, ...] = ()
    reports: int = 0
    retries: int = 0
    quarantined: int = 0
    ended: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


def history_of(ledger: Ledger) -> History:
    """Returns what the diary says about looks, ends, retries and damaged runs."""
    counts: Counter[str] = Counter()
    looks: set[int] = set()
    ended: dict[str, str] = {}
    sources: dict[str, str] = {}
    verdicts: dict[str, list[dict[str, Any]]] = {}
    # One by one: a ledger may be larger than the memory.
    for entry in ledger.entries():
        event = entry["event"]
        counts[event] += 1
        if event in _ENDS and entry.get("status") != Status.INFRASTRUCTURE:
            ended.setdefault(str(entry.get("run")), entry["time"])
        elif event == REPORT_EVENT:
            looks.update(known for known in entry["runs_known"] if known > 0)
            if "verdicts" in entry:
                verdicts[str(entry["analysis"])] = entry["verdicts"]
        elif event == SHARE_EVENT:
            sources[entry["run"]] = entry["source"]
    return History(
        looks=tuple(sorted(looks)),
        reports=counts[REPORT_EVENT],
        retries=counts["retry"],
        quarantined=counts["quarantine"],
        ended=ended,
        sources=sources,
        verdicts=verdicts,
    )
