"""Episodes of scripted policies, and the anchors measured from them."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.random import SeedSequence
from typer.testing import CliRunner

from docs.examples import pendulum
from pacebench import envs
from pacebench.envs import anchor_files, rollout
from pacebench.envs.anchor_files import find_anchors, write_anchors
from pacebench.envs.anchoring import measure_anchors
from pacebench.envs.rollout import draw_contexts, play
from pacebench.harness.cli import app
from tests.envs.conftest import shortened


def test_episodes_equal_those_of_single_environments() -> None:
    setup = shortened("point-mass-2", 40)
    contexts = draw_contexts(setup, 7, SeedSequence(1), "initial")
    played = play(setup, "hold", contexts, SeedSequence(2))
    seeds = SeedSequence(2).spawn(7)
    for i in range(7):
        env = envs.make(setup)
        env.reset(seed=seeds[i], options={"context": contexts[i]})
        rewards, over = [], False
        while not over:
            _, reward, terminated, truncated, info = env.step(np.zeros(2))
            rewards.append(reward)
            over = terminated or truncated
        assert played.lengths[i] == len(rewards)
        assert played.returns[i] == pytest.approx(sum(rewards))
        weighted = sum(r * setup.gamma**t for t, r in enumerate(rewards))
        assert played.discounted_returns[i] == pytest.approx(weighted)
        assert played.successes[i] == info["success"]
        assert played.terminated[i] == terminated


def test_episodes_do_not_depend_on_how_many_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = draw_contexts("point-mass-1", 11, SeedSequence(1))
    together = play("point-mass-1", "reference", contexts, SeedSequence(2))
    monkeypatch.setattr(rollout, "_COPIES", 3)
    apart = play("point-mass-1", "reference", contexts, SeedSequence(2))
    assert np.array_equal(together.returns, apart.returns)
    assert np.array_equal(together.lengths, apart.lengths)


@pytest.mark.parametrize("which", ["initial", "target"])
def test_contexts_are_drawn_from_the_asked_distribution(which: str) -> None:
    setup = envs.setup("lunar-lander")
    drawn = draw_contexts(setup, 4000, SeedSequence(0), which)
    variance = np.array(getattr(setup, f"{which}_variance"))
    mean = getattr(setup, f"{which}_mean")
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4000)).all()
    assert drawn.var(axis=0) == pytest.approx(variance, rel=5 * np.sqrt(2 / 4000))


def test_measured_anchors_carry_means_and_standard_errors() -> None:
    measured = measure_anchors("point-mass-2", 60, 3, "command")
    contexts_seed, episodes_seed = SeedSequence(3).spawn(2)
    contexts = draw_contexts("point-mass-2", 60, contexts_seed)
    played = play("point-mass-2", "reference", contexts, episodes_seed)
    assert measured.reference.mean_return == pytest.approx(played.returns.mean())
    assert measured.reference.return_se == pytest.approx(played.returns.std(ddof=1) / 60**0.5)
    assert measured.reference.success_rate == played.successes.mean()
    assert measured.baseline.policy == "random"
    assert (measured.episodes, measured.seed, measured.command) == (60, 3, "command")
    with pytest.raises(envs.SetupError, match="at least two episodes"):
        measure_anchors("point-mass-2", 1, 3, "")


def test_stored_anchors_agree_with_a_fresh_measurement() -> None:
    """Other seeds, so only within the standard errors."""
    for name in ("point-mass-1", "point-mass-2", "point-mass-spdl"):
        stored = envs.setup(name).anchors
        assert stored is not None
        fresh = measure_anchors(name, 300, 77, "")
        for kept, now in ((stored.baseline, fresh.baseline), (stored.reference, fresh.reference)):
            error = np.hypot(kept.return_se, now.return_se)
            assert abs(kept.mean_return - now.mean_return) < 5 * error


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An outside module that registers a setup, and a configuration folder of the user's."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "outside_setup.py").write_text(
        "import dataclasses\nfrom pacebench import envs\n"
        "SETUP = envs.register(dataclasses.replace("
        "envs.setup('point-mass-2'), name='outside', anchors=None))\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PACEBENCH_CONFIG", str(tmp_path / "config"))
    importlib.invalidate_caches()
    importlib.import_module("outside_setup")
    yield folder
    envs.unregister("outside")
    del sys.modules["outside_setup"]


def test_anchors_live_beside_the_module_of_their_setup(package: Path) -> None:
    assert envs.setup("outside").anchors is None
    told = CliRunner().invoke(app, ["anchors", "outside", "--episodes", "20", "--write"])
    assert told.exit_code == 0, told.output
    assert [path.name for path in package.glob("*.json")] == ["anchors.json"]
    anchors = envs.setup("outside").anchors
    assert anchors is not None
    assert anchors.episodes == 20
    # Those of other figures are not its own.
    other = dataclasses.replace(envs.setup("outside"), target_mean=(1.0, 1.0, 0.1), anchors=None)
    assert find_anchors(other, "outside_setup") is None
    elsewhere = dataclasses.replace(other, name="more")
    write_anchors(elsewhere, anchors, "outside_setup")
    assert list(json.loads((package / "anchors.json").read_text())) == ["more", "outside"]
    (package / "anchors.json").write_text("[1")
    with pytest.raises(envs.SetupError, match=r"anchors\.json' cannot be read .* delete the file"):
        envs.setup("outside")


def test_where_the_module_cannot_be_written_to_the_user_keeps_them(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = anchor_files.os.access
    monkeypatch.setattr(
        anchor_files.os, "access", lambda path, mode: path != package and access(path, mode)
    )
    spec = envs.setup("outside")
    kept = write_anchors(spec, measure_anchors(spec, 4, 0, "mine"), "outside_setup")
    assert kept == tmp_path / "config" / "anchors.json"
    found = envs.setup("outside").anchors
    assert found is not None
    assert found.command == "mine"


def test_without_a_reference_policy_a_declared_return_is_one() -> None:
    measured = measure_anchors(pendulum.SETUP, 4, 0, "")
    assert measured.reference == envs.PolicyScore("declared", -250.0)
    assert measured.baseline.policy == "random"
    assert measured.normalise(-250.0) == 1.0
    unknown = dataclasses.replace(pendulum.SETUP, reference_return=None)
    with pytest.raises(envs.SetupError, match="no reference policy"):
        measure_anchors(unknown, 4, 0, "")


def test_the_command_measures_and_writes_only_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "anchors.json"
    monkeypatch.setattr(anchor_files, "files", lambda _: [path])
    runner = CliRunner()
    shown = runner.invoke(app, ["anchors", "point-mass-1", "--episodes", "20", "--json"])
    assert shown.exit_code == 0
    assert json.loads(shown.output)["point-mass-1"]["episodes"] == 20
    assert not path.exists()
    told = runner.invoke(app, ["anchors", "point-mass-1", "--episodes", "20", "--write"])
    assert told.exit_code == 0
    assert "20 episodes" in told.output
    command = json.loads(path.read_text())["point-mass-1"]["command"]
    assert command == "pacebench anchors point-mass-1 --episodes 20 --seed 0 --write"
    wrong = runner.invoke(app, ["anchors", "point-mas-1"])
    assert wrong.exit_code == 2
    assert "did you mean" in wrong.output


def test_the_documentation_quotes_the_stored_anchors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    for name in envs.names():
        anchors = envs.setup(name).anchors
        if envs.origin(name) == "pacebench" and anchors is not None:
            assert documented(name, anchors) in page


def documented(name: str, anchors: envs.Anchors) -> str:
    """The row of the table in docs/environments.md."""
    low, high = anchors.baseline, anchors.reference
    row = (
        f"| `{name}` | {low.policy} | {low.mean_return:.2f} ± {low.return_se:.2f} | {high.policy} "
        f"| {high.mean_return:.2f} ± {high.return_se:.2f} "
        f"| {high.discounted_return:.2f} ± {high.discounted_return_se:.2f} "
        f"| {100 * high.success_rate:.1f} % ± {100 * high.success_rate_se:.1f} |"
    )
    return row.replace("| -", "| −")


def test_anchors_that_give_no_scale_are_refused() -> None:
    anchors = envs.setup("point-mass-1").anchors
    assert anchors is not None
    for reference in (anchors.baseline, replace(anchors.reference, mean_return=float("nan"))):
        with pytest.raises(envs.SetupError, match="no scale; give a better reference"):
            replace(anchors, reference=reference)


def test_the_command_measures_what_a_study_file_declares() -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "pendulum.yaml"
    shown = CliRunner().invoke(app, ["anchors", str(example), "--episodes", "4"])
    assert shown.exit_code == 0, shown.output
    assert "heavy-pendulum: random return" in shown.output
    assert "anchors: {random: -" in shown.output
    plain = CliRunner().invoke(app, ["anchors", str(example), "--episodes", "4", "--json"])
    assert json.loads(plain.output)["heavy-pendulum"] < -500
