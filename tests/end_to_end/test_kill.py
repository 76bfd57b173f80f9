"""Kill −9 at random moments: the resumed study equals an uninterrupted one, byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from harness.store import RunStore
from tests.end_to_end.torment import torment
from tests.harness.runner.drive import start
from tests.harness.runner.plans import digests, launch_at, plan_cell

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
def test_a_study_survives_kills_at_random_moments(tmp_path, kills, monkeypatch):
    # Short batches and many of them: a run may be failed no more than twice.
    cells = [
        {"label": f"c{i}", "seeds": 2, "points": 8, "seconds": 0.2, "x": i}
        for i in range(kills + 4)
    ]
    root = tmp_path / "killed" / "walks"
    counts = torment(
        lambda: start(root, {"cells": cells}), root, kills, np.random.default_rng(2026)
    )
    assert counts.total() == kills
    assert min(counts["runner"], counts["worker"]) >= kills // 5

    monkeypatch.setenv("WALK_AT_ONCE", "1")
    planned = [plan_cell(**cell) for cell in cells]
    summary, whole, _ = launch_at(tmp_path / "whole" / "walks", *planned, workers=2)
    assert summary.statuses == {"ok": 2 * len(cells)}
    assert digests(root) == digests(whole.root)
    assert recorded_bytes(root) == recorded_bytes(whole.root)

    # Nothing is left behind, neither on the disk nor among the processes.
    assert not list(root.rglob("*.tmp"))
    assert not list(root.glob("leases/*"))
    assert not list(root.glob("runs/*/checkpoint.bin"))
    workers = {e["pid"] for e in RunStore(root).ledger.read() if e["event"] == "start"}
    for pid in workers:
        assert not psutil.pid_exists(pid) or _is_dead(pid)


def _is_dead(pid: int) -> bool:
    process = psutil.Process(pid)
    return process.status() == psutil.STATUS_ZOMBIE or "harness.runner" not in str(
        process.cmdline()
    )
