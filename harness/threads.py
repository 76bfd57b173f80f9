"""One thread per process: work is spread over processes, not over threads.

Libraries that each start a thread per core make the processes compete for the cores, and the order
of a threaded sum is not the same twice.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)


def available_workers() -> int:
    """Returns the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment() -> dict[str, str]:
    """Returns the environment of a process whose numerical libraries use one thread."""
    return {**os.environ, **ONE_THREAD}


def use_one() -> None:
    """Limits this process to one thread, unless its user chose otherwise.

    Must be called before any numerical library is imported.
    """
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Limits this process to one thread for a while, whatever it was started with."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
