"""Results are matched with a study by what it asks and trains, not by its name alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pacebench import harness
from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.runner import launch
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml

ASKED: dict[str, Any] = {
    "name": "mine",
    "question": "Is spgl better?",
    "curricula": ["default", "spgl"],
    "setups": ["point-mass-2"],
    "seeds": {"count": 2},
    "budget": 20_000,
}
OTHER = {"question": "Do landers land?", "setups": ["lunar-lander"]}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder in which the study was planned."""
    monkeypatch.chdir(tmp_path)
    study = Study.model_validate(ASKED)
    store = RunStore(tmp_path / "results" / "mine")
    store.extend_manifest("mine", study.model_dump(mode="json"), expand(study))
    return tmp_path / "results"


def _status(**changes: Any) -> tuple[int, str]:
    Path("mine.yaml").write_text(to_yaml({**ASKED, **changes}))
    done = CliRunner().invoke(app, ["status", "mine.yaml"])
    return done.exit_code, done.output + str(done.exception or "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (OTHER, 'setups was ["point-mass-2"] and is now ["lunar-lander"].'),
        ({"budget": 30_000}, "budget was 20000 and is now 30000."),
        ({"curricula": ["default", "linear"]}, 'curricula.linear.name was absent and is now "lin'),
        ({"seeds": {"count": 2, "root": 1}}, "seeds.root was 0 and is now 1."),
    ],
)
def test_results_of_something_else_are_refused(results: Path, changes, said: str) -> None:
    _, output = _status(**changes)
    assert said in output
    assert "give the folder results/mine instead of the study" in output
    assert "0/4 runs done" not in output


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"seeds": {"count": 5}}, "seeds.count was 2 and is now 5."),
        ({"seeds": {"start": 2, "max": 9}}, "seeds.count was 2 and is now 9."),
        ({"curricula": ["spgl", "default"]}, None),
        ({"statistics": {"alpha": 0.01}}, "statistics.alpha was 0.05 and is now 0.01."),
        ({"question": "Is spgl any better?"}, "question was"),
    ],
)
def test_what_makes_no_other_study_of_it_is_said(results: Path, changes, said: str | None) -> None:
    code, output = _status(**changes)
    assert code == 0
    assert "0/4 runs done" in output
    assert ("Since these results were made" in output) == (said is not None)
    assert said is None or said in output


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        (OTHER, False),
        ({"question": "Another?", "seeds": {"count": 2, "root": 3}}, False),
        ({"question": "In other words?"}, True),
        ({"question": "In other words?", "seeds": {"count": 9}}, True),
        ({"budget": 30_000}, True),
    ],
)
def test_run_goes_on_with_the_same_study_only(results, changes, accepted, monkeypatch) -> None:
    """Whatever code the runs there are was made by."""
    manifest = RunStore(results / "mine").manifest()
    assert manifest is not None
    old = Study.model_validate(ASKED)
    made = [
        run.model_copy(update={"cell": run.cell.model_copy(update={"versions": {"training": "0"}})})
        for run in expand(old)
    ]
    (results / "mine" / "manifest.json").unlink()
    RunStore(results / "mine").extend_manifest("mine", old.model_dump(mode="json"), made)
    ran: list[str] = []
    monkeypatch.setattr(launch, "run", lambda study, **_: ran.append(study.name))
    study = Study.model_validate({**ASKED, **changes})
    if accepted:
        harness.run(study)
        assert ran == ["mine"]
        return
    with pytest.raises(UserError, match="another study called 'mine'") as caught:
        harness.run(study)
    assert "question was" in str(caught.value)
    assert not ran
