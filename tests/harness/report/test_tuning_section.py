"""Tuned methods in a report: what was searched, and what one observation is."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.report.data import ReportData
from pacebench.harness.report.document import Claims, Document, Text, Warned
from pacebench.harness.report.gather import report_data, tuning_of
from pacebench.harness.report.sections import claims, closing, tuning
from pacebench.harness.report.sections.order import SECTIONS, document
from pacebench.harness.study.models import Study
from pacebench.harness.tuning.record import (
    Candidate,
    SearchRecord,
    TrialRecord,
    TuningRecord,
    write_record,
)
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

SEEDS = 12
MEANS = (0.50, 0.58, 0.66, 0.74, 0.82)
CLAIMS, TUNING = [claims.claims], [tuning.tuning]
POINTER = "../results/other/tuning/record.json"


def methods(replicates: int) -> tuple[Method, ...]:
    """Searches that differ far more from each other than the runs of each do."""
    searched = tuple(
        Method("spgl", mean, 0.02, label=_label(k, replicates), epsilon=0.05)
        for k, mean in enumerate(MEANS[:replicates])
    )
    return (Method("default", 0.55, 0.05), *searched)


def ended(label: str, status: dict[int, str]) -> tuple[Method, ...]:
    """Five searches, some runs of one of which did not end well."""
    return tuple(replace(m, status=status) if m.label == label else m for m in methods(5))


def _label(replicate: int, replicates: int) -> str:
    return "spgl" if replicates == 1 else f"spgl (search {replicate + 1})"


def tuned_study(replicates: int, **statistics: Any) -> Study:
    plan = synthetic.study(methods(replicates), ("point-mass-2",), SEEDS, **statistics)
    entries = tuple(
        entry
        if entry.name == "default"
        else entry.model_copy(
            update={
                "tuned": {"method": "spgl", "replicate": k - 1, "record": POINTER},
            }
        )
        for k, entry in enumerate(plan.curricula)
    )
    data = plan.model_dump(mode="json")
    data["curricula"] = [{**entry.model_dump(mode="json", warnings=False)} for entry in entries]
    return Study.model_validate(data)


def view(replicates: int, tuning: TuningRecord | None = None, **options: Any) -> ReportData:
    plan = tuned_study(replicates)
    made = options.get("methods", methods(replicates))
    frames = synthetic.frames(made, ("point-mass-2",), SEEDS, plan=plan)
    setups = {"point-mass-2": synthetic.setup("point-mass-2")}
    return replace(report_data(frames, plan, setups), tuning=tuning)


def search(replicate: int = 0, **changes: Any) -> SearchRecord:
    rng = np.random.default_rng(replicate)
    trials = tuple(
        TrialRecord(
            number=i,
            state="COMPLETE",
            point={
                "epsilon": float(0.005 * 48 ** rng.random()),
                "threshold": rng.uniform(0.1, 0.9),
            },
            value=0.3 + 0.04 * i,
            scores=(0.3, 0.3, 0.3),
            statuses=("ok", "ok", "diverged" if i == 3 else "ok"),
            env_steps=3_000,
            seconds=36.0,
        )
        for i in range(12)
    )
    again = {"env_steps": 6_000, "seconds": 72.0}
    fields: Mapping[str, Any] = {
        "method": "spgl",
        "curriculum": "spgl",
        "setup": "point-mass-2",
        "replicate": replicate,
        "space": {
            "epsilon": {"low": 0.005, "high": 0.24, "log": True},
            "threshold": {"low": 0.05, "high": 0.9},
        },
        "budget": 36_000,
        "trials": trials,
        "importance": {"epsilon": 0.75, "threshold": 0.25},
        "candidates": (
            Candidate(trial=11, searched=0.74, scores=(0.5, 0.6), **again),
            Candidate(trial=10, searched=0.70, scores=(0.6, 0.7), **again),
            Candidate(trial=None, searched=None, scores=(0.4, 0.6), **again),
        ),
        "chosen": 10,
        "point": trials[10].point,
        "own": {"epsilon": 0.05, "threshold": 0.4},
        "boundary": ("epsilon",),
    }
    return SearchRecord(**{**fields, **changes})


def record(*searches: SearchRecord) -> TuningRecord:
    return TuningRecord(
        study="other",
        estimand="return",
        sampler="TPESampler",
        pruner="none",
        seeds_per_trial=3,
        replicates=len(searches),
        provenance={},
        searches=searches,
    )


def table(made: Document, name: str) -> list[dict[str, str]]:
    (found,) = [t for t in made.tables() if t.name == name]
    return list(csv.DictReader(io.StringIO(found.csv())))


def texts(made: Document, section: str) -> str:
    (found,) = [s for s in made.sections if s.name == section]
    parts = [b.text for b in found.blocks if isinstance(b, Text | Warned)]
    for block in found.blocks:
        if isinstance(block, Claims):
            parts += [f"{claim.sentence} {claim.strength}" for claim in block.claims]
    return " ".join(parts)


def test_five_searches_are_five_observations() -> None:
    made = view(5)
    assert made.study.labels == ("default", "spgl")
    found = made.estimate("spgl", "point-mass-2", "normalised")
    assert found is not None
    assert found.value == pytest.approx(np.mean(MEANS))
    assert found.interval is not None
    assert found.interval.runs == 5
    # By hand: the interval of five means, not of sixty runs.
    half = stats.t.ppf(0.975, 4) * np.std(MEANS, ddof=1) / np.sqrt(5)
    assert found.interval.high - found.interval.low == pytest.approx(2 * half)
    (compared,) = made.comparisons(weighted=True)
    assert compared.seeds == 5
    assert compared.verdict == "undecided"


def test_runs_of_four_searches_stay_runs_and_the_claims_say_so() -> None:
    made = view(4)
    assert len(made.study.labels) == 5
    assert "Conditional on these configurations" in texts(document(made, CLAIMS), "claims")
    # Each of the four configurations is sharply told apart from the control: that is what would
    # mislead if it were read as a claim about searching.
    outcomes = {c.model_verdict.value for c in made.comparisons(weighted=True)}
    assert {"better", "worse"} & outcomes


def test_every_section_can_be_made_of_searches() -> None:
    made = document(view(5, record(*(search(k) for k in range(5)))))
    # Of the learner nothing was recorded here.
    assert [s.name for s in made.sections if s.name == "learner"] == []
    assert len(made.sections) == len(SECTIONS) - 1
    assert "5 searches of 12 runs each" in " ".join(made.facts)
    assert "after 5 searches " in made.answer.lower()


def test_claims_about_searches_are_not_conditional() -> None:
    said = texts(document(view(5), CLAIMS), "claims")
    assert "onditional" not in said
    assert "searches" in said


def test_a_search_with_an_unknown_run_is_unknown() -> None:
    made = view(5, methods=ended("spgl (search 2)", {3: "missing"}))
    (cell,) = [c for c in made.analysis.accounting if c.label == "spgl"]
    assert (cell.planned, cell.unresolved) == (5, 1)
    # The accounting of the report still counts runs.
    rows = {row["method"]: row for row in table(document(made, [closing.accounting]), "accounting")}
    assert rows["spgl (search 2)"]["missing"] == "1"
    assert rows["spgl (search 2)"]["planned"] == str(SEEDS)


def test_failed_runs_pull_their_search_down_and_stay_in() -> None:
    made = view(5, methods=ended("spgl (search 1)", {0: "diverged"}))
    scores = made.analysis.scores["spgl", "point-mass-2", "normalised"].matrix[:, 0]
    runs = made.runs[made.runs["label"] == "spgl (search 1)"]["normalised"]
    assert scores[0] == pytest.approx(runs.mean())
    assert runs.min() == made.scales["point-mass-2"].floor


def test_searches_that_kept_the_study_s_own_configuration_are_counted() -> None:
    kept = search(1, chosen=None, point={}, boundary=())
    made = document(view(5, record(search(), kept)), TUNING)
    assert "chosen, in 1 of 2 searches the study's own configuration." in texts(made, "tuning")
    assert [row["chosen"] for row in table(made, "tuning-choice")][1] == "the study's own"


def test_the_section_says_what_the_record_says() -> None:
    made = document(view(1, record(search())), TUNING)
    (cost,) = table(made, "tuning-cost")
    assert cost["search_steps"] == "36000"
    assert cost["total_steps"] == str(36_000 + 3 * 6_000)
    assert float(cost["cpu_hours"]) == pytest.approx((12 * 36 + 3 * 72) / 3600)
    assert (cost["complete"], cost["floored"]) == ("12", "1")
    (choice,) = table(made, "tuning-choice")
    assert float(choice["optimism"]) == pytest.approx(0.74 - 0.55)
    assert float(choice["gain"]) == pytest.approx(0.65 - 0.50)
    assert float(choice["gain_error"]) == pytest.approx(np.std([0.2, 0.1], ddof=1) / np.sqrt(2))
    assert choice["boundary"] == "ε"
    said = texts(made, "tuning")
    assert "conditional on these configurations" in said
    assert "within 5 %" in said
    names = {figure.name for figure in made.figures()}
    assert {"tuning-point-mass-2", "response-point-mass-2"} <= names
    (response,) = [f for f in made.figures() if f.name == "response-point-mass-2"]
    drawn = re.findall(r'class="dots" d="([^"]+)"', response.svg)
    assert [path.count("M") for path in drawn] == [12, 12], "every trial, over ε and over V₋"


def test_replicates_are_drawn_together() -> None:
    made = document(view(5, record(*(search(k) for k in range(5)))), TUNING)
    assert len(table(made, "tuning-choice")) == 5
    (cost,) = table(made, "tuning-cost")
    assert (cost["searches"], cost["trials"]) == ("5", "60")
    assert "The search is the unit" in texts(made, "tuning")


def test_searches_of_one_parameter_and_of_none_with_a_range() -> None:
    one = {"updates": {"low": 5, "high": 100, "log": True, "integer": True}}
    trials = tuple(
        TrialRecord(
            number=i, state="COMPLETE", point={"updates": 5 + i, "on": i % 2 == 0}, value=0.1 * i,
            scores=(0.1,), statuses=("ok",), env_steps=1, seconds=1.0,
        )
        for i in range(11)
    )  # fmt: skip
    line = search(
        space=one, trials=trials, point={"updates": 15}, own={"updates": 20.0}, boundary=()
    )
    made = document(view(1, record(line)), TUNING)
    assert "response-point-mass-2" in {figure.name for figure in made.figures()}
    choices = search(
        space={"on": [True, False]}, trials=trials, point={"on": True}, own={}, boundary=()
    )
    made = document(view(1, record(choices)), TUNING)
    assert "response-point-mass-2" not in {figure.name for figure in made.figures()}


def test_no_section_where_nothing_was_tuned(golden_document: Document) -> None:
    assert "tuning" not in {section.name for section in golden_document.sections}


def test_the_record_is_found_beside_the_results(tmp_path: Path) -> None:
    plan = tuned_study(1)
    root = tmp_path / "anywhere" / plan.name
    found, notes = tuning_of(plan, root)
    assert found is None
    assert "cannot be shown" in notes[0]
    folder = root.parent / "other" / "tuning"
    folder.mkdir(parents=True)
    written = record(search())
    write_record(folder, written)
    assert tuning_of(plan, root) == (written, [])
    (folder / "record.json").write_text("{")
    with pytest.raises(UserError, match=r"record\.json: is torn"):
        tuning_of(plan, root)
