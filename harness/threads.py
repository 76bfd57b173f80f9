"""One thread per process: work is spread over processes, and libraries must not spread it again.

Two libraries that each start a thread per core make the processes fight, and the order of a
threaded sum is not the same twice.
"""

from __future__ import annotations

import os

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


def environment() -> dict[str, str]:
    """Returns the environment of a process whose numerical libraries use one thread."""
    return {**os.environ, **ONE_THREAD}


def use_one() -> None:
    """Limits this process, unless its user chose otherwise; before any library is imported."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
