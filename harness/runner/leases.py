"""Leases: which process works on which run, so that nothing is run twice.

A lease is a file `leases/<run-id>.<generation>`. Whoever creates the next generation owns the run:
the file system lets exactly one do it. An owner shows that it lives by touching its file. A lease
is stale when its process is gone from this machine, or when nobody touched it for a while *by the
observer's own clock*, because the clocks of two machines need not agree. Only a stale or released
lease may be followed by the next generation, and an owner that was followed finds out before it
writes anything. Whoever watched a lease for so long may tell another process, which need not watch
it again: a `StaleLease` holds for as long as the lease looks the way it was seen.
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
from pydantic import BaseModel, ConfigDict, Field

from pacebench.harness.store.files import make_folder, storage
from pacebench.harness.store.provenance import hostname
from pacebench.harness.store.reading import BadFileError, parse_json, read_file
from pacebench.harness.study.specs import Frozen

HEARTBEAT = 2.0
EXPIRY = 60.0
# So many heartbeats must have been missed before an owner counts as gone, whatever the expiry.
MISSED_BEATS = 5
LONGEST_HEARTBEAT = 600.0

_LARGEST = 65536  # bytes of a lease
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


class LeaseFacts(BaseModel):
    """What an owner wrote about itself; further keys are kept as they are.

    Attributes:
        machine: Where its process id means something.
        host: The machine's name, for people.
        born: When its process began, in a unit that no step of the clock changes.
        started: Wall time at which it took the lease, for people.
        heartbeat: Seconds between two signs of life that it promises.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    machine: str = ""
    host: str = ""
    pid: int | None = Field(default=None, ge=1)
    born: float | None = None
    started: float | None = None
    heartbeat: float = Field(default=HEARTBEAT, gt=0, le=LONGEST_HEARTBEAT)
    attempt: str = ""


class StaleLease(Frozen):
    """A lease that somebody has watched, in vain, for longer than its owner may be silent.

    Attributes:
        generation: How often the run had changed hands.
        token: What the lease looked like all the while.
    """

    run_id: str
    generation: int
    token: tuple[int, int]


