"""A fresh process for a measurement.

It is an interpreter of its own, so that nothing of the caller's state is measured too; it reads
what to do from its input and writes what it found to its output. A limit of processor time needs
nobody to watch over it: `use_at_most` asks the kernel to end the process, whatever it is doing.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from pacebench.harness import threads
from pacebench.harness.errors import UserError
from pacebench.harness.overhead.machine import pin

Result = TypeVar("Result")


class WorkerError(UserError):
    """A measuring process failed."""


class OutOfTimeError(WorkerError):
    """A measuring process used up its time."""


def results_of(
    function: Callable[..., Iterator[Result]], *arguments: object, cpu: int = 0
) -> Iterator[Result]:
    """Yields what `function(*arguments)` yields in a fresh process with one thread.

    Args:
        function: Of a module that the process can import.
        arguments: What it is given; pickled, as its results are.
        cpu: The process is kept on the `cpu`-th processor.

    Raises:
        OutOfTimeError: It used up its time.
        WorkerError: It failed.
    """
    with subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=threads.environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((function, arguments, cpu), process.stdin)
            process.stdin.close()
            while (result := _next(process.stdout)) is not None:
                if isinstance(result, WorkerError):
                    raise result
                yield result
        except BaseException:
            process.kill()
            raise
    if process.returncode in (-signal.SIGPROF, -signal.SIGALRM):
        raise OutOfTimeError("a measuring process used up its time; run the command again.")
    if process.returncode != 0:
        raise WorkerError(f"a measuring process ended with code {process.returncode}; run again.")


def _next(results: IO[bytes]) -> Any:
    try:
        return pickle.load(results)
    except EOFError:
        return None


def use_at_most(seconds: float) -> None:
    """Ends this process once it has used so much more processor time; 0 lifts the limit.

    On a busy machine a process may wait long for its turn, which is not the method's doing. Under
    such a limit Linux reads `process_time` by the tick only; `thread_time` stays exact.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def last_line() -> str:
    """Returns the exception that is being handled, in one line."""
    return traceback.format_exc(limit=0).strip().splitlines()[-1]


def main() -> None:
    """Does in a fresh process what `results_of` asks for."""
    # What a curriculum prints must not get between the results.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function, arguments, cpu = pickle.load(sys.stdin.buffer)
    pin(cpu)
    try:
        for result in function(*arguments):
            pickle.dump(result, results)
            results.flush()
    except Exception:  # noqa: BLE001 - whatever it is, the caller is to hear of it
        said = f"a measuring process failed: {last_line()}; repair that and run the command again."
        pickle.dump(WorkerError(said), results)
        results.flush()
