"""What connects training to the store while a worker makes a batch."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from pacebench.harness.records import Checkpoint, Hooks, RunResult, Status
from pacebench.harness.runner.attempt import Attempt
from pacebench.harness.runner.leases import Lease, Leases
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.checkpoints import BadCheckpointError, load_checkpoint, save_checkpoint
from pacebench.harness.store.files import make_folder, remove_temporaries, storage
from pacebench.harness.store.ledger import now
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.specs import PlannedRun

P = ParamSpec("P")
T = TypeVar("T")
_DURABLE_EVERY = 60.0
_WRITERS = 8


def _timed(method: Callable[Concatenate[WorkerHooks, P], T]) -> Callable[..., T]:
    """Adds the time inside a method to its object's `seconds`."""

    @functools.wraps(method)
    def timed(self: WorkerHooks, *args: P.args, **kwargs: P.kwargs) -> T:
        began = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - began

    return timed


class WorkerHooks(Hooks):
    """Connects training to the store: checkpoints, results, signs of life.

    Attributes:
        busy: Ids of runs that somebody else holds or has finished.
        seconds: Time spent in here, which is not the method's.
    """

    def __init__(self, attempt: Attempt, store: RunStore, stop: threading.Event) -> None:
        self.busy: list[str] = []
        self.seconds = 0.0
        self.attempt, self._store, self._stop = attempt, store, stop
        self._leases: dict[RunSeed, tuple[PlannedRun, Lease]] = {}
        self._resumed: dict[RunSeed, int] = {}
        self._durable: dict[RunSeed, float] = {}
        self._born = time.monotonic()
        self._done = 0
        self._started = now()
        self._next_look = 0.0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_WRITERS)
        self._writing: dict[RunSeed, Future[None]] = {}
        self._closing = threading.Event()
        self._pulse = threading.Thread(target=self._beat_on, daemon=True)

    @_timed
    def acquire(self) -> None:
        """Takes the runs of the attempt that are free.

        Raises:
            StorageError: A lease or the ledger cannot be written.
        """
        limits = self.attempt.limits
        leases = Leases(self._store.root, limits.expiry, limits.heartbeat)
        stale = {lease.run_id: lease for lease in self.attempt.stale}
        begun = []
        for run, failures in zip(self.attempt.runs, self.attempt.failures, strict=True):
            run_id = run.run_id
            facts: dict[str, Any] = {
                "label": run.label,
                "setup": run.cell.setup,
                "seed": run.seed.index,
                "attempt": self.attempt.name,
            }
            lease = leases.acquire(run_id, stale.get(run_id), **facts)
            if lease is None or self._store.has(run_id):
                self.busy.append(run_id)
                if lease is not None:  # finished between the runner's look and ours
                    lease.release()
                continue
            self._leases[run.seed] = (run, lease)
            folder = make_folder(self._store.folder(run_id))
            with storage(folder):
                remove_temporaries(folder)
            begun.append(
                {
                    "event": "start",
                    "run": run_id,
                    **facts,
                    "failures": failures,
                    "generation": lease.generation,
                }
            )
        if begun:
            self._store.ledger.append_all(begun)
        self._pulse.start()

    def held(self) -> list[PlannedRun]:
        """Returns the runs that are ours and unfinished."""
        with self._lock:
            return [run for run, _ in self._leases.values() if run.seed not in self._writing]

    def check(self) -> None:
        """Makes sure that what we hold is still ours.

        Raises:
            LeaseLostError: Another runner took a run over.
        """
        with self._lock:
            for _, lease in self._leases.values():
                lease.check()

    def steps_of(self, run: PlannedRun) -> int:
        """Returns the environment steps that a run is known to have consumed."""
        return self._resumed.get(run.seed, 0) + self._share()

    def close(self) -> None:
        """Gives back what is still held."""
        self._pool.shutdown()
        self._closing.set()
        if self._pulse.is_alive():
            self._pulse.join()
        with self._lock:
            for _, lease in self._leases.values():
                lease.release()

    @_timed
    def load(self, seed: RunSeed) -> Checkpoint | None:
        """Returns the latest usable checkpoint; one that is not usable is set aside."""
        run, _ = self._leases[seed]
        path = self._store.checkpoint_path(run.run_id)
        try:
            checkpoint = load_checkpoint(path, run.run_id)
        except BadCheckpointError as error:
            self.refuse(seed, str(error))
            return None
        if checkpoint is not None:
            self._resumed[seed] = checkpoint.step
        return checkpoint

    def refuse(self, seed: RunSeed, reason: str) -> None:
        """Sets the checkpoint of a run aside; the run starts afresh."""
        run_id = self._leases[seed][0].run_id
        path = self._store.checkpoint_path(run_id)
        aside = make_folder(self._store.root / "quarantine")
        target = aside / f"{run_id}-{self.attempt.name}-{path.name}"
        with storage(path):
            os.rename(path, target)
        self._resumed.pop(seed, None)
        self._store.ledger.append(
            "quarantine", run=run_id, reason=f"{path.name}: {reason}", path=str(target.name)
        )

    @_timed
    def save(self, seed: RunSeed, checkpoint: Checkpoint) -> None:
        """Keeps a checkpoint, if the run is still ours."""
        run, lease = self._leases[seed]
        lease.check()
        # A power cut may cost a minute; waiting for the disk each time would cost more.
        durable = time.monotonic() - self._durable.get(seed, self._born) > _DURABLE_EVERY
        path = self._store.checkpoint_path(run.run_id)
        save_checkpoint(path, run.run_id, checkpoint, durable=durable)
        if durable:
            self._durable[seed] = time.monotonic()

    def progress(self, env_steps: int) -> None:
        """Counts environment steps, over all seeds of the batch."""
        self._done += env_steps

    @_timed
    def finished(self, result: RunResult) -> None:
        """Begins to write the result of a run; a second time it does nothing.

        The disk is waited for in `flush`, for all seeds of a batch together: they mostly finish at
        the same time.
        """
        if result.seed in self._leases and result.seed not in self._writing:
            self._writing[result.seed] = self._pool.submit(self.record, result)

    @_timed
    def flush(self) -> None:
        """Waits until every result is on the disk.

        Raises:
            StorageError: One could not be written; its run is unfinished.
            LeaseLostError: One is not ours any more.
        """
        pending, self._writing = self._writing, {}
        errors = [error for error in (done.exception() for done in pending.values()) if error]
        if errors:
            raise errors[0]

    def record(self, result: RunResult) -> None:
        """Writes the result of a run and gives its lease back, in the thread that calls it.

        Raises:
            StorageError: It cannot be written.
            LeaseLostError: The run is not ours any more.
        """
        run, lease = self._leases[result.seed]
        lease.check()
        failures = self.attempt.failures[self.attempt.runs.index(run)]
        execution = {
            "attempt": self.attempt.name,
            "attempts": failures + 1,
            "batch": len(self.attempt.runs),
            "started": self._started,
            "finished": now(),
        }
        self._store.write(run, result, execution)
        with self._lock:
            del self._leases[result.seed]
            lease.release()
        self._store.ledger.append(
            "finish" if result.status is Status.OK else "failure",
            run=run.run_id,
            status=result.status.value,
            reason=result.reason,
            attempt=self.attempt.name,
        )

    def should_stop(self) -> bool:
        """Says whether to stop at the next checkpoint."""
        # Training may ask thousands of times a second, and the file may be on another machine.
        if not self._stop.is_set() and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + 1.0
            if Path(self.attempt.stop_file).exists():
                self._stop.set()
        return self._stop.is_set()

    def _share(self) -> int:
        return self._done // max(1, len(self.attempt.runs) - len(self.busy))

    def _beat_on(self) -> None:
        while not self._closing.wait(self.attempt.limits.heartbeat):
            with self._lock:
                fresh = self._share()
                for seed, (_, lease) in self._leases.items():
                    lease.beat(self._resumed.get(seed, 0) + fresh, fresh)