@dataclass(frozen=True)
class Holder:
    """Who holds a run, as far as its lease file says.

    Attributes:
        generation: How often the run changed hands.
        steps: Environment steps done, as of the last heartbeat.
        fresh: Those of them that were done in this attempt.
        beat: Time of the last heartbeat by the clock of the owner's file system.
        token: Changes with every heartbeat.
    """

    run_id: str
    generation: int
    facts: LeaseFacts
    steps: int
    fresh: int
    beat: float
    token: tuple[int, int]

    def as_stale(self) -> StaleLease:
        """Returns what a process that saw this lease expire tells another."""
        return StaleLease(run_id=self.run_id, generation=self.generation, token=self.token)


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
        expiry: Seconds without a heartbeat after which a lease is stale; an owner that promises
            fewer heartbeats is given more.
        heartbeat: What owners of leases made here promise.
    """

    def __init__(self, root: Path, expiry: float = EXPIRY, heartbeat: float = HEARTBEAT) -> None:
        self.folder = Path(root) / "leases"
        self.expiry, self.heartbeat = expiry, heartbeat
        # Since when, on our own clock, a lease has looked the way it does.
        self._seen: dict[tuple[str, int], tuple[tuple[int, int], float]] = {}

    def acquire(self, run_id: str, stale: StaleLease | None = None, **facts: Any) -> Lease | None:
        """Takes a run; returns None where somebody holds it.

        `stale` is a lease of it that another process saw expire, `facts` what the new one says.

        Raises:
            StorageError: The lease cannot be written.
        """
        current = self.holder(run_id)
        if current is not None and not (current.as_stale() == stale or self.is_stale(current)):
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
                # What cannot be removed, such as a folder of that name, is outdone all the same.
                with contextlib.suppress(OSError):
                    (self.folder / f"{run_id}.{old}").unlink()
        return lease

    def _create(self, run_id: str, generation: int, facts: dict[str, Any]) -> Lease | None:
        make_folder(self.folder)
        path = self.folder / f"{run_id}.{generation}"
        said = {
            **facts,
            "machine": machine(),
            "host": hostname(),
            "pid": os.getpid(),
            "born": process_birth(os.getpid()),
            "started": time.time(),
            "heartbeat": self.heartbeat,
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
        for name in _names(self.folder):
            run_id, _, generation = name.partition(".")
            if run_id and _is_number(generation):
                newest[run_id] = max(newest.get(run_id, 0), int(generation))
        found = (self._read(run_id, generation) for run_id, generation in newest.items())
        return {holder.run_id: holder for holder in found if holder is not None}

    def holder(self, run_id: str) -> Holder | None:
        """Returns the newest lease of one run, stale or not."""
        newest = max(_generations(self.folder, run_id), default=0)
        return self._read(run_id, newest) if newest else None

    def split(self) -> tuple[dict[str, Holder], dict[str, StaleLease]]:
        """Returns the leases whose owners live, and those whose owners are gone."""
        live, stale = {}, {}
        for run_id, holder in self.holders().items():
            if self.is_stale(holder):
                stale[run_id] = holder.as_stale()
            else:
                live[run_id] = holder
        return live, stale

    def live(self) -> dict[str, Holder]:
        """Returns the runs that are being worked on."""
        return self.split()[0]

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
        facts, steps, fresh = LeaseFacts(), 0, 0
        try:
            state = os.lstat(path)
            head, _, tail = read_file(path, _LARGEST).partition(b"\n")
            facts = LeaseFacts.model_validate(parse_json(head, path))
            steps, fresh = (int(n) for n in (tail[:_WIDTH], tail[_WIDTH:]) if n.isdigit())
        except FileNotFoundError:
            return None
        except (BadFileError, ValueError):
            pass  # Nothing is known of its owner, so it expires by time.
        token = (state.st_mtime_ns, steps)
        return Holder(run_id, generation, facts, steps, fresh, state.st_mtime, token)

    def is_stale(self, holder: Holder) -> bool:
        """Says whether the owner of a lease is gone."""
        if holder.facts.machine == machine() and not _alive(holder.facts):
            return True
        now = time.monotonic()
        key = (holder.run_id, holder.generation)
        token, since = self._seen.get(key, (None, now))
        if token != holder.token:
            since = now
        self._seen[key] = (holder.token, since)
        promised = holder.facts.heartbeat if holder.facts.machine else 0.0
        return now - since > max(self.expiry, MISSED_BEATS * promised)


def _counters(steps: int, fresh: int) -> bytes:
    return f"{steps:0{_WIDTH}d}{fresh:0{_WIDTH}d}".encode()


def _names(folder: Path) -> list[str]:
    with storage(folder):
        return os.listdir(folder) if folder.exists() else []


def _generations(folder: Path, run_id: str) -> list[int]:
    prefix = f"{run_id}."
    endings = (name[len(prefix) :] for name in _names(folder) if name.startswith(prefix))
    return [int(ending) for ending in endings if _is_number(ending)]


def _is_number(text: str) -> bool:
    # Longer numbers are nobody's: no run changes hands so often.
    return text.isascii() and text.isdecimal() and len(text) <= 9


def process_birth(pid: int) -> float:
    """Returns when a process began, so that a process id used again is told apart.

    On Linux in ticks since the machine started, which no step of the wall clock changes.

    Raises:
        psutil.NoSuchProcess: There is no such process, or it is a zombie.
    """
    try:
        # The name in brackets may contain anything, brackets too.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        state, born = fields[0], float(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            raise psutil.NoSuchProcess(pid) from None
        process = psutil.Process(pid)
        state, born = process.status(), process.create_time()
    if state in ("Z", "X", psutil.STATUS_ZOMBIE):
        raise psutil.NoSuchProcess(pid)
    return born


def _alive(facts: LeaseFacts) -> bool:
    if facts.pid is None:
        return True  # It does not say who it is, so it expires by time.
    try:
        born = process_birth(facts.pid)
    except psutil.NoSuchProcess:
        return False
    except (psutil.Error, OSError):
        return True
    return facts.born is None or abs(born - facts.born) < 1.0
