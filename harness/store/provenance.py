"""Where a result comes from: code, versions, machine."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# The libraries whose version may change the bits of a result.
RESULT_PACKAGES = ("numpy", "scipy", "torch", "gymnasium", "mujoco", "stable-baselines3")


@functools.cache
def package_versions() -> dict[str, str]:
    """Returns the versions of Python, pacebench and every library that may change results."""
    found = {"python": platform.python_version()}
    for package in ("pacebench", *RESULT_PACKAGES):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


@functools.cache
def git_state() -> tuple[str | None, bool | None]:
    """Returns the revision of our source and whether it was changed since; None outside git.

    Changes under results/ do not count: running a study changes them.
    """
    source = Path(__file__).resolve().parents[2]
    revision = _git(source, "rev-parse", "HEAD")
    if revision is None:
        return None, None
    changes = _git(source, "status", "--porcelain", "-uno", "--", ".", ":!results")
    return revision, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    # Optional locks are refused: a read must not make somebody else's commit fail.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@functools.cache
def hardware() -> dict[str, Any]:
    """Returns what the machine is: processor, cores, memory, operating system."""
    import psutil

    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "threads": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@functools.cache
def hostname() -> str:
    """Returns the machine's name."""
    return socket.gethostname()


def provenance() -> dict[str, Any]:
    """Returns host, versions, git revision and dirty flag, and hardware, as plain JSON."""
    revision, dirty = git_state()
    return {
        "host": hostname(),
        "versions": dict(package_versions()),
        "revision": revision,
        "dirty": dirty,
        "hardware": dict(hardware()),
    }
