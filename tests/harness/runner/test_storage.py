"""Disks that are full or read-only: a sentence, nothing lost, and on it goes when mended."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.store import files
from pacebench.harness.store.store import RunStore
from tests.harness.runner.drive import start
from tests.harness.runner.plans import digests, launch_at, plan_cell

pytestmark = pytest.mark.slow


def mount(*arguments: str) -> bool:
    command = ["mount", *arguments]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)):
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_stops_the_study_and_costs_nothing_that_was_recorded(small_disk, launch):
    root = small_disk / "walks"
    cells = [plan_cell(f"c{i}", seeds=4, points=4, x=i) for i in range(6)]
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(700 * 1024))
    with pytest.raises(UserError, match="No space left on device; free some space and run"):
        launch_at(root, *cells)
    store = RunStore(root)
    good, bad = store.scan(entry.run_id for entry in store.manifest().entries)
    assert bad == {}
    assert 0 < len(good) < 24
    assert not list(root.rglob("*.tmp"))
    before = digests(root)
    ballast.unlink()
    assert mount("-o", "remount,size=16m", str(small_disk))
    summary, _, _ = launch_at(root, *cells)
    assert summary.statuses == {"ok": 24}, "a full disk is nobody's failure"
    _, whole, _ = launch(*cells)
    after = digests(root)
    assert after == digests(whole.root)
    assert before.items() <= after.items()


def test_a_read_only_folder_is_refused_with_a_sentence(small_disk):
    assert mount("-o", "remount,ro", str(small_disk))
    with pytest.raises(UserError, match="Read-only file system; make it writable"):
        launch_at(small_disk / "walks", plan_cell(seeds=1))


def test_a_folder_that_is_a_file_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "walks").write_text("not a folder")
    with pytest.raises(UserError, match="walks: is a file where a folder is meant"):
        launch_at(tmp_path / "walks", plan_cell(seeds=1))


@pytest.mark.parametrize("how", ["deleted", "moved", "one record"])
def test_results_that_vanish_while_running_are_no_success(tmp_path, how, hurry):
    root = tmp_path / "walks"
    cells = [{"label": f"c{i}", "seeds": 1, "points": 4, "seconds": 0.2, "x": i} for i in range(6)]
    runner = start(root, {"cells": cells, "workers": 1})
    end = time.monotonic() + 120
    # The first of three has been noted as done for certain; a later one would simply be made again.
    while len(done := sorted(root.glob("runs/*/run.json"), key=os.path.getmtime)) < 3:
        assert runner.poll() is None, runner.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    if how == "deleted":
        shutil.rmtree(root, ignore_errors=True)
    elif how == "moved":
        root.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(done[0].parent)
    hurry()
    out, err = runner.communicate(timeout=120)
    assert runner.returncode != 0
    assert "deleted or moved away while the study ran" in err
    assert "ok" not in out
    runner = start(root, {"cells": cells, "workers": 1})
    out, err = runner.communicate(timeout=120)
    assert json.loads(out)["statuses"] == {"ok": 6}, err


def test_a_file_system_without_locks_is_said_once(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "lockf", refuse)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            summary, _, _ = launch_at(tmp_path / "walks", plan_cell(seeds=1))
            assert summary.statuses == {"ok": 1}
    assert len([w for w in said if "refuses locks" in str(w.message)]) == 1
