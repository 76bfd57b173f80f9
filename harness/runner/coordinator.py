"""The runner's loop: hand out batches, see what came of them, hand out what is left."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pacebench.harness.records import Status
from pacebench.harness.runner import logs, snapshot
from pacebench.harness.runner.attempt import (
    TRAIN,
    Accounts,
    Attempt,
    AttemptOutcome,
    Ended,
    Ending,
    Limits,
)
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.executors import Executor
from pacebench.harness.runner.interrupt import Interrupt
from pacebench.harness.runner.leases import Holder, Leases, StaleLease
from pacebench.harness.runner.packing import Batch, Rates
from pacebench.harness.runner.policy import Action, decide, infrastructure_failures
from pacebench.harness.store.files import StorageError, make_folder
from pacebench.harness.store.ledger import now
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.runs import BadRunError, failed
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import PlannedRun, by_cell

_TICK = 0.5
_LOOK_EVERY = 1.0
# Seconds that an executor has to say itself what became of a worker whose leases are stale.
_GRACE = 10.0


@dataclass
class Coordinator:
    """Runs the batches of a study to the end, whatever happens to the workers.

    Attributes:
        rates: What is known of how fast cells train.
        train: The training function, as `module:function`.
        statuses: How each run ended, by id.
        made: Ids of the runs that were made by this runner's own attempts.
        problem: Why the study had to be stopped, if it had to.
    """

    store: RunStore
    manifest: Manifest
    executor: Executor
    display: Display
    interrupt: Interrupt
    limits: Limits = field(default_factory=Limits)
    rates: Rates = field(default_factory=Rates)
    train: str = TRAIN
    statuses: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    problem: str = ""
    accounts: Accounts = field(default_factory=Accounts)

    def __post_init__(self) -> None:
        self._leases = Leases(self.store.root, self.limits.expiry, self.limits.heartbeat)
        self._failures = infrastructure_failures(self.store.ledger.entries())
        self._given_up: dict[str, tuple[Status, str]] = {}
        self._queue: list[Batch] = []
        self._elsewhere: dict[str, PlannedRun] = {}
        self._active: dict[str, Attempt] = {}
        self._attempts: set[str] = set()
        self._saved: dict[str, int] = {}
        self._silent: dict[str, float] = {}
        self._next_look = 0.0
        self._stopping = False
        attempts = make_folder(self.store.root / "attempts")
        self._stop_file = attempts / f"{uuid.uuid4().hex}.stop"

    def run(self, batches: Sequence[Batch]) -> None:
        """Runs batches until every one of their runs ended, or until asked to stop.

        Raises:
            StorageError: The results folder cannot be written.
        """
        self._queue = list(batches)
        self._saved = snapshot.read_saved(self.store, [run.run_id for b in batches for run in b])
        try:
            while self._active or ((self._queue or self._elsewhere) and not self._stopping):
                self._heed_interrupt()
                if self.interrupt.at_once or self._is_gone():
                    return
                self._hand_out()
                for attempt, outcome in self._poll():
                    if self._is_gone():
                        return
                    self._settle(attempt, outcome)
                self._look_around()
        finally:
            self.executor.close()
            with contextlib.suppress(OSError, StorageError):
                self._stop_file.unlink(missing_ok=True)
                self._leases.sweep(self.store.has)
            self._show()

    def _is_gone(self) -> bool:
        """Notices that the results folder was deleted: what is written now would be all of it."""
        if not self.store.is_there():
            self.problem = gone(self.store.root)
        return self.problem == gone(self.store.root)

    def _poll(self) -> list[Ended]:
        """Waits for a batch to end, and accounts for the workers that have none meanwhile."""
        began = time.monotonic()
        ended = self.executor.poll(_TICK)
        if not self._active:
            # Everything left is in other hands.
            time.sleep(_TICK / 5)
        free = max(0, self.executor.slots - len(self._active))
        self.accounts.idle += free * (time.monotonic() - began)
        return ended

    def _heed_interrupt(self) -> None:
        if self._stopping or not (self.interrupt.asked or self.problem):
            return
        self._stopping = True
        with contextlib.suppress(OSError):
            self._stop_file.touch()
        self.executor.stop()
        if self._active and not self.problem:
            self.display.say("Stopping at the next checkpoint; Ctrl-C again stops at once.")

    def _hand_out(self) -> None:
        if self._stopping or not self._queue or len(self._active) >= self.executor.slots:
            return
        # Longest first, by what is known by now about the speed of each kind of cell.
        self._queue.sort(key=self.rates.cost)
        held, stale = self._leases.split()
        while self._queue and len(self._active) < self.executor.slots:
            if batch := self._free_part(self._queue.pop(), held):
                self._submit(batch, stale)

    def _free_part(self, batch: Batch, held: dict[str, Holder]) -> Batch:
        """Returns the runs of a batch that are there to be made, and deals with the others."""
        free = []
        for run in batch:
            if self.store.has(run.run_id):
                self._take_note(run)
            elif run.run_id in held:
                self._elsewhere[run.run_id] = run
            elif run.run_id in self._given_up:
                self._record_failure(run)
            else:
                free.append(run)
        return free

    def _submit(self, batch: Batch, stale: dict[str, StaleLease]) -> None:
        attempt = Attempt(
            root=str(self.store.root),
            runs=tuple(batch),
            failures=tuple(self._failures[run.run_id] for run in batch),
            stale=tuple(stale[run.run_id] for run in batch if run.run_id in stale),
            function=self.train,
            limits=self.limits,
            stop_file=str(self._stop_file),
        )
        self._active[attempt.name] = attempt
        self._attempts.add(attempt.name)
        self.executor.submit(attempt)

    def _settle(self, attempt: Attempt, outcome: AttemptOutcome) -> None:
        del self._active[attempt.name]
        self.accounts.add(outcome)
        self._elsewhere |= {run.run_id: run for run in attempt.runs if run.run_id in outcome.busy}
        ours = [run for run in attempt.runs if run.run_id not in outcome.busy]
        left = [run for run in ours if not self._take_note(run, say=False)]
        self._saved |= snapshot.read_saved(self.store, [run.run_id for run in left])
        said = outcome.reason or outcome.ending.value
        logs.file_log(self.store, attempt.name, [run.run_id for run in ours], said)
        for run in ours:
            self._tell_failure(run)
        if outcome.ending is Ending.DONE and len(ours) == len(attempt.runs) and not left:
            self.rates.measured(ours, outcome.seconds)
        if outcome.ending is Ending.STORAGE:
            self.problem = outcome.reason
        if left and outcome.ending is Ending.DONE:
            outcome = outcome.model_copy(update={"reason": "what it recorded cannot be read back"})
        if left:
            self._dispose(left, outcome)

    def _dispose(self, left: Batch, outcome: AttemptOutcome) -> None:
        ids = [run.run_id for run in left]
        worst = max(self._failures[run_id] for run_id in ids)
        decision = decide(outcome.ending, len(left), worst)
        if decision.counts:
            self._failures.update(ids)
        if outcome.ending not in (Ending.STOPPED, Ending.STORAGE):
            self.store.ledger.append(
                "failure",
                runs=ids,
                ending=outcome.ending.value,
                reason=outcome.reason,
                counts=decision.counts,
            )
            if decision.action is not Action.GIVE_UP:
                self.store.ledger.append("retry", runs=ids, how=decision.action.value)
                self.display.say(
                    f"{_where(left)}: {outcome.reason}; {len(left)} "
                    f"{'run' if len(left) == 1 else 'runs'} will be tried again"
                    f"{', each alone' if decision.action is Action.ALONE and left[1:] else ''}."
                )
        if decision.action is Action.GIVE_UP:
            self._given_up.update(dict.fromkeys(ids, (decision.status, outcome.reason)))
        self._queue += [left] if decision.action is Action.TOGETHER else [[run] for run in left]

    def _record_failure(self, run: PlannedRun) -> None:
        """Records a run that was given up, once its last worker is known to be gone."""
        run_id = run.run_id
        status, reason = self._given_up[run_id]
        last = self._leases.holder(run_id)
        lease = self._leases.acquire(run_id)
        if lease is None:
            self._elsewhere[run_id] = run
            return
        attempts = self._failures[run_id] if status is Status.INFRASTRUCTURE else 1
        try:
            execution = {"attempts": attempts, "finished": now()}
            self.made.add(run_id)
            result = failed(run.seed, status, reason, env_steps=last.steps if last else 0)
            self.store.write(run, result, execution)
        finally:
            lease.release()
        self.store.ledger.append("failure", run=run_id, status=status.value, reason=reason)
        self._take_note(run)

    def _take_note(self, run: PlannedRun, *, say: bool = True) -> bool:
        """Verifies the result of a run; returns whether there is one."""
        run_id = run.run_id
        try:
            # What is decoded here to be verified need not be decoded for the report.
            found = self.store.read_tables(run_id)
        except BadRunError as error:
            self.store.set_aside(run_id, str(error))
            self.display.say(f"run {run_id} was set aside: {error}.")
            if say:
                self._queue.append([run])
            return False
        if found is None:
            return False
        self.statuses[run_id] = found.status.value
        if found.record["execution"].get("attempt") in self._attempts:
            self.made.add(run_id)
        if say:
            self._tell_failure(run)
        return True

    def _tell_failure(self, run: PlannedRun) -> None:
        status = self.statuses.get(run.run_id, Status.OK)
        if status == Status.OK:
            return
        found = self.store.read(run.run_id)
        reason = found.record["reason"] if found else ""
        self.display.say(f"{_where([run])}, run {run.run_id}: {status} ({reason}).")
        for text in logs.tail(self.store, run.run_id).splitlines():
            self.display.say(f"    {text}")

    def _look_around(self) -> None:
        """Sees what other runners have done, and takes over from those that died."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_EVERY
        live, stale = self._leases.split()
        self._give_up_silent(live, stale)
        freed = []
        for run_id, run in list(self._elsewhere.items()):
            if self.store.has(run_id):
                del self._elsewhere[run_id]
                self._take_note(run)
            elif run_id not in live:
                freed.append(self._elsewhere.pop(run_id))
        if freed:
            # Whoever had them may have had bad luck with them, which counts.
            self._failures |= infrastructure_failures(self.store.ledger.entries())
            self._queue += self._regroup(freed)
        self._show(live)

    def _give_up_silent(self, live: dict[str, Holder], stale: dict[str, StaleLease]) -> None:
        """Gives up attempts whose worker's leases have gone stale without a word of its end."""
        for attempt in list(self._active.values()):
            ids = {run.run_id for run in attempt.runs}
            if not ids & stale.keys() or ids & live.keys():
                self._silent.pop(attempt.name, None)
                continue
            since = self._silent.setdefault(attempt.name, time.monotonic())
            if time.monotonic() - since > _GRACE and self.executor.abandon(attempt):
                reason = "the worker has shown no sign of life, as when its machine is lost"
                self._settle(attempt, AttemptOutcome(ending=Ending.DIED, reason=reason))

    def _regroup(self, runs: Batch) -> list[Batch]:
        """Puts runs of one cell together again, but for those that failed before."""
        alone = [[run] for run in runs if self._failures[run.run_id]]
        return alone + by_cell(run for run in runs if not self._failures[run.run_id])

    def _show(self, live: dict[str, Holder] | None = None) -> None:
        holders = self._leases.live() if live is None else live
        self.display.update(snapshot.take(self.manifest, self.statuses, holders, self._saved))


def gone(root: Path) -> str:
    """Says that results vanished while a study ran."""
    return (
        f"{root}: its manifest or records were deleted or moved away while the study ran; put them "
        "back, or run the same command again to make what was lost."
    )


def _where(runs: Batch) -> str:
    indices = ", ".join(str(run.seed.index) for run in runs)
    several = "s" * (len(runs) > 1)
    return f"{runs[0].label} on {runs[0].cell.setup}, seed{several} {indices}"
