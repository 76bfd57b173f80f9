"""Settings shared by all tests."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from pacebench.harness import threads

# Before NumPy is imported: tests compute with one thread, as commands and workers do.
threads.use_one()
os.environ.setdefault("MPLBACKEND", "Agg")
# Runs are written so that they survive a power cut; tests need not wait for a disk each time.
MEMORY = "/dev/shm"
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    tempfile.tempdir = os.environ.setdefault("TMPDIR", MEMORY)
# Parallel workers are told a width of 80 columns, at which tables are folded.
os.environ["COLUMNS"] = "160"
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
# submitit would configure logging, and so close the streams that pytest captures.
os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")

import pytest  # noqa: E402
import typer.testing  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# Derandomised by default: a red run on one machine must be red on the next. `thorough` searches.
_common = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "print_blob": True,
}
settings.register_profile("default", max_examples=30, derandomize=True, **_common)
settings.register_profile("thorough", max_examples=500, **_common)
settings.load_profile(os.environ.get("PACEBENCH_HYPOTHESIS", "default"))

# Hundreds of tests call the command line, which typer would build from its functions each time.
vars(typer.testing)["_get_command"] = functools.cache(vars(typer.testing)["_get_command"])


@pytest.fixture
def hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Once called, the runner's substitutes take no more time: what was to happen has happened."""
    flag = tmp_path / "hurry"
    monkeypatch.setenv("WALK_AT_ONCE", str(flag))
    return flag.touch
