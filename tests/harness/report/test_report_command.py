"""`report`, `plan` and `freeze` on a real results folder, through the command line."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pacebench.harness.analysis.history import history_of
from pacebench.harness.cli import app
from pacebench.harness.errors import UserError
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.study.models import Study
from pacebench.harness.study.yaml_nodes import read_document, to_yaml
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
    assert "better" in said
    assert "Exploratory" not in said
    folder = results / study.name / "report"
    assert said.strip().endswith(str(folder / "index.html"))
    assert (folder / "index.html").stat().st_size > 100_000
    for name in ("report.md", "tables/verdicts.csv", "tables/verdicts.tex", "tables/runs.csv"):
        assert (folder / name).stat().st_size > 0
    assert list((folder / "figures").glob("*.svg"))
    assert list((folder / "figures").glob("*.png"))
    (noted,) = [e for e in Ledger(results / study.name).read() if e["event"] == "report"]
    assert noted["runs_known"] == [10]

    # Again, from the folder: the same bytes but for the provenance.
    before = {p: p.read_bytes() for p in folder.rglob("*.*") if p.suffix not in (".html", ".md")}
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
    assert "neither the planned 10 nor a declared look" in said
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
    assert "sesoi was frozen as 0.1 and is now 0.2" in said
    code, said = call("freeze", file, "--results", results, "--amend", "we <care> about more")
    assert code == 0
    assert "exploratory" in said
    synthetic.store(root, changed, synthetic.frames(METHODS, SETUPS, 10, updates=6, plan=changed))
    code, said = call("report", file, "--results", results)
    assert code == 0
    assert "frozen after 20 runs had finished" in said
    page = (root / "report" / "index.html").read_text()
    assert "we &lt;care&gt; about more" in page
    assert "sesoi was frozen as 0.1 and is now 0.2." in page


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
def test_a_report_without_svg_files_links_to_none(results: Path, study: Study) -> None:
    folder = results / study.name
    links = {}
    for option in ("--svg", "--no-svg"):
        assert call("report", folder, option)[0] == 0
        page = (folder / "report" / "index.html").read_text()
        links[option] = set(re.findall(r'href="([^#"]+[.](?:svg|png|csv|tex))"', page))
        assert links[option]
        assert all((folder / "report" / link).is_file() for link in links[option])
    assert {Path(link).suffix for link in links["--svg"] - links["--no-svg"]} == {".svg"}
    assert not list((folder / "report").rglob("*.svg"))


def test_plan_without_a_pilot_gives_a_range(file: Path) -> None:
    code, said = call("plan", file)
    assert code == 0
    assert "runs per cell to find 0.1" in said
    found = json.loads(call("plan", file, "--json")[1])
    # Two groups of n runs with standard deviation 0.1: the textbook has n = 17 for one σ, 80 %.
    (row,) = [r for r in found["spreads"] if r["spread"] == 0.1]
    assert row["runs"] == 17


def test_plan_from_a_pilot(file: Path, pilot: Path) -> None:
    code, said = call("plan", file, "--pilot", pilot)
    assert code == 0, said
    assert "point-mass-2: To find a difference of 0.1" in said
    assert "minimum detectable effect" in said
    assert "found equivalent within that difference" in " ".join(said.split())
    found = json.loads(call("plan", file, "--pilot", pilot, "--json")[1])
    planned = found["pilot"]["point-mass-2"]
    assert planned["pilot_runs"] == 10
    assert planned["runs"] <= planned["runs_cautious"]


def test_plan_keeps_to_declared_pairs_and_looks(file: Path, pilot: Path, tmp_path: Path) -> None:
    def planned(**declared: object) -> dict[str, float]:
        record = read_document(file).data
        record["statistics"] |= declared
        other = tmp_path / "declared.yaml"
        other.write_text(to_yaml(record))
        code, said = call("plan", other, "--pilot", pilot, "--json")
        assert code == 0, said
        return dict(json.loads(said)["pilot"]["point-mass-2"])

    plain, looks, pairs = planned(), planned(looks=[4, 8]), planned(paired=True)
    assert looks["detectable"] > plain["detectable"]
    # The pilot's methods are independent: pairing them changes little but is another analysis.
    assert pairs["detectable"] != plain["detectable"]
    record = read_document(file).data
    record["statistics"] |= {"paired": True, "looks": [4, 8]}
    file.write_text(to_yaml(record))
    code, said = call("plan", file)
    assert code == 0
    assert "takes them for unrelated" in " ".join(said.split())
    (row,) = [r for r in json.loads(call("plan", file, "--json")[1])["spreads"]
              if r["spread"] == 0.1]  # fmt: skip
    assert row["runs"] == 18  # one more than without looks


def test_a_study_must_not_plan_itself(results: Path, file: Path, study: Study) -> None:
    code, said = call("plan", file, "--pilot", results / study.name)
    assert code == 2
    assert "runs that judge a study must not plan it" in " ".join(said.split())
