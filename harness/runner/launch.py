"""`run`: from a study to its results, however often it takes."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacebench.harness import threads
from pacebench.harness.errors import UserError
from pacebench.harness.records import Status, common_crash
from pacebench.harness.runner import logs
from pacebench.harness.runner.attempt import TRAIN, Accounts, Limits
from pacebench.harness.runner.coordinator import Coordinator, gone
from pacebench.harness.runner.display import Display, choose
from pacebench.harness.runner.executors import Executor
from pacebench.harness.runner.interrupt import Interrupt
from pacebench.harness.runner.leases import MISSED_BEATS, Leases
from pacebench.harness.runner.local import LocalExecutor, do_aside, kept_workers
from pacebench.harness.runner.packing import Rates, is_batched, pack
from pacebench.harness.runner.process import complete
from pacebench.harness.runner.rehearsal import rehearse
from pacebench.harness.store.provenance import made_by_other_code
from pacebench.harness.store.runs import StoredRun
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.fingerprint import other_code
from pacebench.harness.study.specs import Cell, PlannedRun, by_cell

if TYPE_CHECKING:
    from pacebench.harness.study.expand import Counts
    from pacebench.harness.study.models import Study

EXECUTORS = ("local", "ray", "slurm")


@dataclass(frozen=True)
class RunOptions:
    """Where and how a study is run; nothing in here changes a result.

    Attributes:
        executor: `local`, `ray` or `slurm`.
        workers: Batches at a time; None for all cores.
        address: Of an existing Ray cluster.
        limits: Time and memory per attempt, and the pace of the signs of life.
        slurm: submitit's parameters, such as `slurm_partition`; `cluster: local` runs its jobs as
            processes on this machine.
        share: Take runs over that another study in the same folder already has.
        retry_failed: Give runs that failed for want of infrastructure a fresh start.
        retry_crashed: Give runs that their own code crashed a fresh start, as they get anyhow when
            that code has changed.
        train: The training function, as `module:function`; what another than ours needs is not
            known, so that cells are not made once before it begins.
        batched: Says whether seeds of a cell are trained together; asks the learner by default.
        display: Who is told; None for a table in a terminal and lines elsewhere.
    """

    executor: str = "local"
    workers: int | None = None
    address: str | None = None
    limits: Limits = field(default_factory=Limits)
    slurm: Mapping[str, Any] = field(default_factory=dict)
    share: bool = True
    retry_failed: bool = False
    retry_crashed: bool = False
    train: str = TRAIN
    batched: Callable[[Cell], bool] = is_batched
    display: Display | None = None


@dataclass(frozen=True)
class RunSummary:
    """What came of a call of `run`.

    Attributes:
        total: Runs that the study asks for.
        statuses: How many ended how, by status.
        made: Runs that were made by this call's own workers.
        interrupted: Whether it was asked to stop before the end.
        workers: How many batches could run at a time.
        broken: One sentence for each cell whose every run crashed with the same exception.
    """

    root: Path
    total: int
    statuses: dict[str, int]
    made: int
    interrupted: bool
    seconds: float
    workers: int
    accounts: Accounts
    broken: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every run ended, one way or another."""
        return sum(self.statuses.values()) == self.total

    @property
    def unresolved(self) -> int:
        """Runs without an outcome of their own: not ended, or for want of infrastructure."""
        ended = sum(self.statuses.values())
        return self.total - ended + self.statuses.get(Status.INFRASTRUCTURE, 0)


def run(
    study: Study,
    *,
    results: Path | str = "results",
    options: RunOptions | None = None,
    counts: Counts | None = None,
) -> RunSummary:
    """Makes the runs of a study that are not there yet.

    Calling it again resumes: what is finished stays, what was interrupted goes on from its last
    checkpoint, and what the study has since gained is added. Several calls at once, on one machine
    or on many that share the folder, divide the work among them.

    Args:
        study: What to run.
        results: Where the folder of the study is, or is to be.
        options: Where and how to run it.
        counts: How many seeds each cell of an adaptive study has so far.

    Raises:
        UserError: A cell cannot be trained, the results folder cannot be used, or the executor is
            not available.
    """
    from pacebench.harness.study.expand import expand

    root, options = Path(results) / study.name, options or RunOptions()
    # Before the cells are made: what is wrong with an option is said at once.
    _check(options)
    plan = study.model_dump(mode="json")
    runs = expand(study, counts)
    store = RunStore(root)
    local = options.executor == "local"
    with kept_workers() if local else contextlib.nullcontext():
        if options.train == TRAIN:
            new = (run for run in runs if not store.has(run.run_id))
            rehearse(new, do_aside if local else complete)
        return make_runs(study.name, plan, runs, root, options, evaluation_hashes(runs))


