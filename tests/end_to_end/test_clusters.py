"""A real Ray cluster that loses a node, and submitit's jobs: the same records as `local`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.runner import ray_cluster
from pacebench.harness.runner.leases import Leases
from pacebench.harness.store.store import RunStore
from tests.harness.runner.drive import start
from tests.harness.runner.plans import REPOSITORY, digests, launch_at, plan_cell

pytestmark = pytest.mark.slow

# One more than can be worked on at a time.
CELLS = [{"label": f"c{i}", "seeds": 2, "points": 4, "seconds": 60, "x": i} for i in range(3)]
ALL = {"ok": 6}

QUIET = ("--include-dashboard=false",)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers on every node import the substitutes."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The records that `local` makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        patch.setenv("WALK_AT_ONCE", str(REPOSITORY))
        cells = [plan_cell(**cell) for cell in CELLS]
        summary, store, _ = launch_at(tmp_path_factory.mktemp("local") / "walks", *cells)
    assert summary.statuses == ALL
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


def wait_for_failure(root: Path, runner: subprocess.Popen[str]) -> None:
    """Waits until a loss was noticed: what hurries before that may end as if nothing were lost."""
    while not failures(root):
        assert runner.poll() is None
        time.sleep(0.1)


def test_a_ray_cluster_that_loses_a_node(tmp_path, expected, hurry):
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
        wait_for_failure(root, runner)
        hurry()
        assert finish(runner)["statuses"] == ALL
    finally:
        cluster.shutdown()
    # A slow cluster may give the batch to the lost node once more before it knows.
    lost = failures(root)
    assert 1 <= len(lost) <= 2
    assert all("Ray lost the worker" in str(failure["reason"]) for failure in lost)
    assert digests(root) == expected


@pytest.fixture
def ray_start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts Ray's nodes by the command that people use; each in a process group of its own."""
    started: list[subprocess.Popen[bytes]] = []
    folder = tempfile.mkdtemp(prefix="ray-")  # its sockets need a short path

    def call(*arguments: str, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        command = [*inside, sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        node = subprocess.Popen(
            [*command, "--num-cpus=1", *arguments],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # As `Cluster` above: a cluster of a minute needs no tokens.
            env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder},
        )
        started.append(node)
        return node

    yield call
    for node in started:
        kill_group(node)
    shutil.rmtree(folder, ignore_errors=True)


def kill_group(node: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def wait_for_port(host: str, port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), timeout=1).close()
            return
        time.sleep(0.2)
    raise AssertionError("the head did not start")


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def test_a_ray_head_that_is_lost_and_the_study_finished_locally(
    tmp_path, expected, ray_start, monkeypatch, hurry
):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pacebench[ray]'")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    host, port = "127.0.0.1", free_port("127.0.0.1")
    head = ray_start("--head", f"--port={port}", f"--node-ip-address={host}", *QUIET)
    wait_for_port(host, port)
    root = tmp_path / "ray" / "walks"
    plan = {"cells": CELLS, "executor": "ray", "address": f"{host}:{port}", "workers": 1}
    runner = start(root, {**plan, "patience": 6.0})
    wait_for_attempts(root, runner, 1)
    kill_group(head)
    began = time.monotonic()
    _, error = runner.communicate(timeout=180)
    assert runner.returncode != 0
    assert f":{port} has not answered for 6 s; nothing that was recorded is lost" in error
    assert time.monotonic() - began < 6 + 30
    hurry()
    assert finish(start(root, {"cells": CELLS, "workers": 2}))["statuses"] == ALL
    assert digests(root) == expected


@dataclass(frozen=True)
class OtherHost:
    """A network namespace with another host name, joined to ours by a cable."""

    name: str
    ours: str
    theirs: str

    @property
    def inside(self) -> list[str]:
        """What runs a command there."""
        rename = f'hostname {self.name}; exec "$@"'
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", rename, "sh"]

    def lose(self) -> None:
        """Cuts the cable, so that nobody hears of the end of what runs there, and ends it."""
        _ip("link", "set", self.name, "down")
        pids = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True)
        for pid in pids.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def other_host() -> Iterator[OtherHost]:
    name, net = f"pace{os.getpid() % 10**6}", f"10.77.{os.getpid() % 250}"
    try:
        _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces need root and iproute2 ({error})")
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{net}.1/24", "dev", name)
        _ip("link", "set", name, "up")
        for command in (f"addr add {net}.2/24 dev far", "link set far up", "link set lo up"):
            _ip("-n", name, *command.split())
        yield OtherHost(name, f"{net}.1", f"{net}.2")
    finally:
        _ip("netns", "del", name)


