"""Leases: which process works on which run, so that nothing is run twice.

A lease is a file `leases/<run-id>.<generation>`. Whoever creates the next generation owns the run:
the file system lets exactly one do it. An owner shows that it lives by touching its file. A lease
is stale when its process is gone from this machine, or when nobody touched it for a while *by the
observer's own clock*, because the clocks of two machines need not agree. Only a stale or released
lease may be followed by the next generation, and an owner that was followed finds out before it
writes anything.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pacebench.harness.store.files import make_folder, storage
from pacebench.harness.store.provenance import hostname

HEARTBEAT = 2.0
EXPIRY = 60.0

_WIDTH = 20  # digits of each of the two progress counters, which are written in place


class LeaseLostError(Exception):
    """Another process took the run over, because this one looked dead."""


@functools.cache
def machine() -> str:
    """Names the set of processes among which a process id means something."""
    boot, space = "", ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    return f"{hostname()} {boot} {space}"


@dataclass(frozen=True)
class Holder:
    """Who holds a run, as far as its lease file says.

    Attributes:
        run_id: The run.
        generation: How often the run changed hands.
        facts: What the owner wrote: machine, pid, attempt, when it started and from which step.
        steps: Environment steps done, as of the last heartbeat.
        fresh: Those of them that were done in this attempt.
        beat: Time of the last heartbeat by the clock of the owner's file system.
        token: Changes with every heartbeat.
    """

    run_id: str
    generation: int
    facts: dict[str, Any]
    steps: int
    fresh: int
    beat: float
    token: tuple[int, int]


@dataclass
class Lease:
    """A lease that this process holds."""

    run_id: str
    generation: int
    path: Path
    _descriptor: int = field(repr=False)
    _offset: int = field(repr=False)

    def beat(self, steps: int, fresh: int) -> None:
        """Shows that the owner lives, and how far it got: in all, and in this attempt.

        The open file is written, not the name: once somebody else owns the name, an owner that was
        thought dead must not touch it.
        """
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _counters(steps, fresh), self._offset)
            os.utime(self._descriptor)

    def check(self) -> None:
        """Makes sure that the lease is still held.

        Raises:
            LeaseLostError: It is not.
        """
        try:
            gone = os.fstat(self._descriptor).st_nlink == 0
        except OSError:  # ESTALE: the file was removed from another machine.
            gone = True
        newest = max(_generations(self.path.parent, self.run_id), default=0)
        if gone or newest > self.generation:
            raise LeaseLostError(f"run {self.run_id} was taken over by another runner")

    def release(self) -> None:
        """Gives the run back; harmless when it was lost."""
        with contextlib.suppress(OSError):
            # The name may stand for somebody else's lease by now.
            if os.stat(self.path).st_ino == os.fstat(self._descriptor).st_ino:
                self.path.unlink()
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        # The number will soon stand for another file, which a late heartbeat must not write to.
        self._descriptor = -1


class Leases:
    """The leases of one study.

    Args:
        root: The study's results folder.
        expiry: Seconds without a heartbeat after which a lease is stale.
    """

    def __init__(self, root: Path, expiry: float = EXPIRY) -> None:
        self.folder = Path(root) / "leases"
        self.expiry = expiry
        # Since when, on our own clock, a lease has looked the way it does.
        self._seen: dict[tuple[str, int], tuple[tuple[int, int], float]] = {}

    def acquire(self, run_id: str, **facts: Any) -> Lease | None:
        """Takes a run that nobody holds.

        Returns:
            The lease, or None where somebody holds the run.

        Raises:
            StorageError: The lease cannot be written.
        """
        current = self.holder(run_id)
        if current is not None and not self.is_stale(current):
            return None
        generation = current.generation + 1 if current else 1
        lease = self._create(run_id, generation, facts)
        if lease is None:
            return None
        # A process that listed the folder long ago may have made an old generation anew.
        generations = _generations(self.folder, run_id)
        if max(generations) > generation:
            lease.release()
            return None
        for old in generations:
            if old < generation:
                (self.folder / f"{run_id}.{old}").unlink(missing_ok=True)
        return lease

    def _create(self, run_id: str, generation: int, facts: dict[str, Any]) -> Lease | None:
        make_folder(self.folder)
        path = self.folder / f"{run_id}.{generation}"
        me = psutil.Process()
        said = {
            **facts,
            "machine": machine(),
            "host": hostname(),
            "pid": me.pid,
            "created": me.create_time(),
            "started": time.time(),
        }
        head = json.dumps(said).encode() + b"\n"
        temporary = self.folder / f".{uuid.uuid4().hex}.tmp"
        with storage(path):
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.write(descriptor, head + _counters(0, 0))
                # A link appears with its whole content, and only where there is none yet.
                os.link(temporary, path)
            except FileExistsError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            finally:
                temporary.unlink(missing_ok=True)
        return Lease(run_id, generation, path, descriptor, len(head))

    def holders(self) -> dict[str, Holder]:
        """Returns the newest lease of every run that has one, stale or not."""
        newest: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                run_id, _, generation = name.partition(".")
                if run_id and generation.isdigit():
                    newest[run_id] = max(newest.get(run_id, 0), int(generation))
        found = (self._read(run_id, generation) for run_id, generation in newest.items())
        return {holder.run_id: holder for holder in found if holder is not None}

    def holder(self, run_id: str) -> Holder | None:
        """Returns the newest lease of one run, stale or not."""
        newest = max(_generations(self.folder, run_id), default=0)
        return self._read(run_id, newest) if newest else None

    def live(self) -> dict[str, Holder]:
        """Returns the runs that are being worked on."""
        return {k: holder for k, holder in self.holders().items() if not self.is_stale(holder)}

    def sweep(self, finished: Callable[[str], bool]) -> None:
        """Removes what killed processes left: leases of finished runs, and half-made ones."""
        for run_id, holder in self.holders().items():
            if finished(run_id) and self.is_stale(holder):
                (self.folder / f"{run_id}.{holder.generation}").unlink(missing_ok=True)
        for leftover in self.folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - leftover.stat().st_mtime > self.expiry:
                    leftover.unlink()

    def _read(self, run_id: str, generation: int) -> Holder | None:
        path = self.folder / f"{run_id}.{generation}"
        try:
            state = os.stat(path)
            head, _, tail = path.read_bytes().partition(b"\n")
            facts, steps, fresh = json.loads(head), int(tail[:_WIDTH]), int(tail[_WIDTH:])
        except FileNotFoundError:
            return None
        except ValueError:
            # Unreadable, so nothing is known of its owner; it expires by time.
            facts, steps, fresh = {}, 0, 0
        token = (state.st_mtime_ns, steps)
        return Holder(run_id, generation, facts, steps, fresh, state.st_mtime, token)

    def is_stale(self, holder: Holder) -> bool:
        """Says whether the owner of a lease is gone."""
        if holder.facts.get("machine") == machine() and not _alive(holder.facts):
            return True
        now = time.monotonic()
        key = (holder.run_id, holder.generation)
        token, since = self._seen.get(key, (None, now))
        if token != holder.token:
            since = now
        self._seen[key] = (holder.token, since)
        return now - since > self.expiry


def _counters(steps: int, fresh: int) -> bytes:
    return f"{steps:0{_WIDTH}d}{fresh:0{_WIDTH}d}".encode()


def _generations(folder: Path, run_id: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    prefix = f"{run_id}."
    endings = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return [int(ending) for ending in endings if ending.isdigit()]


def _alive(facts: dict[str, Any]) -> bool:
    try:
        process = psutil.Process(int(facts["pid"]))
        # A process id is used again after a while; the time of birth tells the two apart. A zombie
        # is dead, its parent just has not heard.
        same = bool(abs(process.create_time() - float(facts["created"])) < 2.0)
        return same and bool(process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, KeyError, TypeError, ValueError):
        return False
    except psutil.Error:
        return True
