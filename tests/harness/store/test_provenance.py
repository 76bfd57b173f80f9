"""The revision in a record is that of the code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pacebench.harness.store import provenance


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x.y")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_repository_around_an_environment_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "venv/lib/site-packages/pacebench/harness/store/provenance.py"
    own.parent.mkdir(parents=True)
    own.write_text("")
    (tmp_path / ".gitignore").write_text("venv\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".gitignore")
    _git(tmp_path, "commit", "-qm", "theirs")
    monkeypatch.setattr(provenance, "__file__", str(own))
    state = provenance.git_state.__wrapped__
    assert state() == (None, None), "site-packages inside somebody's repository"
    _git(tmp_path, "add", "-f", str(own))
    _git(tmp_path, "commit", "-qm", "ours, as of an editable install")
    assert state() == (_git(tmp_path, "rev-parse", "HEAD"), False)
    own.write_text("changed")
    assert state()[1] is True
