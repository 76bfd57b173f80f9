"""A plan that came after the data protects nothing, however the data got here."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pacebench.harness.analysis import freeze
from pacebench.harness.analysis.analyse import analyse
from pacebench.harness.analysis.comparisons import compare, questions
from pacebench.harness.analysis.deviations import Standing, code_changes, noted, standing
from pacebench.harness.analysis.history import history_of
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from pacebench.harness.study.specs import by_cell
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method
from tests.harness.statistics.tables import score_table

METHODS = (Method("default", 0.40, 0.10), Method("spgl", 0.80, 0.08, epsilon=0.05))
SETUPS = ("point-mass-2",)
BEFORE, AFTER = "2001-01-01T00:00:00.000+00:00", "2101-01-01T00:00:00.000+00:00"


@pytest.fixture(scope="module")
def study() -> Study:
    return synthetic.study(METHODS, SETUPS, 10)


def fill(root: Path, study: Study, finished: str) -> None:
    frames = synthetic.frames(METHODS, SETUPS, 10, updates=3, plan=study)
    synthetic.store(root, study, frames, finished)


def stands(root: Path, study: Study) -> Standing:
    results = load_results(root)
    diary, changes = history_of(Ledger(root)), results.manifest.history
    return standing(freeze.load(root), study, results.runs, diary, changes)


def said(root: Path, study: Study) -> list[str]:
    return list(stands(root, study).doubts)


def named(study: Study, name: str) -> Study:
    return study.model_copy(update={"name": name})


def test_runs_made_after_the_freeze_are_protected(study: Study, tmp_path: Path) -> None:
    freeze.freeze(study, tmp_path / study.name)
    fill(tmp_path / study.name, study, AFTER)
    assert said(tmp_path / study.name, study) == []


def test_without_a_plan_nothing_is_protected(study: Study, tmp_path: Path) -> None:
    fill(tmp_path / study.name, study, BEFORE)
    assert said(tmp_path / study.name, study) == [
        "The plan was not frozen before the runs started."
    ]


@pytest.mark.parametrize("finished", [BEFORE, AFTER])
def test_runs_taken_over_bring_the_time_at_which_they_finished(
    study: Study, tmp_path: Path, finished: str
) -> None:
    root = tmp_path / study.name
    # Frozen where the other study's results are not, so that the plan cannot know of them.
    freeze.freeze(study, root)
    fill(tmp_path / "other", named(study, "other"), finished)
    store = RunStore(root)
    runs = expand(study)
    store.extend_manifest(study.name, study.model_dump(mode="json"), runs)
    taken = [run.run_id for run in by_cell(runs)[0]]
    assert all(store.share(run_id) is not None for run_id in taken)
    found = said(root, study)
    if finished == AFTER:
        assert found == []
    else:
        (sentence,) = found
        assert "10 of the 20 planned runs had finished before the plan was frozen" in sentence
        assert "(10 taken over from other)" in sentence


def test_what_the_plan_says_itself_is_not_said_twice(study: Study, tmp_path: Path) -> None:
    root = tmp_path / study.name
    fill(root, study, BEFORE)
    freeze.freeze(study, root)
    assert said(root, study) == ["The plan was frozen after 20 runs had finished."]


def test_an_amendment_is_compared_with_its_own_time(study: Study, tmp_path: Path) -> None:
    root = tmp_path / study.name
    freeze.freeze(study, root)
    wider = study.model_copy(
        update={"statistics": study.statistics.model_copy(update={"smallest_effect": 0.2})}
    )
    frozen = freeze.freeze(wider, root, amend="a wiser margin")
    between = datetime.fromisoformat(frozen.versions[1].time) - timedelta(milliseconds=1)
    fill(root, wider, between.isoformat(timespec="milliseconds"))
    (sentence,) = said(root, wider)
    assert "20 of the 20 planned runs had finished before the plan was last amended" in sentence


@pytest.mark.parametrize(
    ("event", "status", "known"),
    [
        ("finish", "ok", True),
        ("failure", "diverged", True),
        ("failure", "crashed-infrastructure", False),
    ],
)
def test_a_run_that_was_seen_deleted_and_made_again_is_known(
    study: Study, tmp_path: Path, event: str, status: str, known: bool
) -> None:
    root = tmp_path / study.name
    run_id = expand(study)[0].run_id
    Ledger(root).append(event, run=run_id, status=status)
    freeze.freeze(study, root)
    fill(root, study, AFTER)
    Ledger(root).append("finish", run=run_id, status="ok")
    found = said(root, study)
    assert len(found) == known
    if known:
        assert "1 of the 20 planned runs had finished before" in found[0]


def began(root: Path, time: str, *earlier: str) -> None:
    """Sets when the study was first run, and what its file was before."""
    path = root / "manifest.json"
    told = json.loads(path.read_text())
    (first,) = told["history"]
    past = [{**first, "plan_digest": digest, "time": BEFORE} for digest in earlier]
    told["history"] = [*past, {**first, "time": time}]
    path.write_text(json.dumps(told))


def test_a_late_plan_of_questions_that_were_run_before_counts_against_t_tests_only(
    study: Study, tmp_path: Path
) -> None:
    """The manifest shows the same study before its first outcome; the plan only wrote it down."""
    root = tmp_path / study.name
    fill(root, study, BEFORE)
    freeze.freeze(study, root)
    late = ("The plan was frozen after 20 runs had finished.",)
    began(root, "2000-01-01T00:00:00.000+00:00")
    assert stands(root, study) == Standing(model_doubts=late)
    # Not so if the study file was another before, or if outcomes are older than the manifest.
    began(root, "2000-01-01T00:00:00.000+00:00", "another")
    assert stands(root, study) == Standing(doubts=late)
    fill(tmp_path / "again" / study.name, study, BEFORE)
    freeze.freeze(study, tmp_path / "again" / study.name)
    assert stands(tmp_path / "again" / study.name, study) == Standing(doubts=late)


def test_more_seeds_than_were_frozen_are_a_note(study: Study, tmp_path: Path) -> None:
    fewer = synthetic.study(METHODS, SETUPS, 8)
    root = tmp_path / study.name
    freeze.freeze(fewer, root)
    fill(root, study, AFTER)
    found = stands(root, study)
    assert found.doubts == ()
    assert found.notes == (
        "seeds.count was frozen as 8 and is now 10. The rule allows it: looks are free.",
    )
    assert "which a t-test does not allow for" in found.model_doubts[0]
    # The other way round runs are left out, which must be declared.
    other = tmp_path / "other" / study.name
    freeze.freeze(study, other)
    fill(other, study, AFTER)
    found = stands(other, fewer)
    assert "seeds.count was frozen as 10 and is now 8" in found.doubts[0]
    assert found.notes == ()


def test_an_amendment_of_the_seeds_after_the_data_leaves_the_claims(
    study: Study, tmp_path: Path
) -> None:
    fewer = synthetic.study(METHODS, SETUPS, 8)
    root = tmp_path / study.name
    freeze.freeze(fewer, root)
    fill(root, study, AFTER)
    frozen = freeze.freeze(study, root, amend="a longer grant")
    assert frozen.broken == ""
    found = stands(root, study)
    assert (found.doubts, found.notes) == ((), ())
    assert found.model_doubts == ("The plan was amended after 20 runs had finished.",)
    # What is asked must not follow from the data.
    bolder = study.model_copy(
        update={"statistics": study.statistics.model_copy(update={"smallest_effect": 0.2})}
    )
    freeze.freeze(bolder, root, amend="a wiser margin")
    assert said(root, bolder) == ["The plan was amended after 20 runs had finished."]


def test_looks_count_against_t_tests_only(study: Study, tmp_path: Path) -> None:
    root = tmp_path / study.name
    freeze.freeze(study, root)
    fill(root, study, AFTER)
    Ledger(root).append("report", runs_known=[5], plan="")
    assert stands(root, study) == Standing(
        model_doubts=("The data were looked at before, at n = 5.",)
    )


def test_doubts_about_t_tests_touch_verdicts_that_rest_on_one() -> None:
    doubted = Standing(model_doubts=("looked at",))
    for bounded in (True, False):
        table = score_table({"default": [1.0, 2, 3], "spgl": [97.0, 98, 99]}, bounded=bounded)
        (claim,) = [c for c in analyse(table, doubted).comparisons if c.question.weighted]
        assert claim.confirmatory == bounded


def test_a_change_of_the_code_lists_the_verdicts_under_both(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / study.name
    frozen = freeze.freeze(study, root)
    table = score_table({"default": [1.0] * 9, "spgl": [99.0] * 9})
    now = [compare(table, q, confirmatory=True) for q in questions(table.study, ())]
    assert code_changes(frozen, history_of(Ledger(root)), now) == []
    code = freeze.analysis_code()
    monkeypatch.setattr(freeze, "analysis_code", lambda: "another")
    (sentence,) = code_changes(frozen, history_of(Ledger(root)), now)
    assert "No report was made under the frozen code" in sentence
    before = [{**noted(now)[0], "verdict": "undecided", "n": 7}]
    for verdicts, made_by in ((before, code), (noted(now), "another")):
        Ledger(root).append("report", runs_known=[7], analysis=made_by, verdicts=verdicts)
    assert code_changes(frozen, history_of(Ledger(root)), now) == [
        "The code of the analysis has changed since the plan was frozen; the rule has not.",
        "spgl − default on point-mass-1, return: undecided after 7 seeds under the frozen code, "
        "better after 9 now.",
    ]


@pytest.mark.slow
def test_the_report_is_exploratory_and_says_why(study: Study, tmp_path: Path) -> None:
    from pacebench.harness.report.make import report

    root = tmp_path / study.name
    freeze.freeze(study, root)
    fill(root, study, BEFORE)
    made = report(root)
    assert any("20 of the 20 planned runs" in reason for reason in made.view.analysis.exploratory)
    assert not any(c.confirmatory for c in made.view.analysis.comparisons)
    page = made.page.read_text()
    assert "20 of the 20 planned runs had finished before the plan was frozen" in page
    # The same results under a plan that came first are confirmatory.
    first = tmp_path / "first" / study.name
    shutil.copytree(root, first)
    plan = first / freeze.NAME
    told = json.loads(plan.read_text())
    told["versions"][0]["time"] = "2000-01-01T00:00:00.000+00:00"
    plan.write_text(json.dumps(told))
    again = report(first)
    # The first report noted its verdicts, with the code that made them.
    assert again.view.history.verdicts == {
        freeze.analysis_code(): noted(again.view.analysis.comparisons)
    }
    assert again.view.analysis.exploratory == ()
    assert any(c.confirmatory for c in again.view.analysis.comparisons)
