"""The runner's loop: hand out batches, see what came of them, hand out what is left."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pacebench.harness.records import Status
from pacebench.harness.runner import logs, snapshot
from pacebench.harness.runner.accounts import Accounts
from pacebench.harness.runner.display import Display
from pacebench.harness.runner.executors import Executor
from pacebench.harness.runner.interrupt import Interrupt
from pacebench.harness.runner.leases import Holder, Leases
from pacebench.harness.runner.packing import Batch
from pacebench.harness.runner.policy import Action, decide, infrastructure_failures
from pacebench.harness.runner.task import TRAIN, Ended, Ending, Limits, Outcome, Task
from pacebench.harness.store.files import make_folder
from pacebench.harness.store.ledger import now
from pacebench.harness.store.manifest import Manifest
from pacebench.harness.store.runs import BadRunError, failed
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import Run

_TICK = 0.5
_LOOK_EVERY = 1.0


@dataclass
class Coordinator:
    """Runs the batches of a study to the end, whatever happens to the workers.

    Attributes:
        store: Where results go.
        manifest: The list of runs.
        executor: Where batches run.
        display: Who is told.
        interrupt: Whether we were asked to stop.
        limits: What an attempt may use.
        train: The training function, as `module:function`.
        statuses: How each run ended, by id.
        problem: Why the study had to be stopped, if it had to.
        accounts: Where the workers' time went.
    """

    store: RunStore
    manifest: Manifest
    executor: Executor
    display: Display
    interrupt: Interrupt
    limits: Limits = field(default_factory=Limits)
    train: str = TRAIN
    statuses: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    accounts: Accounts = field(default_factory=Accounts)

    def __post_init__(self) -> None:
        self._leases = Leases(self.store.root, self.limits.expiry)
        self._failures = infrastructure_failures(self.store.ledger.read())
        self._given_up: dict[str, tuple[Status, str]] = {}
        self._queue: list[Batch] = []
        self._elsewhere: dict[str, Batch] = {}
        self._active: dict[str, Task] = {}
        self._rates: dict[tuple[str, str, str], float] = {}
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
        try:
            while self._active or ((self._queue or self._elsewhere) and not self._stopping):
                self._heed_interrupt()
                if self.interrupt.at_once:
                    return
                self._hand_out()
                for ended in self._poll():
                    self._settle(ended)
                self._look_around()
        finally:
            self.executor.close()
            with contextlib.suppress(OSError):
                self._stop_file.unlink(missing_ok=True)
                self._leases.sweep(self.store.has)
            self._show()

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
        while not self._stopping and self._queue and len(self._active) < self.executor.slots:
            # Longest first, by what is known by now about the speed of each kind of cell.
            self._queue.sort(key=lambda batch: batch.cost(self._rate(batch)))
            batch = self._free_part(self._queue.pop())
            if batch is not None:
                self._submit(batch)

    def _free_part(self, batch: Batch) -> Batch | None:
        """Returns the runs of a batch that are there to be made, and deals with the others."""
        free = []
        held = self._leases.live()
        for seed in batch.seeds:
            run = Run(cell=batch.cell, seed=seed)
            run_id = run.run_id()
            if self.store.has(run_id):
                self._take_note(Batch(batch.label, batch.cell, (seed,)), run_id)
            elif run_id in held:
                self._elsewhere[run_id] = Batch(batch.label, batch.cell, (seed,))
            elif run_id in self._given_up:
                self._record_failure(batch, run)
            else:
                free.append(seed)
        return Batch(batch.label, batch.cell, tuple(free)) if free else None

    def _submit(self, batch: Batch) -> None:
        ids = [Run(cell=batch.cell, seed=seed).run_id() for seed in batch.seeds]
        task = Task(
            root=str(self.store.root),
            label=batch.label,
            cell=batch.cell,
            seeds=batch.seeds,
            failures=tuple(self._failures[run_id] for run_id in ids),
            train=self.train,
            limits=self.limits,
            stop_file=str(self._stop_file),
        )
        self._active[task.attempt] = task
        self.executor.submit(task)

    def _settle(self, ended: Ended) -> None:
        task, outcome = ended.task, ended.outcome
        del self._active[task.attempt]
        self.accounts.add(outcome)
        batch = Batch(task.label, task.cell, task.seeds)
        ours, left = [], []
        for run in task.runs():
            run_id = run.run_id()
            if run_id in outcome.busy:
                self._elsewhere[run_id] = Batch(batch.label, batch.cell, (run.seed,))
                continue
            ours.append(run_id)
            if not self._take_note(Batch(batch.label, batch.cell, (run.seed,)), run_id, say=False):
                left.append(run)
        logs.file_log(self.store, task.attempt, ours, outcome.reason or outcome.ending.value)
        for run_id in ours:
            self._tell_failure(batch, run_id)
        self._learn_rate(task, outcome, len(ours) - len(left))
        if outcome.ending is Ending.STORAGE:
            self.problem = outcome.reason
        if left and outcome.ending is Ending.DONE:
            outcome = outcome.model_copy(update={"reason": "what it recorded cannot be read back"})
        if left:
            self._dispose(batch, left, outcome)

    def _dispose(self, batch: Batch, left: list[Run], outcome: Outcome) -> None:
        ids = [run.run_id() for run in left]
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
                    f"{_where(batch)}: {outcome.reason}; {len(left)} "
                    f"{'run' if len(left) == 1 else 'runs'} will be tried again"
                    f"{', each alone' if decision.action is Action.ALONE and left[1:] else ''}."
                )
        if decision.action is Action.GIVE_UP:
            self._given_up.update(dict.fromkeys(ids, (decision.status, outcome.reason)))
        seeds = tuple(run.seed for run in left)
        if decision.action is Action.TOGETHER:
            self._queue.append(Batch(batch.label, batch.cell, seeds))
        else:
            self._queue += [Batch(batch.label, batch.cell, (seed,)) for seed in seeds]

    def _record_failure(self, batch: Batch, run: Run) -> None:
        """Records a run that was given up, once its last worker is known to be gone."""
        run_id = run.run_id()
        status, reason = self._given_up[run_id]
        last = self._leases.holder(run_id)
        lease = self._leases.acquire(run_id)
        if lease is None:
            self._elsewhere[run_id] = Batch(batch.label, batch.cell, (run.seed,))
            return
        attempts = self._failures[run_id] if status is Status.INFRASTRUCTURE else 1
        try:
            execution = {"attempts": attempts, "finished": now()}
            result = failed(run, status, reason, env_steps=last.steps if last else 0)
            self.store.write(run, result, execution)
        finally:
            lease.release()
        self.store.ledger.append("failure", run=run_id, status=status.value, reason=reason)
        self._take_note(Batch(batch.label, batch.cell, (run.seed,)), run_id)

    def _take_note(self, single: Batch, run_id: str, *, say: bool = True) -> bool:
        """Verifies the result of a run; returns whether there is one."""
        try:
            found = self.store.read(run_id)
        except BadRunError as error:
            self.store.set_aside(run_id, str(error))
            self.display.say(f"run {run_id} was set aside: {error}.")
            if say:
                self._queue.append(single)
            return False
        if found is None:
            return False
        self.statuses[run_id] = found.status.value
        if say:
            self._tell_failure(single, run_id)
        return True

    def _tell_failure(self, batch: Batch, run_id: str) -> None:
        if self.statuses.get(run_id, Status.OK) == Status.OK:
            return
        found = self.store.read(run_id)
        reason = found.record["reason"] if found else ""
        self.display.say(f"{_where(batch)}, run {run_id}: {self.statuses[run_id]} ({reason}).")
        for text in logs.tail(self.store, run_id).splitlines():
            self.display.say(f"    {text}")

    def _look_around(self) -> None:
        """Sees what other runners have done, and takes over from those that died."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_EVERY
        live = self._leases.live()
        freed = []
        for run_id, single in list(self._elsewhere.items()):
            if self.store.has(run_id):
                del self._elsewhere[run_id]
                self._take_note(single, run_id)
            elif run_id not in live:
                freed.append(self._elsewhere.pop(run_id))
        if freed:
            # Whoever had them may have had bad luck with them, which counts.
            self._failures |= infrastructure_failures(self.store.ledger.read())
            self._queue += self._regroup(freed)
        self._show(live)

    def _regroup(self, singles: Iterable[Batch]) -> list[Batch]:
        """Puts runs of one cell together again, but for those that failed before."""
        groups: dict[tuple[str, ...], list[Batch]] = defaultdict(list)
        for single in singles:
            run_id = Run(cell=single.cell, seed=single.seeds[0]).run_id()
            alone = (run_id,) if self._failures[run_id] else ()
            groups[single.label, single.cell.digest(), *alone].append(single)
        return [
            Batch(group[0].label, group[0].cell, tuple(single.seeds[0] for single in group))
            for group in groups.values()
        ]

    def _show(self, live: dict[str, Holder] | None = None) -> None:
        holders = self._leases.live() if live is None else live
        self.display.update(snapshot.take(self.manifest, self.statuses, holders))

    def _rate(self, batch: Batch) -> float:
        known = self._rates.get(_kind(batch))
        if known is not None:
            return known
        return sum(self._rates.values()) / len(self._rates) if self._rates else 1.0

    def _learn_rate(self, task: Task, outcome: Outcome, finished: int) -> None:
        if outcome.ending is Ending.DONE and finished == len(task.seeds):
            batch = Batch(task.label, task.cell, task.seeds)
            self._rates[_kind(batch)] = outcome.seconds / batch.cost()


def _kind(batch: Batch) -> tuple[str, str, str]:
    return batch.cell.setup, batch.cell.learner.name, batch.cell.curriculum.name


def _where(batch: Batch) -> str:
    indices = ", ".join(str(seed.index) for seed in batch.seeds)
    return f"{batch.label} on {batch.cell.setup}, seed{'s' * (len(batch.seeds) > 1)} {indices}"
