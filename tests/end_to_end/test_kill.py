"""Kill −9 at random moments: the resumed study equals an uninterrupted one, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from pacebench.harness.store.store import RunStore
from tests.end_to_end.torment import torment
from tests.end_to_end.torture import EXPIRY, FAULTS, Torture, small_disk
from tests.harness.runner.drive import start
from tests.harness.runner.plans import REPOSITORY, digests, launch_at, plan_cell

RECORDED = ("evaluations.parquet", "updates.parquet", "policy.safetensors")


def recorded_bytes(root: Path) -> dict[str, bytes]:
    return {
        f"{run.name}/{name}": (run / name).read_bytes()
        for run in sorted((root / "runs").iterdir())
        for name in RECORDED
    }


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(5, marks=pytest.mark.slow),
        pytest.param(36, marks=pytest.mark.validation),
    ],
)
def test_a_study_survives_kills_at_random_moments(tmp_path, kills, monkeypatch, hurry):
    # Short batches and many of them: a run may be failed no more than twice.
    cells = [
        {"label": f"c{i}", "seeds": 2, "points": 8, "seconds": 0.2, "x": i}
        for i in range(kills + 4)
    ]
    root = tmp_path / "killed" / "walks"
    rng, runners = np.random.default_rng(2026), round(0.35 * kills)
    counts = torment(lambda: start(root, {"cells": cells}), root, kills, runners, rng, hurry)
    assert counts == {"runner": runners, "worker": kills - runners}

    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    planned = [plan_cell(**cell) for cell in cells]
    summary, whole, _ = launch_at(tmp_path / "whole" / "walks", *planned)
    assert summary.statuses == {"ok": 2 * len(cells)}
    assert digests(root) == digests(whole.root)
    assert recorded_bytes(root) == recorded_bytes(whole.root)
    assert_nothing_left(root)


@pytest.mark.slow
def test_a_study_survives_everything_at_once(tmp_path, monkeypatch, hurry):
    """Thirty faults and more, up to three runners; the records equal those of a quiet run."""
    cells = [{"label": f"c{i}", "seeds": 1, "points": 6, "seconds": 0.2, "x": i} for i in range(36)]
    limits = {"heartbeat": 0.1, "expiry": EXPIRY}
    flag = tmp_path / "full"
    monkeypatch.setenv("WALK_DISK_FULL", str(flag))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    with small_disk(tmp_path / "disk", flag) as fill:
        root = tmp_path / "disk" / "walks"

        def begin(clock: float) -> subprocess.Popen[str]:
            return start(root, {"cells": cells, "workers": 2, "limits": limits, "clock": clock})

        torture = Torture(begin, root, fill, hurry, np.random.default_rng(2026))
        torture.run()
        assert torture.counts == FAULTS
        assert torture.counts.total() >= 30
        planned = [plan_cell(**cell) for cell in cells]
        summary, whole, _ = launch_at(tmp_path / "whole" / "walks", *planned)
        assert summary.statuses == {"ok": len(cells)}
        expected = digests(whole.root)
        wrong = {run_id for run_id, found in digests(root).items() if found != expected[run_id]}
        told = ("time", "event", "run", "runs", "pid", "ending", "status", "reason", "generation")
        diary = [
            " ".join(f"{key}={entry[key]}" for key in told if key in entry)
            for entry in RunStore(root).ledger.entries()
            if entry.get("run") in wrong or wrong & {*entry.get("runs", ())}
        ]
        assert not wrong, "\n".join(diary)
        assert recorded_bytes(root) == recorded_bytes(whole.root)
        assert_nothing_left(root)


STUDY = """
name: killed
question: Does real training survive it?
curricula: [default, spgl]
setups: [point-mass-2]
learner: ppo
seeds: {count: 4, root: 3}
budget: 65_536
evaluation: {points: 16, contexts: 10}
"""


@pytest.mark.validation
def test_real_training_survives_kills_at_random_moments(tmp_path):
    study = tmp_path / "killed.yaml"
    study.write_text(STUDY)

    def start_real(results: str) -> subprocess.Popen[str]:
        arguments = ["run", study, "--results", tmp_path / results, "--workers", 2, "--no-share"]
        command = [sys.executable, "-m", "pacebench.harness", *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)

    root = tmp_path / "torn" / "killed"
    # Two batches, each of which may lose its worker twice.
    counts = torment(lambda: start_real("torn"), root, 8, 5, np.random.default_rng(7))
    assert counts == {"runner": 5, "worker": 3}
    whole = start_real("whole")
    _, error = whole.communicate(timeout=600)
    assert whole.returncode == 0, error
    assert len(digests(root)) == 8
    assert digests(root) == digests(tmp_path / "whole" / "killed")
    assert recorded_bytes(root) == recorded_bytes(tmp_path / "whole" / "killed")
    assert_nothing_left(root)


def assert_nothing_left(root: Path) -> None:
    # Nothing is left behind, neither on the disk nor among the processes.
    assert not list(root.glob("runs/*/.*.tmp"))
    assert not list(root.glob("leases/*"))
    assert not list(root.glob("runs/*/checkpoint.bin"))
    workers = {e["pid"] for e in RunStore(root).ledger.read() if e["event"] == "start"}
    for pid in workers:
        assert not psutil.pid_exists(pid) or _is_dead(pid)


def _is_dead(pid: int) -> bool:
    process = psutil.Process(pid)
    return process.status() == psutil.STATUS_ZOMBIE or "pacebench.harness.runner" not in str(
        process.cmdline()
    )