def make_runs(
    name: str,
    plan: dict[str, Any],
    runs: Sequence[PlannedRun],
    root: Path,
    options: RunOptions,
    evaluated: Mapping[str, str] | None = None,
) -> RunSummary:
    """Makes some runs that are not there yet; `run` for a whole study, and what tuning calls.

    The manifest keeps `plan`, which says where the runs come from, and `evaluated`, which is from
    `evaluation_hashes`.
    """
    began = time.monotonic()
    _check(options)
    store = RunStore(root)
    before = store.manifest()
    manifest = store.extend_manifest(name, plan, runs, evaluated)
    store.ledger.append("run", executor=options.executor, plan=manifest.plan_digest)
    logs.file_orphans(
        store, (holder.facts.attempt for holder in Leases(store.root).live().values())
    )
    display = options.display or _default_display()
    for change in other_code(before.current_cells()) if before else ():
        display.say(f"Runs made by other code stay listed, and are made again: {change}.")
    # Two labels may stand for the same run.
    asked = {run.run_id: run for run in reversed(runs)}
    ids = list(dict.fromkeys(run.run_id for run in runs))
    statuses = _settled(store, ids, options, display)
    if store.ledger.unreadable:
        display.say(f"{store.ledger.unreadable} lines of the ledger are no JSON and left out.")
    missing = [asked[run_id] for run_id in ids if run_id not in statuses]
    interrupt = Interrupt()
    made: set[str] = set()
    problem, workers, accounts = "", 0, Accounts()
    try:
        if missing:
            with interrupt.listening():
                executor = _executor(options, store.root)
                workers = executor.slots
                rates = _rates(store, asked.values(), statuses)
                coordinator = Coordinator(
                    store=store,
                    manifest=manifest,
                    executor=executor,
                    display=display,
                    interrupt=interrupt,
                    limits=options.limits,
                    rates=rates,
                    train=options.train,
                    statuses=statuses,
                    made=made,
                )
                batches = pack(missing, workers, rates, options.batched)
                coordinator.accounts.preparing = workers * (time.monotonic() - began)
                coordinator.run(batches)
            problem, accounts = coordinator.problem, coordinator.accounts
    finally:
        display.close()
    if not problem and not (store.is_there() and all(map(store.has, statuses))):
        problem = gone(store.root)
    if problem:
        raise UserError(problem)
    seconds = time.monotonic() - began
    # Whatever is not accounted for is a worker that waited for us.
    accounts.waiting = max(0.0, workers * seconds - accounts.total)
    summary = RunSummary(
        root=store.root,
        total=len(ids),
        statuses=dict(Counter(statuses.values())),
        made=len(made),
        interrupted=interrupt.asked,
        seconds=seconds,
        workers=workers,
        accounts=accounts,
        broken=tuple(_broken(store, runs, statuses)),
    )
    store.ledger.append("interrupt" if interrupt.asked else "end", statuses=summary.statuses)
    return summary


def evaluation_hashes(runs: Iterable[PlannedRun]) -> dict[str, str]:
    """Returns the hash of what each cell is evaluated on, by the cell's digest."""
    from pacebench.harness.training.evaluation import evaluation_digest

    # Cells of one setup mostly share their evaluation.
    shared = functools.cache(evaluation_digest)
    cells = {run.cell.digest: run.cell for run in runs}
    return {name: shared(cell.task, cell.evaluation) for name, cell in cells.items()}


