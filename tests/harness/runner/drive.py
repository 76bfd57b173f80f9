"""A runner in a process of its own, for tests that interrupt or kill it.

python -m tests.harness.runner.drive ROOT '{"cells": [{"label": "a", "seeds": 4}], "workers": 2}'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from pacebench.harness.runner import ray_cluster
from pacebench.harness.runner.attempt import Limits
from pacebench.harness.runner.launch import RunOptions, make_runs
from tests.harness.runner.plans import REPOSITORY, TRAIN, plan_cell


def main(root: str, plan: dict[str, Any]) -> None:
    _step_clock(plan.get("clock", 0.0))
    if "patience" in plan:
        _lose_patience(plan["patience"])
    cells = [plan_cell(**cell) for cell in plan["cells"]]
    options = RunOptions(
        executor=plan.get("executor", "local"),
        workers=plan.get("workers", 2),
        slurm=plan.get("slurm", {}),
        address=plan.get("address"),
        train=TRAIN,
        batched=lambda _: True,
        limits=Limits(**{"heartbeat": 0.2, **plan.get("limits", {})}),
    )
    summary = make_runs("walks", {"name": "walks"}, [*chain(*cells)], Path(root), options)
    said = {"interrupted": summary.interrupted, "made": summary.made}
    print(json.dumps({"statuses": summary.statuses, **said}))


def _step_clock(seconds: float) -> None:
    """Makes this process see a wall clock that is off, as after a step of it."""
    now, born, boot = time.time, psutil.Process.create_time, psutil.boot_time
    time.time = lambda: now() + seconds
    psutil.Process.create_time = lambda self: born(self) + seconds
    psutil.boot_time = lambda: boot() + seconds


def _lose_patience(seconds: float) -> None:
    """Makes this process wait so long for a Ray cluster that has answered once."""
    check = ray_cluster._check_answers

    def checked(address: str) -> None:
        check(address)
        ray_cluster._PATIENCE = seconds

    ray_cluster._check_answers = checked


def start(root: Path, plan: dict[str, Any], **options: Any) -> subprocess.Popen[str]:
    """Starts a runner."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.harness.runner.drive", str(root), json.dumps(plan)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
