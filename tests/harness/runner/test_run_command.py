"""`pacebench run` and `status`, as a user calls them, with real training."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pacebench.harness.cli import app
from pacebench.harness.store.store import RunStore
from tests.harness.runner.plans import REPOSITORY, digests

pytestmark = pytest.mark.slow

STUDY = """
name: tiny
question: Does it run?
curricula: [default, spgl]
setups: [point-mass-2]
learner: {name: ppo, params: {n_epochs: 2}}
seeds: {count: 2, root: 1}
budget: %d
evaluation: {points: %d, contexts: 10}
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pacebench.harness", *map(str, arguments)]


def call(*arguments: object) -> Result:
    """Calls the command in this process; its workers are processes all the same."""
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY % (8_192, 2))
    return path


def test_a_study_is_run_once_and_its_status_is_told(study, tmp_path):
    results = tmp_path / "results"
    before = call("status", study, "--results", results)
    assert before.exit_code == 2
    assert "no results here; start with `pacebench run" in before.stderr
    done = call("run", study, "--results", results, "--workers", 2)
    assert done.exit_code == 0, done.stderr
    assert "4 of 4 runs ended (4 ok), 4 of them now" in done.stdout
    again = call("run", study, "--results", results)
    assert "4 of 4 runs ended (4 ok), 0 of them now" in again.stdout
    shown = call("status", results / "tiny")
    assert "4/4 runs done" in shown.stdout
    state = json.loads(call("status", study, "--results", results, "--json").stdout)
    assert state["complete"]
    assert [cell["done"] for cell in state["cells"]] == [2, 2]
    assert state["whole"]["steps"] == 4 * 8_192


def test_ctrl_c_in_a_terminal_and_the_resumed_study_equals_an_uninterrupted_one(study, tmp_path):
    """Real training, a real terminal, and a real Ctrl-C that goes to the whole process group."""
    study.write_text(STUDY % (49_152, 12))
    root = tmp_path / "interrupted" / "tiny"
    ours, theirs = pty.openpty()
    runner = subprocess.Popen(
        command("run", study, "--results", root.parent, "--workers", 2),
        cwd=REPOSITORY,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    screen = b""
    os.set_blocking(ours, False)
    sent = False
    while runner.poll() is None:
        try:
            screen += os.read(ours, 65536)
        except (BlockingIOError, OSError):
            time.sleep(0.05)
        if not sent and list(root.glob("runs/*/checkpoint.bin")):
            os.killpg(runner.pid, signal.SIGINT)
            sent = True
    with contextlib.suppress(OSError):
        screen += os.read(ours, 65536)
    text = screen.decode(errors="replace")
    assert runner.returncode == 130, text
    assert "time left" in text, "the live table"
    assert "Stopping at the next checkpoint" in text
    assert f"Resume with: pacebench run {study}" in text
    assert "Traceback" not in text
    assert call("run", study, "--results", root.parent, "--workers", 1).exit_code == 0
    whole = tmp_path / "whole"
    assert call("run", study, "--results", whole, "--workers", 1, "--no-share").exit_code == 0
    assert digests(root) == digests(whole / "tiny")
    assert len(digests(root)) == 4
    resumed = [e for e in RunStore(root).ledger.read() if e["event"] == "start"]
    assert len(resumed) > 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--executor", "cloud"], "no executor is called 'cloud'; use local, ray or slurm."),
        (["--executor", "slurm", "--slurm", "partition"], "write KEY=VALUE"),
        (["--results", "/proc/nowhere"], "/proc/nowhere"),
        (["--executor", "slurm"], "start it where `sbatch` works"),
        (["--address", "head:6379"], "--address head:6379: only --executor ray has an address."),
        (["--slurm", "slurm_partition=cpu"], "is for --executor slurm only."),
        (["--memory-limit", "1e400"], "--memory-limit inf: is no number"),
        (["--memory-limit", "nan"], "Invalid value for '--memory-limit'"),
        (["--memory-limit", "1e300"], "--memory-limit 1e+300: Input should be less than"),
        (["--time-limit", "nan"], "Invalid value for '--time-limit'"),
        (["--expiry", "5"], "give it at least 10 s, or set --heartbeat."),
        (["--heartbeat", "0"], "--heartbeat 0: Input should be greater than 0."),
        (["--results", __file__], "test_run_command.py: is a file where a folder is meant"),
    ],
)
def test_mistakes_are_sentences(study, tmp_path, arguments, sentence):
    if "--results" not in arguments:
        arguments = [*arguments, "--results", str(tmp_path / "results")]
    done = call("run", study, *arguments)
    assert done.exit_code == 2, done.stderr
    assert sentence in done.stderr


def test_an_interrupted_study_shows_what_its_checkpoints_hold(study, tmp_path):
    root = tmp_path / "results" / "tiny"
    study.write_text(STUDY % (65_536, 16))
    runner = subprocess.Popen(
        command("run", study, "--results", root.parent, "--workers", 1),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(root.glob("runs/*/checkpoint.bin")):
        assert runner.poll() is None, runner.communicate()
        time.sleep(0.05)
    # Its worker has made the cell and trains it: the runner needs no second copy of the library.
    assert "libtorch" not in Path(f"/proc/{runner.pid}/maps").read_text()
    runner.terminate()
    runner.communicate()
    assert runner.returncode == 130
    state = json.loads(call("status", root, "--json").stdout)
    assert state["whole"]["running"] == 0
    none, some = sorted(cell["steps"] for cell in state["cells"])
    assert none == 0, "one cell was never begun"
    assert 0 < some < 2 * 65_536
    assert state["whole"]["steps"] == some


def test_a_closed_terminal_stops_the_study_like_ctrl_c(study, tmp_path):
    study.write_text(STUDY % (655_360, 160))
    root = tmp_path / "results" / "tiny"
    ours, theirs = pty.openpty()

    def lead_session() -> None:
        # Under nohup the signal would be ignored, as it should be.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    runner = subprocess.Popen(
        command("run", study, "--results", root.parent, "--workers", 1),
        cwd=REPOSITORY,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lead_session,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    while not list(root.glob("runs/*/checkpoint.bin")):
        assert runner.poll() is None
        with contextlib.suppress(OSError):
            os.read(ours, 65536)
        time.sleep(0.05)
    os.close(ours)
    assert runner.wait(timeout=120) == 130
    assert not list(root.glob("leases/*"))
    assert [e["event"] for e in RunStore(root).ledger.read()][-1] == "interrupt"
    assert list(root.glob("runs/*/checkpoint.bin"))
