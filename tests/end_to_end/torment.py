"""Kills runners and workers at random moments until there were enough kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pacebench.harness.runner.leases import Holder, Leases, machine
from pacebench.harness.runner.policy import RETRIES

Start = Callable[[], "subprocess.Popen[str]"]


def torment(
    start: Start,
    root: Path,
    kills: int,
    runners: int,
    rng: np.random.Generator,
    hurry: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Kills `kills` times while a study runs, `runners` of them its runner, then lets it finish.

    `hurry` is called when nobody will be killed any more.

    A worker is spared when one of its runs has already been failed as often as it may be: what is
    tested is that nothing is lost, not that a third failure is final.

    Returns:
        How often a runner was killed, and how often a worker.
    """
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    # Who dies is drawn beforehand: left to each moment, some torments would spare all runners.
    fate = rng.permutation(["runner"] * runners + ["worker"] * (kills - runners))
    runner = start()
    while counts.total() < kills:
        time.sleep(float(rng.uniform(0.0, 0.8)))
        if runner.poll() is not None:
            said = runner.communicate()
            raise AssertionError(f"it ended after {counts.total()} kills: {said}")
        victims = workers(root)
        if not victims:
            continue
        fit = [pid for pid, held in victims.items() if may_fail(held, failures)]
        if fate[counts.total()] == "runner":
            kill(runner.pid)
            runner.communicate()
            counts["runner"] += 1
            runner = start()
        elif fit:
            pid = int(rng.choice(fit))
            kill(pid)
            counts["worker"] += 1
            failures.update(holder.run_id for holder in victims[pid])
            # Until the runner has noticed, there is no worker that could be killed again.
            while pid in workers(root):
                time.sleep(0.01)
    hurry()
    _, error = runner.communicate(timeout=600)
    assert runner.returncode == 0, error
    return counts


def may_fail(held: list[Holder], failures: Counter[str]) -> bool:
    """Says whether none of these runs has failed as often as it may."""
    return all(failures[holder.run_id] < RETRIES for holder in held)


def workers(root: Path) -> dict[int, list[Holder]]:
    """Returns what each worker of this machine holds, by process id."""
    found: dict[int, list[Holder]] = {}
    for holder in Leases(root).live().values():
        if holder.facts.machine == machine() and holder.facts.pid is not None:
            found.setdefault(holder.facts.pid, []).append(holder)
    return found


def kill(pid: int) -> None:
    """Kills a process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
