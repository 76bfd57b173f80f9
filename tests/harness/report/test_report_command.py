"""`report`, `plan` and `freeze` on a real results folder, through the command line."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.analysis.history import history_of
from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.report import make, render
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import to_yaml
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

METHODS = (
    Method("default", 0.40, 0.10),
    Method("spgl", 0.80, 0.08, epsilon=0.05, status={2: "diverged"}),
)
SETUPS = ("point-mass-2",)


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def study() -> Study:
    return synthetic.study(METHODS, SETUPS, 10)


@pytest.fixture
def file(study: Study, tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(to_yaml(study.model_dump(mode="json")))
    return path


@pytest.fixture
def results(study: Study, tmp_path: Path) -> Path:
    """A results folder with all runs of the study; the anchors are the shipped ones."""
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=study)
    synthetic.store(tmp_path / "results" / study.name, study, frames)
    return tmp_path / "results"


@pytest.fixture
def pilot(study: Study, tmp_path: Path) -> Path:
    """Results of the same methods with another root seed."""
    other = study.model_copy(
        update={"name": "pilot", "seeds": study.seeds.model_copy(update={"root": 99})}
    )
    methods = tuple(replace(method, status={}) for method in METHODS)
    frames = synthetic.frames(methods, SETUPS, 10, updates=6, plan=other)
    synthetic.store(tmp_path / "pilot", other, frames)
    return tmp_path / "pilot"


@pytest.mark.slow
def test_report_of_a_frozen_study_is_confirmatory_and_noted(
    file: Path, study: Study, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    code, said = call("freeze", file, "--results", results)
    assert code == 0
    assert "SHA-256" in said
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=study)
    synthetic.store(results / study.name, study, frames)
    code, said = call("report", file, "--results", results)
    assert code == 0, said
    assert "undecided" in said
    assert "Exploratory" not in said
    folder = results / study.name / "report"
    assert said.strip().endswith(str(folder / "index.html"))
    assert (folder / "index.html").stat().st_size > 100_000
    for name in ("report.md", "tables/verdicts.csv", "tables/verdicts.tex", "paper/example.tex"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "figures").glob("*.svg"))
    # The terminal shows the first screen: question, answer, grid, contrasts.
    told = " ".join(said.split())
    assert study.question in told
    assert "After 10 seeds the question whether spgl and default differ on point-mass-2" in told
    assert "against default point-mass-2 spgl ? undecided" in told
    assert "●" in said
    (noted,) = [e for e in Ledger(results / study.name).read() if e["event"] == "report"]
    assert noted["runs_known"] == [10]

    # Again, from the folder: the same bytes but for the provenance.
    dated = (".html", ".md", ".json")
    before = {p: p.read_bytes() for p in folder.rglob("*.*") if p.suffix not in dated}
    code, _ = call("report", results / study.name)
    assert code == 0
    assert len(before) > 30
    assert {p: p.read_bytes() for p in before} == before
    assert len([e for e in Ledger(results / study.name).read() if e["event"] == "report"]) == 2


def test_the_function_of_the_same_name_as_its_package(tmp_path: Path) -> None:
    # Importing a room must not put it into the place of the function.
    from pacebench import harness

    for _ in range(2):
        with pytest.raises(UserError, match="no results here"):
            harness.report(tmp_path)


@pytest.mark.slow
def test_an_unfinished_study_may_be_looked_at_but_it_is_remembered(
    results: Path, file: Path, study: Study
) -> None:
    root = results / study.name
    for folder in sorted((root / "runs").iterdir())[::2]:
        shutil.rmtree(folder)
    code, said = call("report", file, "--results", results)
    assert code == 0
    assert "undecided" in said
    (noted,) = [e for e in Ledger(root).read() if e["event"] == "report"]
    assert 0 < min(noted["runs_known"]) <= max(noted["runs_known"]) < 10
    # The next report, of all runs, knows of it.
    assert history_of(Ledger(root)).looks == tuple(noted["runs_known"])


@pytest.mark.slow
def test_amendments_are_listed_in_the_report(results: Path, file: Path, study: Study) -> None:
    root = results / study.name
    assert call("freeze", file, "--results", results)[0] == 0
    changed = study.model_copy(
        update={"statistics": study.statistics.model_copy(update={"smallest_effect": 0.2})}
    )
    file.write_text(to_yaml(changed.model_dump(mode="json")))
    code, said = call("freeze", file, "--results", results)
    assert code == 2
    assert "smallest_effect was frozen as 0.1 and is now 0.2" in said
    code, said = call("freeze", file, "--results", results, "--amend", "we <care> about more")
    assert code == 0
    assert "exploratory" in said
    synthetic.store(root, changed, synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=changed))
    code, said = call("report", file, "--results", results)
    assert code == 0
    assert "after 20 runs had finished" in " ".join(said.split())
    page = (root / "report" / "index.html").read_text()
    assert "we &lt;care&gt; about more" in page
    assert "smallest_effect was frozen as 0.1 and is now 0.2." in page


def test_user_mistakes_are_sentences(file: Path, tmp_path: Path, study: Study) -> None:
    code, said = call("report", file, "--results", tmp_path / "nowhere")
    assert code == 2
    assert "run the study first" in said
    assert call("plan", file, "--pilot", tmp_path / "nowhere")[0] == 2


def test_a_study_without_a_finished_run_is_no_look(tmp_path: Path, study: Study) -> None:
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=study)
    frames.runs["status"] = "missing"
    synthetic.store(tmp_path / study.name, study, frames)
    code, said = call("report", tmp_path / study.name)
    assert code == 2
    assert "no run has finished yet" in said
    assert Ledger(tmp_path / study.name).read() == []


@pytest.mark.slow
def test_all_studies_are_reported_indexed_and_compared(
    results: Path, study: Study, tmp_path: Path
) -> None:
    other = study.model_copy(
        update={"name": "other", "seeds": study.seeds.model_copy(update={"root": 99})}
    )
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=other)
    synthetic.store(results / "other", other, frames)
    (results / "notes").mkdir()
    code, said = call("report", "--all", "--results", results)
    assert code == 0, said
    index = (results / "index.html").read_text()
    for name in ("synthetic", "other"):
        assert f'href="{name}/report/index.html"' in index
        assert (results / name / "report" / "index.html").is_file()
    assert index.count("? undecided</span>") == 2
    folder = results / "other" / "report"
    links = set(re.findall(r'href="([^#"]+[.]...)"', (folder / "index.html").read_text()))
    assert {Path(link).suffix for link in links} == {".svg", ".csv", ".tex"}
    assert all((folder / link).is_file() for link in links)

    code, said = call("report", results / "synthetic", "--compare", results / "other")
    assert code == 0, said
    page = (results / "synthetic" / "report" / "compared-with-other.html").read_text()
    assert "root seed: 7 in synthetic, 99 in other." in page
    assert "No verdict is made across studies" in page
    assert page.count("spgl · other") > 1
    code, said = call("report", results / "other", "--compare", results / "other")
    assert code == 2
    assert "cannot be compared with itself" in " ".join(said.split())


def test_a_report_is_of_one_study_or_of_all(tmp_path: Path) -> None:
    for arguments in ((), ("quick", "--all")):
        code, said = call("report", *arguments)
        assert code == 2
        assert "name a study to report, or give --all alone" in " ".join(said.split())
    code, said = call("report", "--all", "--results", tmp_path)
    assert code == 2
    assert "no study here has a finished run" in " ".join(said.split())


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@contextlib.contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """A folder that not even root can write to, where root may mount."""
    if os.geteuid():
        os.chmod(folder, 0o555)
        yield
        os.chmod(folder, 0o755)
        return
    if subprocess.run(
        ["mount", "--bind", str(folder), str(folder)], capture_output=True
    ).returncode:
        pytest.skip("root may not mount anything here, and may write everywhere")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_report_is_whole_or_the_one_before(
    results: Path, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = results / study.name
    made = make.report(root)
    before = _content(root / "report")
    assert any(name.startswith("figures/") for name in before)

    def interrupt(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(render, "page", interrupt)
        with pytest.raises(KeyboardInterrupt):
            make.write(made.document, made.view, root / "report")
    assert _content(root / "report") == before
    (root / "report" / "notes.txt").write_text("the user's own")
    (root / "report" / "tables" / "old.csv").write_text("of an earlier report")
    make.write(made.document, made.view, root / "report")
    after = _content(root / "report")
    assert "tables/old.csv" not in after, "files that the new report does not have are gone"
    assert after["notes.txt"] == b"the user's own"
    with _read_only(root):
        code, said = call("report", root)
        assert code == 2
        assert "make it writable" in said
        code, said = call("report", root, "--out", tmp_path / "elsewhere")
    assert code == 0, said
    assert "This look at the data is not noted in the study's ledger" in " ".join(said.split())
    assert "is not noted in the study" in (tmp_path / "elsewhere" / "index.html").read_text()


def test_plan_needs_a_pilot_or_mixtures(file: Path) -> None:
    code, said = call("plan", file)
    assert code == 2
    assert "--pilot" in said
    assert "--assume" in said


def test_plan_from_mixtures(file: Path) -> None:
    """The specification's own figures: always against 40 %, range 88, are decided by 15 seeds."""
    arms = "spgl: 1@85±1.7, default: 0.4@85±1.7|15±2"
    code, said = call("plan", file, "--assume", arms)
    assert code == 0, said
    assert "better" in said
    (found,) = json.loads(call("plan", file, "--assume", arms, "--json")[1])
    assert found["verdicts"]["better"] > 0.95
    assert 10 < found["median"] <= found["most"] <= found["nearly_all"] < 60
    # A rarer success of the control is found sooner; two equal arms are called equivalent or not.
    (clearer,) = json.loads(
        call("plan", file, "--assume", "spgl: 1@85±1.7, default: 0.1@85±1.7|15±2", "--json")[1]
    )
    assert clearer["median"] < found["median"]
    (equal,) = json.loads(
        call("plan", file, "--assume", "spgl: 1@85±1.7, default: 1@85±1.7", "--json")[1]
    )
    assert equal["verdicts"]["better"] + equal["verdicts"]["worse"] < 0.05
    assert equal["verdicts"]["equivalent"] > 0.9


