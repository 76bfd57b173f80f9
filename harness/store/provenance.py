"""Where a result comes from: code, versions, machine."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# The libraries whose version may change the bits of a result.
RESULT_PACKAGES = ("numpy", "scipy", "torch", "gymnasium", "mujoco", "stable-baselines3")


# And those that a report is made with.
REPORT_PACKAGES = ("numpy", "scipy", "statsmodels", "pandas", "rliable")


@functools.cache
def package_versions(packages: tuple[str, ...] = RESULT_PACKAGES) -> dict[str, str]:
    """Returns the versions of Python, pacebench and some libraries."""
    found = {"python": platform.python_version()}
    for package in ("pacebench", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


@functools.cache
def sources() -> str:
    """Returns a hash of our own code that training runs through, committed or not."""
    home = Path(__file__).resolve().parents[2]
    rooms = ("curricula", "envs", "harness/learners", "harness/training")
    files = sorted(path for room in rooms for path in (home / room).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(home).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def made_by_other_code(made: Mapping[str, Any]) -> bool:
    """Says whether the code or the libraries have changed since a record was made.

    Where it does not say what code made it, they count as unchanged.
    """
    if "sources" not in made:
        return False
    return made["sources"] != sources() or made.get("versions") != package_versions()


@functools.cache
def git_state() -> tuple[str | None, bool | None]:
    """Returns the revision of our source and whether it was changed since; None outside git.

    A repository that merely has an environment with us in it is not ours: it must know this file.
    Changes under results/ do not count: running a study changes them.
    """
    own = Path(__file__).resolve()
    source = own.parents[2]
    known = _git(source, "ls-files", "--error-unmatch", "--", str(own)) is not None
    revision = _git(source, "rev-parse", "HEAD") if known else None
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
    """Returns what the machine is: processor, cores, memory, system, kernels of matrix products."""
    import psutil

    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "threads": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "kernels": kernels(),
    }


@functools.cache
def kernels() -> str:
    """Returns the kernels that NumPy's and SciPy's BLAS have chosen; others may round otherwise."""
    import numpy  # noqa: F401 - only what is loaded is found
    from threadpoolctl import threadpool_info

    libraries = (found for found in threadpool_info() if found["user_api"] == "blas")
    return ", ".join(sorted({str(found.get("architecture")) for found in libraries}))


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


def code_words(made: Mapping[str, Any]) -> str:
    """Returns the code of a record in words: its revision, and whether it had been changed."""
    revision = made.get("revision")
    if not revision:
        return "not under version control"
    return f"{revision}{' with uncommitted changes' if made.get('dirty') else ''}"


def version_words(made: Mapping[str, Any]) -> str:
    """Returns the versions in a record, in words."""
    return ", ".join(f"{name} {number}" for name, number in made.get("versions", {}).items())


def hardware_words(made: Mapping[str, Any]) -> str:
    """Returns the machine of a record in words."""
    facts = made.get("hardware", {})
    memory = facts.get("memory_bytes")
    parts = [
        str(facts.get("processor", "")),
        f"{facts.get('cores')} cores" if facts.get("cores") else "",
        f"{memory / 2**30:.0f} GiB" if memory else "",
        str(facts.get("system", "")),
        f"{kernels} kernels" if (kernels := facts.get("kernels")) else "",
    ]
    return ", ".join(part for part in parts if part)


def provenance() -> dict[str, Any]:
    """Returns host, versions, git revision and dirty flag, sources and hardware, as plain JSON."""
    revision, dirty = git_state()
    return {
        "host": hostname(),
        "versions": dict(package_versions()),
        "revision": revision,
        "dirty": dirty,
        "sources": sources(),
        "hardware": dict(hardware()),
    }
