"""Episodes of scripted policies, and the anchors measured from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.random import SeedSequence
from typer.testing import CliRunner

from pacebench import envs
from pacebench.envs import anchoring, catalogue, rollout
from pacebench.envs.anchoring import measure_anchors, write_anchors
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


def test_anchors_are_written_beside_those_of_other_setups(tmp_path: Path) -> None:
    path = tmp_path / "anchors.json"
    for name in ("point-mass-2", "point-mass-1"):
        write_anchors(name, measure_anchors(name, 4, 0, f"for {name}"), path)
    stored = json.loads(path.read_text())
    assert list(stored) == ["point-mass-1", "point-mass-2"]
    assert envs.Anchors.from_dict(stored["point-mass-2"]).command == "for point-mass-2"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_measures_and_writes_only_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "anchors.json"
    monkeypatch.setattr(catalogue, "ANCHORS_FILE", path)
    monkeypatch.setattr(anchoring.write_anchors, "__defaults__", (path,))
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