def _check(options: RunOptions) -> None:
    if options.executor not in EXECUTORS:
        raise UserError(f"no executor is called '{options.executor}'; use local, ray or slurm.")
    if options.workers is not None and options.workers < 1:
        raise UserError(f"workers: {options.workers} is not a number of processes; use 1 or more.")
    if options.address is not None and options.executor != "ray":
        raise UserError(f"--address {options.address}: only --executor ray has an address.")
    if options.slurm and options.executor != "slurm":
        raise UserError(f"--slurm {next(iter(options.slurm))}: is for --executor slurm only.")
    limits = options.limits
    if limits.expiry < MISSED_BEATS * limits.heartbeat:
        raise UserError(
            f"--expiry {limits.expiry:g}: a worker shows that it lives every {limits.heartbeat:g} "
            f"s; give it at least {MISSED_BEATS * limits.heartbeat:g} s, or set --heartbeat."
        )


def _settled(
    store: RunStore, ids: Sequence[str], options: RunOptions, display: Display
) -> dict[str, str]:
    """Returns the status of every run that needs no more work, after setting aside the bad ones."""
    good, bad = store.scan(ids)
    for run_id, reason in bad.items():
        if store.set_aside(run_id, reason) is not None:
            display.say(f"run {run_id} was set aside and will be made again: {reason}.")
    _reconcile(store, good)
    statuses = {run_id: run.status.value for run_id, run in good.items()}
    again = [run_id for run_id, run in good.items() if _wants_retry(run, options)]
    for run_id in again:
        store.reopen(run_id)
        del statuses[run_id]
    if again:
        store.ledger.append("fresh-start", runs=again)
        display.say(f"{len(again)} failed {'run' if len(again) == 1 else 'runs'} will be retried.")
    if options.share:
        for run_id in ids:
            if run_id not in statuses and (shared := store.share(run_id)) is not None:
                statuses[run_id] = shared.run.status.value
                display.say(f"run {run_id} was taken over from {shared.study}.")
    return statuses


def _rates(store: RunStore, runs: Iterable[PlannedRun], statuses: Mapping[str, str]) -> Rates:
    """Returns how fast each cell that has a finished run trained."""
    finished = (run for run in runs if statuses.get(run.run_id) == Status.OK)
    one_of_each = {run.cell.digest: run for run in finished}.values()
    found = ((run, store.read(run.run_id, files=False)) for run in one_of_each)
    return Rates(
        (run, sum(stored.record["timings"].values()) / run.cell.budget)
        for run, stored in found
        if stored
    )


def _wants_retry(run: StoredRun, options: RunOptions) -> bool:
    if run.status is Status.INFRASTRUCTURE:
        return options.retry_failed
    changed = made_by_other_code(run.record["execution"])
    return run.status is Status.CRASHED and (options.retry_crashed or changed)


def _broken(
    store: RunStore, runs: Sequence[PlannedRun], statuses: Mapping[str, str]
) -> Iterator[str]:
    """Yields a sentence for each cell whose every run crashed with the same exception."""
    for group in by_cell(runs):
        ended = [run.run_id for run in group if run.run_id in statuses]
        if {statuses[run_id] for run_id in ended} != {Status.CRASHED}:
            continue
        records = [found.record for run_id in ended if (found := store.read(run_id, files=False))]
        if common_crash((record["status"], record["reason"]) for record in records):
            said = "its only run" if len(records) == 1 else f"all {len(records)} runs"
            where = f"{group[0].label} on {group[0].cell.setup}"
            yield f"{where} is broken: {said} crashed with {records[0]['reason']}"


def _reconcile(store: RunStore, good: Mapping[str, Any]) -> None:
    """Notes runs in the ledger whose worker was killed between the result and its note."""
    endings = ("finish", "failure", "share")
    noted = {entry.get("run") for entry in store.ledger.entries() if entry["event"] in endings}
    for run_id in good.keys() - noted:
        status = good[run_id].status
        event = "finish" if status is Status.OK else "failure"
        store.ledger.append(event, run=run_id, status=status.value, found=True)


def _executor(options: RunOptions, root: Path) -> Executor:
    if options.executor == "ray":
        from pacebench.harness.runner.ray_cluster import RayExecutor

        return RayExecutor(options.workers, options.address)
    if options.executor == "slurm":
        from pacebench.harness.runner.slurm import SlurmExecutor

        parameters = dict(options.slurm)
        cluster = parameters.pop("cluster", "slurm")
        return SlurmExecutor(options.workers or 100, root, parameters, cluster)
    return LocalExecutor(options.workers or threads.available_workers())


def _default_display() -> Display:
    from rich.console import Console

    if not sys.stderr:
        return Display()
    return choose(Console(stderr=True, highlight=False))
