"""Everything that can happen to a study, at once: kills, suspensions, odd leases, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pacebench.harness.runner.leases import Holder, Leases
from tests.end_to_end.torment import kill, may_fail, workers

EXPIRY = 2.0
MOST_RUNNERS = 3
FULL = "No space left on device"

# Thirty and two, in random order.
FAULTS = {
    "worker killed": 9,
    "runner killed": 6,
    "lease of another machine": 4,
    "worker suspended": 5,
    "runner joins": 3,
    "runner with a stepped clock joins": 3,
    "disk full": 2,
}


@contextlib.contextmanager
def small_disk(folder: Path, flag: Path) -> Iterator[Callable[[bool], None]]:
    """A disk that can be filled and freed: real where one may be mounted, else pretended.

    Yields:
        Fills it, or frees it.
    """
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and not subprocess.run(command, capture_output=True).returncode

    def fill(full: bool) -> None:
        ballast = folder / "ballast" if mounted else flag
        if not full:
            ballast.unlink()
            return
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while mounted:
                file.write(bytes(4096))

    try:
        yield fill
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@dataclass
class Torture:
    """Runs a study with up to three runners and does everything in `FAULTS` to it.

    Attributes:
        start: Starts a runner whose clock is so many seconds off.
        root: The results folder.
        fill: Fills the disk, or frees it.
        hurry: Lets the study take no more time.
        rng: Draws who suffers.
        counts: How often each fault was done.
    """

    start: Callable[[float], subprocess.Popen[str]]
    root: Path
    fill: Callable[[bool], None]
    hurry: Callable[[], None]
    rng: np.random.Generator
    counts: Counter[str] = field(default_factory=Counter)
    _runners: list[subprocess.Popen[str]] = field(default_factory=list)
    _failures: Counter[str] = field(default_factory=Counter)
    _suspended: dict[int, float] = field(default_factory=dict)

    def run(self) -> None:
        """Does everything, then lets the study finish."""
        todo = self.rng.permutation([name for name, n in FAULTS.items() for _ in range(n)])
        try:
            for name in todo:
                self._until(lambda name=name: self._do(str(name)))
                self.counts[str(name)] += 1
                time.sleep(float(self.rng.uniform(0.0, 0.3)))
            self.hurry()
            self._until(lambda: not self._suspended)
            self._until(self._finished, seconds=300.0)
        finally:
            for pid in self._suspended:
                _signal(pid, signal.SIGCONT)
            for runner in self._runners:
                runner.kill()

    def _until(self, done: Callable[[], bool], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while True:
            self._tend()
            if done():
                return
            assert time.monotonic() < end, f"nothing happened any more after {self.counts}"
            time.sleep(0.03)

    def _tend(self) -> None:
        """Wakes who was suspended for long enough, and keeps a runner running."""
        for pid, since in list(self._suspended.items()):
            if time.monotonic() - since > 2 * EXPIRY:
                _signal(pid, signal.SIGCONT)
                del self._suspended[pid]
        for runner in [runner for runner in self._runners if runner.poll() is not None]:
            self._runners.remove(runner)
            out, error = runner.communicate()
            assert runner.returncode == 0 or FULL in error, error
            assert runner.returncode or set(json.loads(out)["statuses"]) == {"ok"}, out
        if not self._runners:
            self._runners.append(self.start(0.0))

    def _finished(self) -> bool:
        """Whether a runner has seen the study to its end, and no other is left."""
        for runner in self._runners:
            _, error = runner.communicate(timeout=300)
            assert runner.returncode == 0, error
        self._runners = []
        return True

    def _do(self, name: str) -> bool:
        """Does something, if it can be done at this moment."""
        if name.endswith("joins"):
            self._join(0.0 if name == "runner joins" else float(self.rng.choice([-3600, 3600])))
            return True
        if name == "disk full":
            return self._fill_disk()
        victims = workers(self.root)
        if not victims:
            return False
        if name == "runner killed":
            self._kill_runner()
            return True
        fit = [
            pid
            for pid, held in victims.items()
            if may_fail(held, self._failures) and pid not in self._suspended
        ]
        if not fit:
            return False
        pid = int(self.rng.choice(fit))
        if name == "lease of another machine" and not all(map(self._make_foreign, victims[pid])):
            return False
        self._failures.update(holder.run_id for holder in victims[pid])
        if name == "worker suspended":
            self._suspended[pid] = time.monotonic()
            _signal(pid, signal.SIGSTOP)
        else:
            kill(pid)
        return True

    def _join(self, clock: float) -> None:
        if len(self._runners) >= MOST_RUNNERS:
            self._kill_runner()
        self._runners.append(self.start(clock))

    def _kill_runner(self) -> None:
        runner = self._runners.pop(int(self.rng.integers(len(self._runners))))
        runner.kill()
        runner.communicate()

    def _fill_disk(self) -> bool:
        if not workers(self.root):
            return False
        self.fill(True)
        try:
            end = time.monotonic() + 60
            while all(runner.poll() is None for runner in self._runners):
                assert time.monotonic() < end, "nobody noticed that the disk is full"
                time.sleep(0.05)
        finally:
            self.fill(False)
        return True

    def _make_foreign(self, holder: Holder) -> bool:
        """Rewrites a lease in place, as if another machine had made it."""
        path = Leases(self.root).folder / f"{holder.run_id}.{holder.generation}"
        try:
            with open(path, "r+b") as file:
                head = file.readline()
                facts: dict[str, Any] = json.loads(head)
                facts["machine"] = facts["machine"][::-1]
                changed = json.dumps(facts).encode() + b"\n"
                assert len(changed) == len(head)
                file.seek(0)
                file.write(changed)
        except FileNotFoundError:  # It has just finished.
            return False
        return True


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
