"""One attempt at a batch, inside the process that does it.

The worker holds the leases, because it is the worker that must not do anything twice: under Slurm
it outlives the runner that asked for it.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pkgutil import resolve_name

from pacebench.harness.records import Hooks, RunResult, Status
from pacebench.harness.runner.attempt import Attempt, AttemptOutcome, Call, Ending
from pacebench.harness.runner.hooks import WorkerHooks
from pacebench.harness.runner.leases import LeaseLostError
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.files import (
    StorageError,
    describe,
    is_machine_error,
    is_out_of_memory,
    is_out_of_space,
)
from pacebench.harness.store.runs import failed
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import Cell

Train = Callable[[Cell, Sequence[RunSeed], Hooks], list[RunResult]]


def call(job: Call) -> AttemptOutcome:
    """Calls a function, and says whether it returned."""
    try:
        resolve_name(job.function)(**job.arguments)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the caller is to hear of it
        traceback.print_exc()
        ending = Ending.MEMORY if is_out_of_memory(error) else Ending.RAISED
        return AttemptOutcome(ending=ending, reason=describe(error))
    return AttemptOutcome(ending=Ending.DONE)


def execute(attempt: Attempt, stop: threading.Event | None = None) -> AttemptOutcome:
    """Makes the runs of an attempt that nobody else holds or has made.

    The process around us sets `stop` to have it stop at the next checkpoint.
    """
    store = RunStore(attempt.root)
    hooks = WorkerHooks(attempt, store, stop or threading.Event())
    started = time.perf_counter()
    try:
        train: Train = resolve_name(attempt.function)
    except Exception as error:  # noqa: BLE001 - an installation can be broken in any way
        traceback.print_exc()
        reason = f"{attempt.function} cannot be imported: {describe(error)}"
        return AttemptOutcome(ending=Ending.DIED, reason=reason)
    if hooks.should_stop():
        # An attempt that waited for a free core while the study was stopped.
        return AttemptOutcome(ending=Ending.STOPPED, reason="stopped before it began")
    try:
        hooks.acquire()
        seeds = [run.seed for run in hooks.held()]
        for result in train(attempt.runs[0].cell, seeds, hooks) if seeds else []:
            hooks.finished(result)
        hooks.flush()
        outcome = _returned(hooks)
    except LeaseLostError as error:
        outcome = AttemptOutcome(ending=Ending.LOST, reason=str(error))
    except StorageError as error:
        outcome = _not_stored(hooks, error)
    except BaseException as error:  # noqa: BLE001 - whatever a method raises is its failure
        traceback.print_exc()
        outcome = _raised(hooks, error)
    finally:
        hooks.close()
    seconds = time.perf_counter() - started
    return outcome.model_copy(
        update={"busy": tuple(hooks.busy), "seconds": seconds, "storing": hooks.seconds}
    )


def _returned(hooks: WorkerHooks) -> AttemptOutcome:
    left = hooks.held()
    if not left:
        return AttemptOutcome(ending=Ending.DONE)
    if hooks.should_stop():
        return AttemptOutcome(ending=Ending.STOPPED, reason="stopped at a checkpoint")
    return _raised(hooks, RuntimeError("training returned without a result"))


def _not_stored(hooks: WorkerHooks, error: StorageError) -> AttemptOutcome:
    try:
        # Whoever followed a worker that stood still has removed the files it was writing.
        hooks.check()
    except LeaseLostError as lost:
        return AttemptOutcome(ending=Ending.LOST, reason=str(lost))
    return AttemptOutcome(ending=Ending.STORAGE, reason=str(error))


def _raised(hooks: WorkerHooks, error: BaseException) -> AttemptOutcome:
    reason = describe(error)
    if is_out_of_memory(error):
        return AttemptOutcome(ending=Ending.MEMORY, reason=f"out of memory ({reason})")
    if is_out_of_space(error):
        return AttemptOutcome(ending=Ending.STORAGE, reason=f"{hooks.attempt.root}: {reason}")
    if is_machine_error(error):
        return AttemptOutcome(ending=Ending.DIED, reason=reason)
    try:
        hooks.flush()
        left = hooks.held()
        if len(left) == 1:
            # Alone, the run itself is to blame; in a batch it takes another attempt to know which.
            hooks.record(failed(left[0].seed, Status.CRASHED, reason, hooks.steps_of(left[0])))
    except LeaseLostError as second:
        return AttemptOutcome(ending=Ending.LOST, reason=str(second))
    except StorageError as second:
        return _not_stored(hooks, second)
    return AttemptOutcome(ending=Ending.RAISED, reason=reason)
