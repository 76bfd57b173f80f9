"""`pacebench new` writes packages that pass `pacebench verify` as they are, and good studies."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli import app


@pytest.mark.slow
def test_what_is_generated_installs_verifies_and_checks(tmp_path: Path) -> None:
    """As pip would leave them: modules on the path, entry points in their dist-info."""
    runner, folders, tests, studies = CliRunner(), [], [], []
    for part, group in (("curriculum", "curricula"), ("setup", "setups"), ("learner", "learners")):
        name, folder = f"my-{part}", tmp_path / f"my-{part}"
        made = runner.invoke(app, ["new", part, name, "--folder", str(folder)])
        assert made.exit_code == 0, made.output
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        points = project["entry-points"][f"pacebench.{group}"]
        info = folder / f"{name.replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {project['version']}\n")
        lines = [f"{key} = {value}" for key, value in points.items()]
        (info / "entry_points.txt").write_text(f"[pacebench.{group}]\n" + "\n".join(lines) + "\n")
        folders.append(str(folder))
        tests += [str(path) for path in folder.glob("test_*.py")]
        studies += [str(path) for path in folder.glob("*.yaml")]
    made = runner.invoke(app, ["new", "study", "my-study", "--folder", str(tmp_path / "my-study")])
    assert made.exit_code == 0, made.output
    studies.append(str(tmp_path / "my-study.yaml"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}
    flags = ("-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    command = [sys.executable, "-m", "pytest", *flags, *tests]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    script = "import sys; from pacebench import harness; [*map(harness.load_study, sys.argv[1:])]"
    command = [sys.executable, "-c", script, *studies]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["My", "a b", "", "-x", "ä", "a_b", "../up"])
def test_names_that_cannot_be_used_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "there"
    made = CliRunner().invoke(app, ["new", "setup", "--folder", str(folder), "--", name])
    assert made.exit_code == 2
    assert not folder.exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    made = CliRunner().invoke(app, ["new", "setup", "mine", "--folder", str(tmp_path / "mine")])
    assert made.exit_code == 2
    assert "is there already" in made.output
    assert list((tmp_path / "mine").iterdir()) == []
