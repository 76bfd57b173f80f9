"""Leases: one owner at a time, whoever dies, stalls or comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from pacebench.harness.runner import leases as module
from pacebench.harness.runner.leases import LeaseLostError, Leases, StaleLease


@pytest.fixture
def leases(tmp_path):
    return Leases(tmp_path, expiry=0.3, heartbeat=0.001)


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
    assert leases.live()["run"].facts.label == "walk"
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
    facts = {**json.loads(head), "born": 1.0}
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


def test_what_one_process_saw_expire_another_may_follow(leases, tmp_path):
    """A fresh worker has watched nothing, so it relies on the runner that has."""
    owner = leases.acquire("run")
    elsewhere(owner.path)
    _, stale = Leases(tmp_path, expiry=0.0).split()
    assert stale == {}, "one look shows no silence"
    watcher = Leases(tmp_path, expiry=0.05)
    watcher.live()
    time.sleep(0.1)
    live, stale = watcher.split()
    assert live == {}
    evidence = StaleLease.model_validate_json(stale["run"].model_dump_json())
    assert Leases(tmp_path).acquire("run") is None, "without being told it would have to watch"
    heir = Leases(tmp_path).acquire("run", evidence)
    assert heir.generation == 2
    with pytest.raises(LeaseLostError):
        owner.check()


def test_what_was_seen_is_void_once_the_owner_shows_a_sign_of_life(leases, tmp_path):
    owner = leases.acquire("run")
    elsewhere(owner.path)
    watcher = Leases(tmp_path, expiry=0.05)
    watcher.live()
    time.sleep(0.1)
    _, stale = watcher.split()
    owner.beat(0, 0)
    assert Leases(tmp_path).acquire("run", stale["run"]) is None
    owner.check()
    assert Leases(tmp_path).acquire("other", stale["run"]) is not None


def test_an_owner_that_promises_few_signs_of_life_is_given_time(tmp_path):
    owner = Leases(tmp_path, heartbeat=0.1).acquire("run")
    elsewhere(owner.path)
    hasty = Leases(tmp_path, expiry=0.05)
    hasty.live()
    time.sleep(0.2)
    assert hasty.acquire("run") is None
    time.sleep(0.5)
    assert hasty.acquire("run") is not None


def test_a_step_of_the_clock_makes_nobody_look_dead(tmp_path, monkeypatch):
    """An hour's step changes when, by the wall clock, every process seems to have begun."""
    script = (
        "import sys; from pacebench.harness.runner.leases import Leases\n"
        "Leases(sys.argv[1]).acquire('run'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "held\n"
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
    monkeypatch.setattr(psutil, "boot_time", lambda: time.time() + 3600)
    clock = time.time
    monkeypatch.setattr(module.time, "time", lambda: clock() + 3600)
    observer = Leases(tmp_path)
    assert list(observer.live()) == ["run"]
    assert observer.acquire("run") is None
    owner.communicate()
    assert observer.live() == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1, 2]\n" + b"0" * 40,
        b"{}\n-1",
        b"[" * 5000,
        b'{"machine": 3}\n' + b"0" * 40,
        b'{"started": [1]}\n' + b"0" * 40,
        b'{"heartbeat": 1e300}\n' + b"0" * 40,
        b'{"pid": -1}\n' + b"x" * 40,
        bytes(100_000),
    ],
)
def test_a_lease_that_says_nothing_expires_by_time(leases, content):
    leases.folder.mkdir()
    (leases.folder / "run.1").write_bytes(content)
    assert list(leases.live()) == ["run"]
    assert leases.acquire("run") is None
    time.sleep(0.4)
    assert leases.acquire("run").generation == 2


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_holds_nothing_for_ever_and_is_not_waited_for(leases, kind, tmp_path):
    leases.folder.mkdir()
    path = leases.folder / "run.1"
    {
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
    }[kind]()
    assert leases.acquire("run") is None
    time.sleep(0.4)
    lease = leases.acquire("run")
    assert lease.generation == 2
    lease.check()


def test_names_that_only_look_like_leases_are_ignored(leases):
    leases.folder.mkdir()
    for name in ("run.²", "run.x", "run.", ".1", "run.99999999999999999999"):
        (leases.folder / name).touch()
    assert leases.holders() == {}
    assert leases.acquire("run").generation == 1
