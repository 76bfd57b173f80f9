"""Pools of labels: contrasts of more than two arms, such as the interaction of a 2 × 2 design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacebench.harness import report
from pacebench.harness.analysis.comparisons import compare, questions
from pacebench.harness.analysis.waves import planned_counts, scored_table
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import difference_interval
from pacebench.harness.study.load import load_study
from pacebench.harness.study.models import Study
from tests.harness.report import synthetic
from tests.harness.report.synthetic import Method

ONE = ("point-mass-1",)
# Four different curricula stand in for four arms. By hand: (1.0 − 0.9) − (0.5 − 0.2) = −0.2, so the
# pools differ by half of it.
ARMS = (
    Method("spgl", 1.0, 0.05, label="closed, recover"),
    Method("spgl-shared", 0.9, 0.05, label="closed, hold"),
    Method("spdl-sqp", 0.5, 0.05, label="solved, recover"),
    Method("spdl", 0.2, 0.05, label="solved, hold"),
)
POOLS = {
    "alike": ["closed, recover", "solved, hold"],
    "crossed": ["closed, hold", "solved, recover"],
}


def factorial(**seeds: Any) -> Study:
    plan = synthetic.study(
        ARMS, ONE, 20, pools=POOLS, comparisons=[["alike", "crossed"]], control="solved, hold"
    )
    data = plan.model_dump(mode="json")
    return Study.model_validate({**data, "seeds": seeds} if seeds else data)


def stored(root: Path, study: Study) -> Path:
    frames = synthetic.frames(ARMS, ONE, study.seeds.count, plan=study, updates=1)
    synthetic.store(root, study, frames)
    return root


def test_the_interaction_is_the_difference_of_two_pools(tmp_path: Path) -> None:
    study = factorial()
    table = scored_table(study, stored(tmp_path, study))
    (asked,) = questions(study, ())
    found = compare(table, asked, confirmatory=True)
    arms = [table.values(method.label or "", ONE[0], "return").to_numpy() for method in ARMS]
    by_hand = (arms[0] + arms[3] - arms[1] - arms[2]) / 2
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(by_hand.mean(), abs=1e-9)
    # The synthetic scores are placed between returns of 10 and 60.
    assert by_hand.mean() == pytest.approx(-0.1 * 50, abs=1e-5)  # kept as float32
    assert found.seeds == 20
    bounds = table.bounds(ONE[0], "return")
    assert bounds is not None
    low, high = difference_interval(by_hand, np.ptp(bounds), asked.alpha)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)


def test_a_seed_counts_when_all_members_have_it(tmp_path: Path) -> None:
    study = factorial()
    table = scored_table(study, stored(tmp_path, study))
    late = (table.rows["label"] == "solved, hold") & (table.rows["seed"] >= 7)
    table.rows.loc[late, "status"] = "missing"
    (asked,) = questions(study, ())
    assert compare(table, asked, confirmatory=True).seeds == 7


def test_an_open_question_asks_for_seeds_of_every_member(tmp_path: Path) -> None:
    study = factorial(start=4, step=4, max=20, root=7)
    counts = planned_counts(study, stored(tmp_path, study))
    assert len(counts) == 4
    assert min(counts.values()) > 4


def test_the_report_shows_it(tmp_path: Path) -> None:
    made = report(stored(tmp_path, factorial()), tmp_path / "out")
    text = (made.folder / "report.md").read_text()
    assert "alike" in text
    assert "crossed" in text


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ("{spgl: [spgl, default]}", "is the label of a curriculum"),
        ("{both: [spgl, sgpl]}", "'sgpl' is not in the study"),
        ("{both: [spgl]}", "statistics.pools.both"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, pools: str, said: str) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: s\nquestion: Which?\ncurricula: [default, spgl]\nsetups: [point-mass-1]\n"
        f"seeds: {{count: 2}}\nbudget: 2048\nstatistics: {{pools: {pools}}}\n"
    )
    with pytest.raises(UserError, match=said):
        load_study(file)
