"""A real Ray cluster that loses a node, and submitit's jobs: the same records as `local`."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from pacebench.harness.runner.leases import Leases
from pacebench.harness.store.store import RunStore
from tests.harness.runner.drive import start
from tests.harness.runner.plans import REPOSITORY, digests, launch_at, plan_cell

pytestmark = pytest.mark.slow

CELLS = [{"label": f"c{i}", "seeds": 2, "points": 12, "seconds": 0.4, "x": i} for i in range(4)]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers on every node import the substitutes."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The records that `local` makes."""
    with monkeypatch.context() as patch:
        patch.setenv("WALK_AT_ONCE", "1")
        cells = [plan_cell(**cell) for cell in CELLS]
        summary, store, _ = launch_at(tmp_path / "local" / "walks", *cells)
    assert summary.statuses == {"ok": 8}
    return digests(store.root)


def wait_for_attempts(root: Path, process, count: int) -> set[int]:
    """Waits until `count` workers are at it and have saved something; returns their ids."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        held = Leases(root).live()
        saved = [run_id for run_id in held if (root / "runs" / run_id / "checkpoint.bin").exists()]
        workers = {held[run_id].facts.pid for run_id in saved}
        if len(workers) >= count:
            return workers
        time.sleep(0.05)
    raise AssertionError("the workers did not start")


def finish(process) -> dict[str, object]:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def failures(root: Path) -> list[dict[str, object]]:
    return [e for e in RunStore(root).ledger.read() if e["event"] == "failure"]


def test_a_ray_cluster_that_loses_a_node(tmp_path, expected):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pacebench[ray]'")
    from ray.cluster_utils import Cluster

    root = tmp_path / "ray" / "walks"
    quiet = {"include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **quiet})
    try:
        doomed = cluster.add_node(num_cpus=1)
        plan = {"cells": CELLS, "executor": "ray", "address": cluster.address, "workers": 2}
        runner = start(root, plan)
        wait_for_attempts(root, runner, 2)
        cluster.remove_node(doomed, allow_graceful=False)
        assert finish(runner)["statuses"] == {"ok": 8}
    finally:
        cluster.shutdown()
    lost = failures(root)
    assert len(lost) == 1
    assert "Ray lost the worker" in str(lost[0]["reason"])
    assert digests(root) == expected


def test_submitit_jobs_of_which_one_is_killed(tmp_path, expected):
    pytest.importorskip("submitit", reason="submitit is missing: pip install 'pacebench[slurm]'")
    root = tmp_path / "slurm" / "walks"
    plan = {"cells": CELLS, "executor": "slurm", "workers": 2, "slurm": {"cluster": "local"}}
    runner = start(root, plan)
    workers = wait_for_attempts(root, runner, 2)
    # The job is the parent of the worker; without it, the worker must not go on.
    victim = min(workers)
    os.kill(psutil.Process(victim).ppid(), signal.SIGKILL)
    assert finish(runner)["statuses"] == {"ok": 8}
    assert len(failures(root)) == 1
    assert "ended without a result" in str(failures(root)[0]["reason"])
    assert digests(root) == expected


def test_jobs_outlive_their_runner_and_are_waited_for(tmp_path, expected):
    """Slurm's jobs go on when the runner is killed; its successor must not do their work twice."""
    pytest.importorskip("submitit", reason="submitit is missing: pip install 'pacebench[slurm]'")
    root = tmp_path / "slurm" / "walks"
    plan = {"cells": CELLS, "executor": "slurm", "workers": 2, "slurm": {"cluster": "local"}}
    runner = start(root, plan)
    workers = wait_for_attempts(root, runner, 2)
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate()
    runner = start(root, {**plan, "executor": "local", "slurm": {}})
    assert finish(runner)["statuses"] == {"ok": 8}
    started = [e for e in RunStore(root).ledger.read() if e["event"] == "start"]
    assert len(started) == len({e["run"] for e in started}) == 8, "nothing was begun twice"
    assert {e["pid"] for e in started} > workers
    assert digests(root) == expected


@pytest.mark.parametrize("listening", [False, True])
def test_a_ray_address_that_does_not_answer_is_a_sentence_within_seconds(tmp_path, listening):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pacebench[ray]'")
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        if listening:
            mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        plan = {"cells": CELLS, "executor": "ray", "address": address}
        began = time.monotonic()
        _, error = start(tmp_path / "walks", plan).communicate(timeout=120)
    assert f"--address {address}: no Ray cluster answers there" in error
    # With time for the interpreter to start on a machine that is busy with other tests.
    assert time.monotonic() - began < 20 + 20