@pytest.mark.parametrize(
    ("assume", "sentence"),
    [
        ("spgl: high", "is no mixture"),
        ("spgl: 2@85±2, default: 1@8", "is no mixture"),
        ("spgl: 1@85±2", "says nothing about 'default'"),
        ("", "is no mixture"),
    ],
)
def test_mixtures_that_are_none(file: Path, assume: str, sentence: str) -> None:
    code, said = call("plan", file, "--assume", assume)
    assert code == 2
    assert sentence in " ".join(said.split())


def test_plan_from_a_pilot_mixes_in_failures_that_it_did_not_show(file: Path, pilot: Path) -> None:
    code, said = call("plan", file, "--pilot", pilot)
    assert code == 0, said
    assert "failures mixed in" in " ".join(said.split())
    found = json.loads(call("plan", file, "--pilot", pilot, "--json")[1])
    plain, failing = found
    assert (plain["failures"], failing["failures"]) == (False, True)
    assert plain["decided"] >= failing["decided"]
    assert plain["cpu_hours"] is None or plain["cpu_hours"] > 0


def test_a_study_must_not_plan_itself(results: Path, file: Path, study: Study) -> None:
    code, said = call("plan", file, "--pilot", results / study.name)
    assert code == 2
    assert "runs that judge a study must not plan it" in " ".join(said.split())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seeds": {"start": 20, "max": 10}}, "'start' must not exceed 'max'"),
        ({"seeds": {"start": 2, "step": 0, "max": 10}}, "seeds.step"),
        ({"seeds": {"start": 0, "max": 10}}, "seeds.start"),
        ({"statistics": {"comparisons": [["spgl", "defualt"]]}}, "'defualt' is not in the study"),
        ({"statistics": {"comparisons": [{"pair": ["spgl", "default"], "weight": -1}]}}, "weight"),
        (
            {"statistics": {"comparisons": [{"pair": ["spgl", "default"], "weight": math.nan}]}},
            "weight",
        ),
        ({"statistics": {"comparisons": [{"pair": ["spgl", "default"], "weight": 0}]}}, "weight"),
        ({"statistics": {"smallest_effect": math.nan}}, "smallest_effect"),
        ({"statistics": {"alpha": 1.0}}, "alpha"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(
    study: Study, tmp_path: Path, change: dict, sentence: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(to_yaml({**study.model_dump(mode="json"), **change}))
    for command in ("check", "freeze", "run"):
        code, said = call(command, path)
        assert code == 2, said
        assert str(path) in said
        assert sentence in said
        assert "Traceback" not in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (1e6, "outside the range [0.0, 93.3] that the setup declares"),
        (math.nan, "or one that is not a number"),
    ],
)
def test_a_score_that_cannot_be_is_a_sentence(
    study: Study, tmp_path: Path, value: float, sentence: str
) -> None:
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=study)
    last = frames.evaluations["step"] == frames.evaluations["step"].max()
    first = frames.evaluations[last & (frames.evaluations["label"] == "spgl")].index[0]
    frames.evaluations.loc[first, "return"] = value
    synthetic.store(tmp_path / study.name, study, frames)
    for command in ("report", "status"):
        code, said = call(command, tmp_path / study.name)
        if command == "report":
            assert code == 2, said
            assert sentence in said
            assert "('spgl' on 'point-mass-2', seed 0)" in said
        assert "Traceback" not in said
