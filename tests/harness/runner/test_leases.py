"""Leases: one owner at a time, whoever dies, stalls or comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from pacebench.harness.runner import leases as module
from pacebench.harness.runner.leases import LeaseLostError, Leases


@pytest.fixture
def leases(tmp_path):
    return Leases(tmp_path, expiry=0.3)


def elsewhere(path):
    """Makes a lease look as if another machine held it."""
    head, _, tail = path.read_bytes().partition(b"\n")
    facts = {**json.loads(head), "machine": "another", "host": "another"}
    path.write_bytes(json.dumps(facts).encode() + b"\n" + tail)


def test_one_owner_at_a_time(leases):
    lease = leases.acquire("run", label="walk")
    assert lease is not None
    assert leases.acquire("run") is None
    assert leases.acquire("other") is not None
    assert leases.live()["run"].facts["label"] == "walk"
    lease.release()
    assert leases.acquire("run") is not None


def test_progress_is_seen_by_others(leases, tmp_path):
    lease = leases.acquire("run")
    lease.beat(1200, 200)
    seen = Leases(tmp_path).live()["run"]
    assert (seen.steps, seen.fresh) == (1200, 200)


_RACE = """
import sys
from pacebench.harness.runner.leases import Leases
leases = Leases(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(sum(leases.acquire(f"run{i}") is not None for i in range(200)), flush=True)
sys.stdin.readline()
"""


def test_a_race_has_one_winner(tmp_path):
    command = [sys.executable, "-c", _RACE, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(3)]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 3
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    # Nobody leaves before all have raced: the lease of a dead process is free.
    won = [int(racer.stdout.readline()) for racer in racers]
    for racer in racers:
        racer.communicate("leave\n")
    assert sum(won) == 200


def test_the_lease_of_a_dead_process_is_free_at_once(tmp_path):
    script = (
        "import sys; from pacebench.harness.runner.leases import Leases\n"
        "Leases(sys.argv[1]).acquire('run')"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    leases = Leases(tmp_path, expiry=1e9)
    assert list(leases.holders()) == ["run"]
    assert leases.live() == {}
    lease = leases.acquire("run")
    assert lease is not None
    assert lease.generation == 2
    assert os.listdir(leases.folder) == ["run.2"], "the dead one's file is gone"


def test_a_process_id_used_again_is_not_mistaken_for_the_owner(leases):
    lease = leases.acquire("run")
    head, _, tail = lease.path.read_bytes().partition(b"\n")
    facts = {**json.loads(head), "created": 1.0}
    lease.path.write_bytes(json.dumps(facts).encode() + b"\n" + tail)
    assert leases.live() == {}


def test_a_silent_owner_elsewhere_expires_by_the_observers_clock(leases, tmp_path, monkeypatch):
    lease = leases.acquire("run")
    elsewhere(lease.path)
    # A clock that is a day off makes no difference.
    os.utime(lease.path, (0, time.time() - 86400))
    clock = iter([0.0, 50.0, 100.0, 111.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    observer = Leases(tmp_path, expiry=60.0)
    assert observer.acquire("run") is None, "nothing is known yet about its pulse"
    os.utime(lease.path)  # A sign of life, seen at 50, starts the wait anew.
    assert observer.acquire("run") is None
    assert observer.acquire("run") is None
    taken = observer.acquire("run")
    assert taken is not None
    assert taken.generation == 2


def test_an_owner_that_was_thought_dead_finds_out_before_it_writes(leases, tmp_path):
    sleeper = leases.acquire("run")
    sleeper.check()
    elsewhere(sleeper.path)
    observer = Leases(tmp_path, expiry=0.0)
    observer.acquire("run")
    time.sleep(0.01)
    heir = observer.acquire("run")
    assert heir is not None
    with pytest.raises(LeaseLostError):
        sleeper.check()
    # Its late signs of life and its release must not touch what the heir holds.
    sleeper.beat(999, 999)
    sleeper.release()
    heir.check()
    assert observer.holders()["run"].steps == 0


def test_an_old_generation_made_anew_does_not_win(leases, monkeypatch):
    """A process that listed the folder long ago creates a generation that was cleaned away."""
    first = leases.acquire("run")
    elsewhere(first.path)
    leases.expiry = 0.0
    leases.acquire("run")
    time.sleep(0.01)
    current = leases.acquire("run")
    assert current.generation == 2
    monkeypatch.setattr(leases, "holder", lambda _: None)
    assert leases.acquire("run") is None
    current.check()
    assert os.listdir(leases.folder) == ["run.2"]


def test_a_closed_descriptor_is_never_written_to(leases, tmp_path):
    lease = leases.acquire("run")
    number = lease._descriptor
    lease.release()
    innocent = os.open(tmp_path / "innocent", os.O_CREAT | os.O_WRONLY)
    if innocent != number:
        os.dup2(innocent, number)
        os.close(innocent)
    lease.beat(1, 1)
    os.close(number)
    assert (tmp_path / "innocent").read_bytes() == b""


def test_machines_are_told_apart():
    assert module.machine().startswith(module.hostname())
    assert "pid:" in module.machine(), "process ids of two containers must not be mixed up"


def test_sweeping_removes_what_the_dead_left_and_nothing_else(tmp_path):
    script = (
        "import sys; from pacebench.harness.runner.leases import Leases\n"
        "for name in ('finished', 'unfinished'): Leases(sys.argv[1]).acquire(name)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    leases = Leases(tmp_path, expiry=60.0)
    mine = leases.acquire("mine")
    old, fresh = leases.folder / ".old.tmp", leases.folder / ".fresh.tmp"
    old.touch()
    os.utime(old, (0, 0))
    fresh.touch()
    leases.sweep(lambda run_id: run_id in ("finished", "mine"))
    assert sorted(os.listdir(leases.folder)) == [".fresh.tmp", "mine.1", "unfinished.1"]
    mine.check()
