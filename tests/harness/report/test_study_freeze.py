"""Frozen plans: kept, refused when silently changed, amended with a reason, never edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pacebench.harness import run
from pacebench.harness.analysis import freeze
from pacebench.harness.errors import UserError
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.study.expand import expand
from pacebench.harness.study.models import Study
from tests.harness.report import synthetic


@pytest.fixture
def plan() -> Study:
    return synthetic.study(setups=("point-mass-2",), seeds=10)


def changed(plan: Study, **values: object) -> Study:
    return Study.model_validate({**plan.model_dump(mode="json"), **values})


def test_a_plan_holds_everything_that_could_be_chosen_afterwards(plan: Study) -> None:
    said = freeze.plan_of(plan)
    assert [(q["a"], q["b"], q["estimand"]) for q in said["questions"]] == [
        ("spdl", "default", "return"),
        ("spgl", "default", "return"),
    ]
    assert sum(q["alpha"] for q in said["questions"]) == pytest.approx(0.05)
    assert "confidence sequence" in said["rule"]
    assert said["seeds"]["count"] == 10
    assert said["smallest_effect"] == 0.1
    assert len(said["ranges"]["point-mass-2"]) == 2
    assert len(said["held_out_contexts"]["point-mass-2"]) == 64
    assert said["anchors"]["point-mass-2"]["baseline"]["mean_return"] is not None
    assert said["cells"]["spgl"]["point-mass-2"]["curriculum"]["epsilon"] == 0.05
    assert json.loads(json.dumps(said)) == said


def test_freezing_twice_changes_nothing(plan: Study, tmp_path: Path) -> None:
    first = freeze.freeze(plan, tmp_path)
    before = (tmp_path / freeze.NAME).read_bytes()
    assert freeze.freeze(plan, tmp_path).digest == first.digest
    assert (tmp_path / freeze.NAME).read_bytes() == before
    assert [entry["event"] for entry in Ledger(tmp_path).read()] == ["freeze"]


def test_an_unfrozen_study_may_run(plan: Study, tmp_path: Path) -> None:
    assert freeze.check(plan, tmp_path) is None


def test_an_unchanged_study_may_run(plan: Study, tmp_path: Path) -> None:
    freeze.freeze(plan, tmp_path)
    found = freeze.check(plan, tmp_path)
    assert found is not None
    assert found.broken == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seeds": {"count": 5, "root": 7}}, "seeds.count was frozen as 10 and is now 5."),
        ({"budget": 70_000}, "cells.default.point-mass-2.budget was frozen as 60000"),
        (
            {"statistics": {"smallest_effect": 0.2}},
            "smallest_effect was frozen as 0.1 and is now 0.2.",
        ),
        ({"seeds": {"count": 10, "root": 8}}, "held_out_contexts.point-mass-2 was frozen as"),
    ],
)
def test_a_silent_change_is_refused_with_what_changed(
    plan: Study, tmp_path: Path, change: dict, sentence: str
) -> None:
    freeze.freeze(plan, tmp_path)
    for call in (freeze.check, freeze.freeze):
        with pytest.raises(UserError) as caught:
            call(changed(plan, **change), tmp_path)
        assert 'pacebench freeze --amend "reason"' in caught.value.sentences[0]
        assert any(sentence in said for said in caught.value.sentences)
        assert len(caught.value.sentences) <= 8


def test_the_runner_starts_nothing_of_a_frozen_study_that_changed(
    plan: Study, tmp_path: Path
) -> None:
    folder = tmp_path / plan.name
    freeze.freeze(plan, folder)
    with pytest.raises(UserError, match="was frozen and has changed"):
        run(changed(plan, budget=70_000), results=tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["ledger.jsonl", "plan.json"]


def test_an_amendment_is_a_deviation_with_a_reason(plan: Study, tmp_path: Path) -> None:
    freeze.freeze(plan, tmp_path)
    more = changed(plan, seeds={"count": 20, "root": 7})
    assert len(freeze.freeze(more, tmp_path).versions) == 1  # allowed, and nothing to declare
    assert freeze.check(more, tmp_path) is not None
    frozen = freeze.freeze(more, tmp_path, amend="a longer grant")
    (amendment,) = frozen.amendments
    assert amendment.reason == "a longer grant"
    assert [change.key for change in amendment.changes] == ["seeds.count"]
    assert frozen.broken == ""  # nothing had been seen by then
    assert freeze.check(more, tmp_path) is not None
    with pytest.raises(UserError):
        freeze.check(plan, tmp_path)


def test_a_plan_frozen_or_amended_after_runs_protects_nothing(plan: Study, tmp_path: Path) -> None:
    late = tmp_path / "late"
    (late / "runs" / "0").mkdir(parents=True)
    (late / "runs" / "0" / "run.json").write_text("{}")
    assert "after 1 run had finished" in freeze.freeze(plan, late).broken
    early = tmp_path / "early"
    freeze.freeze(plan, early)
    (early / "runs" / "0").mkdir(parents=True)
    (early / "runs" / "0" / "run.json").write_text("{}")
    more = changed(plan, seeds={"count": 20, "root": 7})
    assert freeze.freeze(more, early, amend="more").broken == ""  # what is asked has not changed
    other = changed(more, statistics={"smallest_effect": 0.2})
    assert "amended after 1 run" in freeze.freeze(other, early, amend="wider").broken


def test_runs_of_the_plan_that_another_study_has_are_known(plan: Study, tmp_path: Path) -> None:
    first = expand(plan)[:3]
    for name in [item.run_id for item in first] + ["of-another-plan"]:
        (tmp_path / "other" / "runs" / name).mkdir(parents=True)
        (tmp_path / "other" / "runs" / name / "run.json").write_text("{}")
    frozen = freeze.freeze(plan, tmp_path / plan.name)
    assert frozen.versions[0].elsewhere == 3
    assert "after 3 runs had finished, 3 of them in other studies" in frozen.broken
    assert freeze.load(tmp_path / plan.name) == frozen
    fresh = changed(plan, name="fresh", seeds={"count": 10, "root": 8})
    assert freeze.freeze(fresh, tmp_path / "fresh").broken == ""


def test_a_plan_frozen_by_an_earlier_version_can_still_be_read(plan: Study, tmp_path: Path) -> None:
    freeze.freeze(plan, tmp_path)
    path = tmp_path / freeze.NAME
    said = json.loads(path.read_text())
    del said["versions"][0]["elsewhere"]
    path.write_text(json.dumps(said))
    found = freeze.check(plan, tmp_path)
    assert found is not None
    assert found.versions[0].known == 0


def test_an_edited_plan_is_noticed(plan: Study, tmp_path: Path) -> None:
    freeze.freeze(plan, tmp_path)
    path = tmp_path / freeze.NAME
    path.write_text(path.read_text().replace('"count": 10', '"count": 5'))
    with pytest.raises(UserError, match="does not match its hash"):
        freeze.check(plan, tmp_path)
    for text in ("not JSON", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(UserError, match="not a frozen plan"):
            freeze.check(plan, tmp_path)


def test_there_is_nothing_to_amend_without_a_change_or_a_plan(plan: Study, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="never frozen"):
        freeze.freeze(plan, tmp_path, amend="why not")
    freeze.freeze(plan, tmp_path)
    with pytest.raises(UserError, match="has not changed"):
        freeze.freeze(plan, tmp_path, amend="why not")
    with pytest.raises(UserError, match="was frozen and has changed"):
        freeze.freeze(changed(plan, budget=70_000), tmp_path, amend="  ")


@pytest.mark.parametrize(
    ("declared", "pairs"),
    [
        ("vs-control", [("b", "a"), ("c", "a")]),
        ("all-pairs", [("b", "a"), ("c", "a"), ("c", "b")]),
        ([["c", "b"]], [("c", "b")]),
    ],
)
def test_families(declared: object, pairs: list) -> None:
    methods = tuple(synthetic.Method("default", 0, 0, label=label) for label in "abc")
    plan = synthetic.study(methods, comparisons=declared)
    assert [declared.pair for declared in plan.comparisons] == pairs
