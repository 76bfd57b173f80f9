"""Setups that a study file declares itself: no Python, and every mistake named where it stands."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from pacebench import envs
from pacebench.harness.errors import UserError
from pacebench.harness.study.expand import expand
from pacebench.harness.study.load import load_study
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import PlannedRun
from pacebench.harness.study.yaml_nodes import to_yaml

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pendulum.yaml"
STUDY: dict[str, Any] = {
    "name": "mine",
    "question": "Does it work?",
    "curricula": ["default", "spgl"],
    "setups": [
        "point-mass-2",
        {
            "name": "swing",
            "environment": "gymnasium:Pendulum-v1",
            "context": {"g": [5, 15], "mass": {"bounds": [0.5, 1.5], "at": "m"}},
            "target": {"mean": {"g": 11, "mass": 1.2}, "variance": [0.1, 0.01]},
            "threshold": -60,
            "anchors": {"random": -1200, "reference": -150},
        },
    ],
    "seeds": {"count": 2},
    "budget": 100_000,
}


def changed(**changes: Any) -> dict[str, Any]:
    study = copy.deepcopy(STUDY)
    study["setups"][1] |= changes
    study["setups"][1] = {k: v for k, v in study["setups"][1].items() if v is not ...}
    return study


def loaded(tmp_path: Path, data: Any) -> Study:
    file = tmp_path / "study.yaml"
    file.write_text(to_yaml(data))
    return load_study(file)


def test_the_example_is_short_and_says_what_a_setup_says() -> None:
    lines = [x for x in EXAMPLE.read_text().splitlines() if x and not x.startswith("#")]
    assert len(lines) <= 15
    study = load_study(EXAMPLE)
    setup = study.setup("heavy-pendulum")
    assert (setup.horizon, setup.gamma, setup.visible) == (200, 0.99, True)
    assert setup.success == "the return is at least -400"
    assert setup.anchors is None


def test_a_declared_setup_travels_in_the_cell(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY)
    assert study.setups == ("point-mass-2", "swing")
    assert Study.model_validate(study.model_dump(mode="json")) == study
    assert study.setup("swing").anchors == envs.Anchors.declared(
        -1200, -150, "declared in the study file"
    )
    runs = expand(study)
    ours = next(run for run in runs if run.cell.setup == "point-mass-2")
    theirs = next(run for run in runs if run.cell.setup == "swing")
    assert "declared" not in ours.cell.model_dump(mode="json")
    assert "swing" not in envs.names()
    again = PlannedRun.model_validate_json(theirs.model_dump_json())
    assert again.run_id == theirs.run_id
    task = again.cell.task
    assert task.gymnasium == study.setup("swing").gymnasium
    assert task.target_mean == (11.0, 1.2)
    assert theirs.cell.versions["environment"].startswith("gymnasium ")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"target": {"mean": [10, 1.2], "variance": [0.1, 0.01]}}, False),
        ({"context": {"g": [5, 16], "mass": {"bounds": [0.5, 1.5], "at": "m"}}}, False),
        ({"context": {"g": [5, 15], "mass": {"bounds": [0.5, 1.5], "at": "l"}}}, False),
        ({"success": {"return": -400}}, False),
        ({"horizon": 100}, False),
        ({"anchors": ..., "min_return": -4000}, True),
        ({"processes": 2}, True),
    ],
)
def test_run_ids_follow_the_declaration(
    tmp_path: Path, changes: dict[str, Any], same: bool
) -> None:
    first, second = (
        {run.run_id for run in expand(loaded(tmp_path, data)) if run.cell.setup == "swing"}
        for data in (STUDY, changed(**changes))
    )
    assert (first == second) == same


def test_run_ids_follow_the_version_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pacebench.harness.study import fingerprint

    before = {run.run_id for run in expand(loaded(tmp_path, STUDY))}
    monkeypatch.setattr(fingerprint, "_outside", lambda package: f"{package} 99")
    after = {run.run_id for run in expand(loaded(tmp_path, STUDY))}
    assert len(before & after) == 4, "runs on our own setup stay"
    assert len(after - before) == 4


@pytest.mark.parametrize(
    ("changes", "where", "what"),
    [
        ({"environment": "gymnasium:Pendulm-v1"}, "setups[1]", "Pendulm"),
        ({"environment": "Pendulum-v1"}, "setups[1].environment", ""),
        ({"environment": ...}, "setups[1].environment", "is missing"),
        ({"name": "point-mass-1"}, "setups[1]", "is a registered setup"),
        ({"name": "point-mass-2"}, "setups[1]", "is there already"),
        ({"name": "a b"}, "setups[1].name", "cannot be used as a name"),
        ({"contxt": {}}, "setups[1].contxt", "did you mean 'context'?"),
        ({"context": {}}, "setups[1].context", "at least 1"),
        ({"context": {"g": [5], "mass": [0, 1]}}, "setups[1].context", ""),
        (
            {
                "context": {"gg": [5, 15], "m": [1, 2]},
                "target": {"mean": [1, 1], "variance": [1, 1]},
            },
            "setups[1]",
            "has no attribute 'gg'",
        ),
        ({"target": {"mean": [1], "variance": [1]}}, "setups[1]", "needs 2 finite numbers"),
        ({"target": {"mean": [1, float("nan")], "variance": [1, 1]}}, "setups[1].target", "finite"),
        ({"target": {"kind": "mixture"}}, "setups[1]", "means, variances, weights"),
        ({"threshold": ...}, "setups[1].threshold", "is missing"),
        ({"gamma": 2}, "setups[1].gamma", "less than or equal to 1"),
        ({"horizon": 0}, "setups[1].horizon", "greater than or equal to 1"),
        ({"apply": "magic"}, "setups[1]", "'apply' must be one of"),
        ({"success": {"when": 1}}, "setups[1]", "'success' must be one of"),
        ({"anchors": {"random": 1}}, "setups[1].anchors.reference", "is missing"),
    ],
)  # fmt: skip
def test_mistakes_are_named_where_they_stand(
    tmp_path: Path, changes: dict[str, Any], where: str, what: str
) -> None:
    with pytest.raises(UserError) as caught:
        loaded(tmp_path, changed(**changes))
    sentences = caught.value.sentences
    assert any(where in s and what in s for s in sentences), sentences
    assert all("study.yaml" in s for s in sentences)


def test_declared_is_no_key_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="declare setups under 'setups'"):
        loaded(tmp_path, {**STUDY, "setups": ["point-mass-1"], "declared": []})
