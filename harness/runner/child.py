"""What runs inside a worker process: reads jobs from the runner, tells it how they ended."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path
from pkgutil import resolve_name

from pydantic import TypeAdapter

from pacebench.harness.runner.attempt import Attempt, Call
from pacebench.harness.runner.worker import call, execute

_JOB: TypeAdapter[Attempt | Call] = TypeAdapter(Attempt | Call)


def main(results: int) -> None:
    """Does one job after another, until the runner closes our standard input."""
    die_with_parent(signal.SIGKILL)
    _offer_to_the_kernel()
    _end_with_lost_threads()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: queue.SimpleQueue[Attempt | Call] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    faulthandler.enable()
    while True:
        job = jobs.get()
        _limit_memory(job.limits.memory)
        # The clock of the time limit is that of training: a slow import is no slow method. What is
        # wrong with the import is `execute`'s business.
        with contextlib.suppress(BaseException):
            resolve_name(job.function)
        _tell(results, {"started": job.name})
        try:
            outcome = call(job) if isinstance(job, Call) else execute(job, stop)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            _tell(results, {"outcome": outcome.model_dump(mode="json")})
        except BaseException:  # noqa: BLE001 - the machine may refuse anything, a thread for one
            traceback.print_exc()
            # Not by leaving: Python would wait for the threads that a method has left behind.
            os._exit(1)


def _read_jobs(jobs: queue.SimpleQueue[Attempt | Call]) -> None:
    for line in sys.stdin:
        jobs.put(_JOB.validate_json(line))
    # The runner is gone, and nobody would hear of a result: leave the run to its successor.
    os._exit(0)


def _tell(results: int, message: dict[str, object]) -> None:
    os.write(results, json.dumps(message).encode() + b"\n")


def _limit_memory(limit: int | None) -> None:
    # So that a single huge allocation fails by itself, before the watch over us can see it.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = resource.RLIM_INFINITY if limit is None else limit
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _offer_to_the_kernel() -> None:
    # When the machine runs out of memory, a worker is to go, and not its runner.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _end_with_lost_threads() -> None:
    """Ends the worker when memory runs out where no code can be told.

    A thread that has none left as it begins is gone before `Thread.start` hears of it, and whoever
    started it would wait for ever.
    """
    tell = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        tell(lost)
        if isinstance(lost.exc_value, MemoryError):
            os._exit(1)

    sys.unraisablehook = hook


def die_with_parent(how: signal.Signals) -> None:
    """Asks Linux for a signal when the process that started this one is gone.

    Code that holds the interpreter's lock would keep `_read_jobs` from noticing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, how)


if __name__ == "__main__":
    main(int(sys.argv[1]))
