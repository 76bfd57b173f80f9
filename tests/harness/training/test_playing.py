"""`pacebench play`: an episode of a stored policy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.cli.app import app
from pacebench.harness.records import Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.store.runs import failed, write_run
from pacebench.harness.study.specs import PlannedRun
from pacebench.harness.training import train
from tests.harness.training.cells import make_cell

cli = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cell = make_cell(budget=1000, steps=(1000,), contexts=2, params={"norm_obs": True})
    seed = RunSeed(root=0, index=0)
    run = PlannedRun(label="spgl", cell=cell, seed=seed)
    path = tmp_path_factory.mktemp("study") / "runs" / run.run_id
    write_run(path, run, train(cell, [seed])[0], {})
    return path


@pytest.mark.parametrize("arguments", [[], ["--stochastic", "--seed", "3"], ["--context", "0,4,2"]])
def test_an_episode_is_drawn(folder: Path, tmp_path: Path, arguments: list[str]) -> None:
    out = tmp_path / "episode.png"
    done = cli.invoke(app, ["play", str(folder), "--out", str(out), *arguments])
    assert done.exit_code == 0, done.output
    assert out.read_bytes()[:4] == b"\x89PNG"
    assert "return" in done.output


def test_an_animation_moves(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    assert cli.invoke(app, ["play", str(folder)]).exit_code == 0
    with Image.open(tmp_path / "episode.gif") as image:
        assert getattr(image, "n_frames", 1) > 5


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    run = PlannedRun(label="spgl", cell=make_cell(), seed=RunSeed(root=0, index=1))
    unlucky = tmp_path / "runs" / run.run_id
    write_run(unlucky, run, failed(run.seed, Status.DIVERGED, "It broke."), {})
    passed_on = tmp_path / "runs" / folder.name
    shutil.copytree(folder, passed_on, ignore=shutil.ignore_patterns("policy.safetensors"))
    for path, out, expected in (
        (passed_on, "a.png", "passed on without its policy"),
        (tmp_path / "nowhere", "a.png", "no finished run"),
        (unlucky, "a.png", "left no policy"),
        (folder, "a.jpeg", ".png or .gif"),
    ):
        done = cli.invoke(app, ["play", str(path), "--out", str(tmp_path / out)])
        assert done.exit_code == 2
        assert expected in done.output
        assert "Traceback" not in done.output
