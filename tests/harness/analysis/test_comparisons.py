"""Comparisons: which seeds count, what lost runs do, and that the verdict is the interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacebench import envs
from pacebench.harness.analysis.comparisons import compare, fewest_seeds, questions
from pacebench.harness.analysis.scores import scale_of
from pacebench.harness.analysis.table import CLIP, ScoreTable
from pacebench.harness.analysis.verdicts import Verdict, judge
from pacebench.harness.statistics import difference_interval
from pacebench.harness.statistics.interval import Interval
from pacebench.harness.study.models import Study

ONE = "point-mass-1"
TWO = "point-mass-2"


def make_study(setups: tuple[str, ...] = (ONE,), **statistics: Any) -> Study:
    return Study.model_validate(
        {
            "name": "small",
            "question": "Which?",
            "curricula": ["default", "spgl"],
            "setups": list(setups),
            "seeds": {"count": 10},
            "budget": 1000,
            "statistics": statistics,
        }
    )


def make_table(
    study: Study, scores: dict[tuple[str, str], list[float | str]], bounded: bool = True
) -> ScoreTable:
    """Builds a table of normalised scores; a word is the status of a run without one."""
    scales = {name: replace(scale_of(envs.setup(name)), bounded=bounded) for name in study.setups}
    rows = []
    for (label, setup), values in scores.items():
        for seed, value in enumerate(values):
            known = not isinstance(value, str)
            normalised = float(value) if known else np.nan
            rows.append(
                {
                    "label": label,
                    "setup": setup,
                    "seed": seed,
                    "status": "ok" if known else value,
                    "normalised": normalised,
                    "return": scales[setup].raw(normalised),
                    "success": normalised,
                    "solved": float(normalised >= 0.8) if known else np.nan,
                    "auc": normalised,
                    "cvar": normalised,
                    "steps_to_threshold": 500.0 if known else np.nan,
                }
            )
    return ScoreTable(study, scales, pd.DataFrame(rows), np.random.SeedSequence(0))


def ask(study: Study, estimand: str | None = None):
    found = [q for q in questions(study, ("return", "normalised", "success")) if q.weighted]
    return found[0] if estimand is None else replace(found[0], estimand=estimand)


GOOD = [0.8, 0.9, 0.85, 0.9, 0.8, 0.95]
BAD = [0.2, 0.1, 0.3, 0.2, 0.1, 0.2]


def test_the_interval_is_that_of_the_seeds_in_order() -> None:
    study = make_study(primary="success")
    table = make_table(study, {("spgl", ONE): GOOD, ("default", ONE): BAD})
    found = compare(table, ask(study), confirmatory=True)
    z = np.array(GOOD) - np.array(BAD)
    assert found.seeds == 6
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == difference_interval(z, 1.0, 0.05)
    assert found.interval.estimate == pytest.approx(z.mean())
    assert found.confirmatory


@pytest.mark.parametrize("hole", [0, 2, 5])
def test_seeds_count_up_to_the_first_that_is_not_there_yet(hole: int) -> None:
    """A later seed must not stand in: which runs finish first depends on how they went."""
    study = make_study(primary="success")
    scores: list[float | str] = list(GOOD)
    scores[hole] = "missing"
    table = make_table(study, {("spgl", ONE): scores, ("default", ONE): BAD})
    found = compare(table, ask(study), confirmatory=True)
    assert found.seeds == hole
    before = make_table(study, {("spgl", ONE): GOOD[:hole], ("default", ONE): BAD})
    if hole:
        assert found.shown == compare(before, ask(study), confirmatory=True).shown
    else:
        assert found.verdict is Verdict.UNDECIDED
        assert "no interval" in found.sentence()


def test_runs_lost_to_the_machine_enter_as_best_and_as_worst() -> None:
    study = make_study(primary="success")
    lost: list[float | str] = [*GOOD[:3], "crashed-infrastructure", *GOOD[4:]]
    table = make_table(study, {("spgl", ONE): lost, ("default", ONE): BAD})
    found = compare(table, ask(study), confirmatory=True)
    assert (found.seeds, found.lost) == (6, 1)
    z = np.array(GOOD) - np.array(BAD)
    worst, best = z.copy(), z.copy()
    worst[3], best[3] = 0.0 - BAD[3], 1.0 - BAD[3]
    assert found.interval is not None
    assert found.interval.low == difference_interval(worst, 1.0, 0.05)[0]
    assert found.interval.high == difference_interval(best, 1.0, 0.05)[1]


def test_scores_outside_an_unproven_range_are_clipped_and_counted() -> None:
    study = make_study((ONE, TWO), primary="normalised")
    high = [2.0, 0.9, -3.0, 0.5]
    scores = {(label, setup): high for label in ("spgl", "default") for setup in (ONE, TWO)}
    table = make_table(study, scores, bounded=False)
    found = compare(table, ask(study), confirmatory=True)
    assert found.question.scope == "suite"
    assert found.clipped == 8
    pairs = table.paired("spgl", "default", "suite", "normalised")
    assert pairs.half_range == pytest.approx(CLIP[1] - CLIP[0])


def test_a_return_without_a_range_rests_on_a_model_and_says_so() -> None:
    study = make_study(primary="return")
    table = make_table(study, {("spgl", ONE): GOOD, ("default", ONE): BAD}, bounded=False)
    found = compare(table, ask(study), confirmatory=True)
    assert found.interval is None
    assert found.verdict is found.model_verdict is Verdict.BETTER
    assert "rests on a t-test" in found.sentence()


def test_where_only_a_t_test_decides_the_sentence_says_what_it_trusts() -> None:
    study = make_study(primary="success")
    table = make_table(study, {("spgl", ONE): GOOD, ("default", ONE): BAD})
    found = compare(table, ask(study), confirmatory=True)
    assert found.verdict is Verdict.UNDECIDED
    assert found.model_verdict is Verdict.BETTER
    assert found.hidden == {"spgl": pytest.approx(1 - 0.05 ** (1 / 6))}
    assert "a t-test would already say “better”; it trusts that failures rarer than 1 in" in (
        found.sentence()
    )


def test_enough_seeds_decide() -> None:
    study = make_study(primary="success")
    table = make_table(study, {("spgl", ONE): GOOD * 8, ("default", ONE): BAD * 8})
    assert compare(table, ask(study), confirmatory=True).verdict is Verdict.BETTER
    same = make_table(study, {("spgl", ONE): [0.9] * 120, ("default", ONE): [0.9] * 120})
    assert compare(same, ask(study), confirmatory=True).verdict is Verdict.EQUIVALENT


def test_differences_over_setups_are_means_by_seed() -> None:
    study = make_study((ONE, TWO), primary="normalised")
    table = make_table(
        study,
        {
            ("spgl", ONE): [0.9, 0.8],
            ("spgl", TWO): [0.7, 0.6],
            ("default", ONE): [0.1, 0.2],
            ("default", TWO): [0.3, 0.6],
        },
    )
    found = compare(table, ask(study), confirmatory=True)
    assert found.shown is not None
    assert found.shown.estimate == pytest.approx(np.mean([(0.8 + 0.4) / 2, (0.6 + 0.0) / 2]))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.5, Verdict.BETTER),
        (0.01, 0.02, Verdict.BETTER),
        (-0.5, -0.01, Verdict.WORSE),
        (-0.09, 0.09, Verdict.EQUIVALENT),
        (-0.09, 0.11, Verdict.NOT_WORSE),
        (-0.11, 0.09, Verdict.UNDECIDED),
        (0.0, 0.5, Verdict.NOT_WORSE),
        (-0.1, 0.1, Verdict.UNDECIDED),
    ],
)
def test_a_verdict_is_where_the_interval_lies(low: float, high: float, verdict: Verdict) -> None:
    interval = Interval((low + high) / 2, low, high, 0.95, "any", "difference", 10, 1)
    assert judge(interval, 0.1) is verdict


def test_better_by_less_than_matters_is_said() -> None:
    study = make_study(primary="success", smallest_effect=0.5)
    scores = {("spgl", ONE): [0.6] * 200, ("default", ONE): [0.4] * 200}
    found = compare(make_table(study, scores), ask(study), confirmatory=True)
    assert found.verdict is Verdict.BETTER
    assert "by less than the smallest effect of interest (0.5)" in found.sentence()


def test_the_fewest_seeds_are_those_of_the_clearest_data() -> None:
    study = make_study(primary="success", smallest_effect=0.2)
    clear, equal = fewest_seeds([ask(study)], 0.2)
    for n, verdict in ((clear - 1, Verdict.UNDECIDED), (clear, Verdict.BETTER)):
        table = make_table(study, {("spgl", ONE): [1.0] * n, ("default", ONE): [0.0] * n})
        found = compare(table, ask(study), confirmatory=True).verdict
        assert found is verdict or (n < clear and found is Verdict.NOT_WORSE)
    assert equal is not None
    table = make_table(study, {("spgl", ONE): [0.5] * equal, ("default", ONE): [0.5] * equal})
    assert compare(table, ask(study), confirmatory=True).verdict is Verdict.EQUIVALENT
