"""How far a study is, from the store alone: who is done, who works, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pacebench.harness.records import Status
from pacebench.harness.runner.leases import EXPIRY, MISSED_BEATS, Holder, Leases
from pacebench.harness.store.checkpoints import checkpointed_steps
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.runs import BadRunError
from pacebench.harness.store.store import RunStore


@dataclass(frozen=True)
class Progress:
    """The state of one cell, or of the whole study.

    Attributes:
        done: Runs that ended well.
        running: Runs that a live process holds.
        failed: Runs that ended otherwise, by status.
        steps: Environment steps done: of finished runs, of running ones, and of interrupted ones
            up to their last checkpoint.
        rate: Environment steps per second of the running ones.
        seconds_left: Steps left over rate; None while nothing runs.
    """

    label: str
    setup: str
    total: int
    done: int
    running: int
    failed: dict[str, int]
    steps: int
    steps_total: int
    rate: float
    seconds_left: float | None

    @property
    def failures(self) -> int:
        """Runs that ended otherwise than well."""
        return sum(self.failed.values())

    @property
    def waiting(self) -> int:
        """Runs that nobody has begun, or that wait for another attempt."""
        return self.total - self.done - self.running - self.failures

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON."""
        return {**asdict(self), "waiting": self.waiting}


@dataclass(frozen=True)
class Snapshot:
    """The state of a study at one moment."""

    study: str
    cells: tuple[Progress, ...]
    whole: Progress

    @property
    def complete(self) -> bool:
        """Whether every run ended, one way or another."""
        return self.whole.done + self.whole.failures == self.whole.total


def take(
    manifest: Manifest,
    statuses: Mapping[str, str],
    live: Mapping[str, Holder],
    saved: Mapping[str, int],
) -> Snapshot:
    """Returns the state of the current runs of a study.

    By run id are known: the status of those that ended, the leases of those that are worked on, and
    the environment steps up to the last checkpoint of those that were interrupted.
    """
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for entry in manifest.current():
        cell = manifest.cells[entry.cell]
        groups.setdefault((entry.label, cell.setup), {})[entry.run_id] = cell.budget
    cells = tuple(
        _progress(label, setup, budgets, statuses, live, saved)
        for (label, setup), budgets in groups.items()
    )
    # Two labels may share a run, which is to be counted once.
    everything = {k: v for budgets in groups.values() for k, v in budgets.items()}
    whole = _progress("", "", everything, statuses, live, saved)
    return Snapshot(manifest.study, cells, whole)


def _progress(
    label: str,
    setup: str,
    budgets: Mapping[str, int],
    statuses: Mapping[str, str],
    live: Mapping[str, Holder],
    saved: Mapping[str, int],
) -> Progress:
    failed: dict[str, int] = {}
    done = running = steps = left = 0
    rate = 0.0
    for run_id, budget in budgets.items():
        status = statuses.get(run_id)
        if status is not None:
            steps += budget
            done += status == Status.OK
            if status != Status.OK:
                failed[status] = failed.get(status, 0) + 1
        elif (holder := live.get(run_id)) is not None:
            running += 1
            steps += min(holder.steps, budget)
            left += max(0, budget - holder.steps)
            elapsed = holder.beat - (holder.facts.started or holder.beat)
            rate += holder.fresh / elapsed if elapsed > 0 else 0.0
        else:
            kept = min(saved.get(run_id, 0), budget)
            steps += kept
            left += budget - kept
    return Progress(
        label=label,
        setup=setup,
        total=len(budgets),
        done=done,
        running=running,
        failed=failed,
        steps=steps,
        steps_total=sum(budgets.values()),
        rate=rate,
        seconds_left=left / rate if rate > 0 else (0.0 if left == 0 else None),
    )


def read_statuses(store: RunStore, run_ids: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the status of every run that ended, and what is wrong with every bad one.

    Only `run.json` is read, so that this is quick enough to be repeated.
    """
    statuses: dict[str, str] = {}
    bad: dict[str, str] = {}
    for run_id in dict.fromkeys(run_ids):
        try:
            run = store.read(run_id, files=False)
        except BadRunError as error:
            bad[run_id] = str(error)
            continue
        if run is not None:
            statuses[run_id] = run.status.value
    return statuses, bad


def read_saved(store: RunStore, run_ids: Iterable[str]) -> dict[str, int]:
    """Returns the environment steps that the checkpoints of unfinished runs hold."""
    return {run_id: checkpointed_steps(store.checkpoint_path(run_id), run_id) for run_id in run_ids}


def look(store: RunStore, manifest: Manifest) -> tuple[Snapshot, dict[str, str]]:
    """Returns the state of a study and its bad runs, from one look at the store."""
    statuses, bad = read_statuses(store, (entry.run_id for entry in manifest.current()))
    # One look cannot see whether a lease is still touched, so here the clocks must do.
    live = {
        run_id: holder
        for run_id, holder in Leases(store.root).live().items()
        if time.time() - holder.beat < max(EXPIRY, MISSED_BEATS * holder.facts.heartbeat)
    }
    known = statuses.keys() | live.keys()
    rest = [entry.run_id for entry in manifest.current() if entry.run_id not in known]
    return take(manifest, statuses, live, read_saved(store, rest)), bad