def test_a_ray_node_on_another_host_that_is_lost_without_a_word(
    tmp_path, expected, ray_start, other_host, monkeypatch, hurry
):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pacebench[ray]'")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    port = free_port(other_host.ours)
    address = f"{other_host.ours}:{port}"
    ray_start("--head", f"--port={port}", f"--node-ip-address={other_host.ours}", *QUIET)
    wait_for_port(other_host.ours, port)
    joining = (f"--address={address}", f"--node-ip-address={other_host.theirs}")
    ray_start(*joining, inside=other_host.inside)
    root = tmp_path / "ray" / "walks"
    plan = {"cells": CELLS, "executor": "ray", "address": address, "workers": 2}
    runner = start(root, {**plan, "limits": {"expiry": 5.0}})
    wait_for_attempts(root, runner, 2)
    hosts = {holder.facts.host for holder in Leases(root).live().values()}
    assert hosts == {socket.gethostname(), other_host.name}
    other_host.lose()
    wait_for_failure(root, runner)
    hurry()
    assert finish(runner)["statuses"] == ALL
    (lost,) = failures(root)
    assert "no sign of life" in str(lost["reason"]), "Ray itself never tells"
    assert digests(root) == expected


def test_submitit_jobs_of_which_one_is_killed(tmp_path, expected, hurry):
    pytest.importorskip("submitit", reason="submitit is missing: pip install 'pacebench[slurm]'")
    root = tmp_path / "slurm" / "walks"
    plan = {"cells": CELLS, "executor": "slurm", "workers": 2, "slurm": {"cluster": "local"}}
    runner = start(root, plan)
    workers = wait_for_attempts(root, runner, 2)
    # The job is the parent of the worker; without it, the worker must not go on.
    victim = min(workers)
    os.kill(psutil.Process(victim).ppid(), signal.SIGKILL)
    hurry()
    assert finish(runner)["statuses"] == ALL
    assert len(failures(root)) == 1
    assert "ended without a result" in str(failures(root)[0]["reason"])
    assert digests(root) == expected


def test_jobs_outlive_their_runner_and_are_waited_for(tmp_path, expected, hurry):
    """Slurm's jobs go on when the runner is killed; its successor must not do their work twice."""
    pytest.importorskip("submitit", reason="submitit is missing: pip install 'pacebench[slurm]'")
    root = tmp_path / "slurm" / "walks"
    plan = {"cells": CELLS, "executor": "slurm", "workers": 2, "slurm": {"cluster": "local"}}
    runner = start(root, plan)
    workers = wait_for_attempts(root, runner, 2)
    runner.kill()
    runner.wait()  # not for the end of its output, which its jobs have inherited
    runner = start(root, {**plan, "executor": "local", "slurm": {}})
    wait_for_attempts(root, runner, 3)
    hurry()
    assert finish(runner)["statuses"] == ALL
    started = [e for e in RunStore(root).ledger.read() if e["event"] == "start"]
    assert len(started) == len({e["run"] for e in started}) == 6, "nothing was begun twice"
    assert {e["pid"] for e in started} > workers
    assert digests(root) == expected


@pytest.mark.parametrize("listening", [False, True])
def test_a_ray_address_that_does_not_answer_is_a_sentence_within_seconds(
    tmp_path, listening, monkeypatch
):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pacebench[ray]'")
    monkeypatch.setattr(ray_cluster, "_PATIENCE", 3.0)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        if listening:
            mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        began = time.monotonic()
        sentence = f"--address {address}: no Ray cluster answers there"
        with pytest.raises(UserError, match=sentence):
            launch_at(tmp_path / "walks", plan_cell(), executor="ray", address=address)
    # With time for a machine that is busy with other tests.
    assert time.monotonic() - began < 3 + 20
