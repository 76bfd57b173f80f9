"""Training, playing and reporting on what a study file declares, discrete actions included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness import load_results, load_study, report, run
from pacebench.harness.analysis.scores import scales_of
from pacebench.harness.errors import UserError
from pacebench.harness.runner.launch import RunOptions
from pacebench.harness.runner.playing import load_player
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml

CARTPOLE: dict[str, Any] = {
    "name": "poles",
    "question": "Does it run from the file alone?",
    "curricula": ["default", "spgl"],
    "setups": [
        {
            "name": "heavy-cart",
            "environment": "gymnasium:CartPole-v1",
            "context": {"force_mag": [5, 15], "gravity": [5, 15]},
            "target": {"mean": [8, 12], "variance": [0.1, 0.1]},
            "threshold": 20,
            "horizon": 100,
            "success": {"return": 100},
            "min_return": 0,
            "max_return": 100,
        }
    ],
    "learner": {"name": "ppo", "params": {"n_envs": 4, "n_steps": 64, "n_epochs": 2}},
    "seeds": {"count": 1},
    "budget": 1024,
    "evaluation": {"points": 2, "contexts": 8},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two runs in worker processes, which know nothing but what is sent to them."""
    folder = tmp_path_factory.mktemp("declared")
    file = folder / "poles.yaml"
    file.write_text(to_yaml(CARTPOLE))
    summary = run(load_study(file), results=folder / "results", options=RunOptions(workers=1))
    assert summary.statuses == {"ok": 2}
    return folder / "results" / "poles"


def test_a_declared_setup_is_trained_evaluated_and_played(finished: Path) -> None:
    frames = load_results(finished)
    episodes = frames.evaluations
    assert set(episodes["distribution"]) >= {"target", "initial"}
    assert ((episodes["return"] >= 1) & (episodes["return"] <= 100)).all()
    folder = next((finished / "runs").iterdir())
    player = load_player(folder)
    batch = envs.make_batch(player.setup, 3, 0)
    actions = player(batch.reset(np.tile(player.setup.target_mean, (3, 1))))
    assert actions.shape == (3,)
    batch.step(actions)


def test_a_report_without_anchors_is_of_raw_returns(finished: Path) -> None:
    report(finished)
    text = (finished / "report" / "report.md").read_text()
    assert "no anchors: raw returns" in text
    assert "without anchors it is the raw return" in text


def test_raw_scales() -> None:
    study = Study.model_validate(CARTPOLE)
    (scale,) = scales_of(study).values()
    assert scale.raw_only
    assert (scale.unit, scale.normalise(7.0), scale.floor, scale.bounded) == (1.0, 7.0, 0.0, True)
    two = {**CARTPOLE, "setups": [*CARTPOLE["setups"], "point-mass-2"]}
    with pytest.raises(UserError, match="cannot be averaged with those of other setups"):
        scales_of(Study.model_validate(two))
