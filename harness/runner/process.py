"""A worker process and the watch over it: output, time, memory, exit.

Every executor runs its batches in such a process, wherever it runs them, so that a crash means the
same everywhere. It is a plain `python -m`, not a fork: nothing of the runner's state leaks in, and
a script that calls `harness.run` needs no main guard.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from pacebench.harness import threads
from pacebench.harness.runner.attempt import Attempt, AttemptOutcome, Call, Ending
from pacebench.harness.runner.output import WorkerOutput

_START_SECONDS = 300.0
_LOOK_EVERY = 0.25


class WorkerProcess:
    """A process that does one job after another, and never more than one at a time."""

    def __init__(self) -> None:
        self.attempt: Attempt | Call | None = None
        self._results, write_end = os.pipe()
        os.set_blocking(self._results, False)
        self._output = WorkerOutput()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pacebench.harness.runner.child", str(write_end)],
                stdin=subprocess.PIPE,
                stdout=self._output.write_end,
                stderr=self._output.write_end,
                pass_fds=(write_end,),
                env=threads.environment(),
                # Ctrl-C in a terminal goes to the whole group; only the runner is to hear it.
                start_new_session=True,
            )
        except BaseException:
            os.close(self._results)
            self._output.close()
            raise
        finally:
            os.close(write_end)
            os.close(self._output.write_end)
        self._watched = psutil.Process(self._process.pid)
        self._buffer = b""
        self._started: float | None = None
        self._submitted = self._looked = 0.0
        self._stopped: float | None = None
        self._stop_wanted = False

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is something to `check`."""
        return self._results

    def submit(self, attempt: Attempt | Call) -> None:
        """Starts an attempt; its end is heard of through `check`."""
        assert self.attempt is None
        assert self._process.stdin is not None
        self.attempt, self._started, self._submitted = attempt, None, time.monotonic()
        self._looked, self._stopped, self._stop_wanted = 0.0, None, False
        self._output.begin(Path(attempt.root) / attempt.log)
        # A process that died in the meantime is noticed by `check`.
        with contextlib.suppress(OSError):
            self._process.stdin.write(attempt.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()

    def check(self) -> AttemptOutcome | None:
        """Returns how the attempt ended, or None while it goes on; enforces the limits."""
        assert self.attempt is not None
        for message in self._messages():
            if "started" in message:
                self._started = time.monotonic()
                if self._stop_wanted:
                    self.stop()
            else:
                return self._end(AttemptOutcome.model_validate(message["outcome"]))
        if self._process.poll() is not None:
            started, said = self._started is not None, self._output.end()
            reason = _how(self._process.returncode)
            # Later on, the last line it printed need not have to do with its end.
            reason = reason if started or not said else f"{reason}: {said}"
            return self._end(AttemptOutcome(ending=Ending.DIED, reason=reason))
        return self._over_limits()

    def _over_limits(self) -> AttemptOutcome | None:
        assert self.attempt is not None
        now = time.monotonic()
        if self._started is None:
            if now - self._submitted > _START_SECONDS:
                return self._kill(Ending.DIED, f"did not start within {_START_SECONDS:.0f} s")
            return None
        seconds = self.attempt.seconds
        if seconds is not None and now - self._started > seconds:
            return self._kill(
                Ending.TIMEOUT, f"still running after its time limit of {seconds:g} s"
            )
        if now - self._looked > _LOOK_EVERY:
            self._looked = now
            with contextlib.suppress(psutil.Error):
                return self._look()
        return None

    def _look(self) -> AttemptOutcome | None:
        """Looks at what only the operating system knows: memory, and a process that stands."""
        assert self.attempt is not None
        limits = self.attempt.limits
        if limits.memory is not None and (used := self._watched.memory_info().rss) > limits.memory:
            said = f"used {used / 2**20:.0f} MiB of {limits.memory / 2**20:.0f} MiB of memory"
            return self._kill(Ending.MEMORY, said)
        if self._watched.status() != psutil.STATUS_STOPPED:
            self._stopped = None
        elif self._stopped is None:
            self._stopped = time.monotonic()
        elif time.monotonic() - self._stopped > limits.expiry:
            # To others it is dead by now, and it would never end by itself.
            said = f"the worker was suspended for {limits.expiry:g} s, as SIGSTOP does"
            return self._kill(Ending.DIED, said)
        return None

    def complete(self, job: Attempt | Call) -> AttemptOutcome:
        """Does a job, and returns when and how it ended."""
        self.submit(job)
        while (outcome := self.check()) is None:
            select.select([self._results], [], [], 0.5)
        return outcome

    def stop(self) -> None:
        """Asks for a stop at the next checkpoint."""
        # A process that is still starting cannot hear the signal yet: it would die of it.
        self._stop_wanted = self._started is None
        if self._stop_wanted:
            return
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the process at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._output.close()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(OSError):
            os.close(self._results)
        self._results = -1

    def _kill(self, ending: Ending, reason: str) -> AttemptOutcome:
        self._process.kill()
        self._process.wait()
        return self._end(AttemptOutcome(ending=ending, reason=reason))

    def _end(self, outcome: AttemptOutcome) -> AttemptOutcome:
        self.attempt = None
        self._output.end()
        starting = (self._started or time.monotonic()) - self._submitted
        return outcome.model_copy(update={"starting": starting})

    def _messages(self) -> list[dict[str, object]]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._results, 65536):
                self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]


def complete(job: Attempt | Call) -> AttemptOutcome:
    """Does one job in a fresh worker process."""
    process = WorkerProcess()
    try:
        return process.complete(job)
    finally:
        process.close()


def supervise(task_json: str) -> str:
    """Makes one attempt in a fresh worker process; what Ray and Slurm run on their nodes."""
    return complete(Attempt.model_validate_json(task_json)).model_dump_json()


def _how(code: int) -> str:
    if code >= 0:
        return f"the worker exited with code {code} without a result"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    killer = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{killer}"
