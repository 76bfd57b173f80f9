"""Owners that fall silent are followed, and write nothing when they come back."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.runner.leases import Leases
from pacebench.harness.store.store import RunStore
from tests.harness.runner.drive import start
from tests.harness.runner.plans import digests, plan_cell, run_id_of

pytestmark = pytest.mark.slow

CELL = {"label": "a", "seeds": 2, "points": 10, "seconds": 0.3}
QUICK = {"heartbeat": 0.1, "expiry": 1.5}


def wait_for_worker(root: Path, runner, seconds: float = 120.0) -> int:
    """Waits until a worker has saved something; returns its process id."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert runner.poll() is None, runner.communicate()
        held = Leases(root).live()
        if held and list(root.glob("runs/*/checkpoint.bin")):
            return next(iter(held.values())).facts.pid
        time.sleep(0.02)
    raise AssertionError("no worker began")


def finish(runner) -> dict:
    out, err = runner.communicate(timeout=120)
    assert runner.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_the_lease_of_a_machine_that_is_gone_is_followed(launch, tmp_path):
    """A container that was killed and started again is another machine to its leases."""
    cell = plan_cell(seeds=2)
    root = tmp_path / "results" / "walks"
    for run in cell:
        lease = Leases(root, heartbeat=0.1).acquire(run.run_id)
        head, _, tail = lease.path.read_bytes().partition(b"\n")
        facts = {**json.loads(head), "machine": "gone", "host": "gone"}
        lease.path.write_bytes(json.dumps(facts).encode() + b"\n" + tail)
    began = time.monotonic()
    summary, store, _ = launch(cell, limits=QUICK)
    assert summary.statuses == {"ok": 2}
    assert time.monotonic() - began > QUICK["expiry"], "not before it was silent for long enough"
    generations = [e["generation"] for e in store.ledger.read() if e["event"] == "start"]
    assert generations == [2, 2]


def test_a_suspended_worker_is_followed_and_writes_nothing_when_it_wakes(tmp_path, launch, hurry):
    root = tmp_path / "walks"
    # The first runner would wait for its worker for ever; only the second loses patience.
    first = start(root, {"cells": [CELL], "workers": 1, "limits": {**QUICK, "expiry": 1000}})
    sleeper = wait_for_worker(root, first)
    os.kill(sleeper, signal.SIGSTOP)
    hurry()
    second = start(root, {"cells": [CELL], "workers": 1, "limits": QUICK})
    try:
        assert finish(second)["statuses"] == {"ok": 2}
        before = {path: path.stat().st_mtime_ns for path in root.glob("runs/*/*")}
        assert first.poll() is None
    finally:
        os.kill(sleeper, signal.SIGCONT)
    assert finish(first) == {"statuses": {"ok": 2}, "interrupted": False, "made": 0}
    after = {path: path.stat().st_mtime_ns for path in root.glob("runs/*/*.*")}
    logs = {path for path in after if path.name == "log.txt"}
    assert {p: t for p, t in after.items() if p not in logs} == {
        p: t for p, t in before.items() if p not in logs
    }
    ends = [e for e in RunStore(root).ledger.read() if e["event"] == "failure"]
    assert [e["ending"] for e in ends if "ending" in e] in ([], ["lost"])
    _, whole, _ = launch(plan_cell(**CELL))
    assert digests(root) == digests(whole.root)


def test_a_runner_does_not_wait_for_ever_for_its_own_suspended_worker(tmp_path, launch, hurry):
    root = tmp_path / "walks"
    runner = start(root, {"cells": [CELL], "workers": 1, "limits": QUICK})
    os.kill(wait_for_worker(root, runner), signal.SIGSTOP)
    hurry()
    assert finish(runner)["statuses"] == {"ok": 2}
    (failure,) = [e for e in RunStore(root).ledger.read() if e["event"] == "failure"]
    assert "suspended" in failure["reason"]
    _, whole, _ = launch(plan_cell(**CELL))
    assert digests(root) == digests(whole.root)


def test_a_lease_that_is_touched_is_left_alone(tmp_path):
    """A second runner waits for a worker of another machine for as long as that one lives."""
    root = tmp_path / "walks"
    plan = {"cells": [{**CELL, "seeds": 1, "seconds": 0.4}], "workers": 1, "limits": QUICK}
    owner = start(root, plan)
    wait_for_worker(root, owner)
    (path,) = (root / "leases").iterdir()
    head = path.read_bytes().partition(b"\n")[0]
    # As long as before, because the owner goes on writing its counters in place.
    facts = json.loads(head)
    facts["machine"] = facts["machine"][::-1]
    changed = json.dumps(facts).encode()
    assert len(changed) == len(head)
    with open(path, "r+b") as file:
        file.write(changed)
    other = start(root, plan)
    assert finish(other)["made"] == 0
    assert finish(owner)["made"] == 1
    store = RunStore(root)
    begun = [e for e in store.ledger.read() if e["event"] == "start"]
    assert [e["run"] for e in begun] == [run_id_of(store, "a", 0)]


def test_an_expiry_of_few_heartbeats_is_refused(launch):
    with pytest.raises(UserError, match=r"--expiry 3: .* every 2 s; give it at least 10 s"):
        launch(plan_cell(seeds=1), limits={"heartbeat": 2, "expiry": 3})
