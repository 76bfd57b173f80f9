"""Whatever the data: a verdict agrees with its interval, its formula and its neighbours."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.analysis.analyse import analyse
from pacebench.harness.analysis.comparisons import ComparisonResult, compare, questions
from pacebench.harness.analysis.solved import solved_rows
from pacebench.harness.analysis.table import ScoreTable
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.statistics import difference_interval
from pacebench.harness.statistics.confidence_sequence import mean_interval
from tests.harness.statistics.tables import RANGE, lose, score_table
from tests.harness.statistics.test_confidence_sequence import reference_interval


def answer(table: ScoreTable) -> ComparisonResult:
    return compare(table, questions(table.study, ())[0], confirmatory=True)


# Constant, binary, two-point, anything, and at the bounds; from one seed on.
_SCORES = st.one_of(
    st.sampled_from([0.0, RANGE]),
    st.sampled_from([15.0, 85.0]),
    st.floats(0, RANGE),
)
_ARMS = st.integers(1, 10).flatmap(
    lambda n: st.tuples(
        *(
            st.one_of(
                st.lists(_SCORES, min_size=n, max_size=n),
                _SCORES.map(lambda value, n=n: [value] * n),
            )
            for _ in range(2)
        )
    )
)


@given(_ARMS, st.sampled_from([0.3, 0.05, 0.001]), st.floats(0.01, 1.2), st.data())
def test_a_verdict_never_contradicts_its_interval(
    arms: tuple[list[float], list[float]], alpha: float, effect: float, data: st.DataObject
) -> None:
    table = score_table({"b": arms[1], "a": arms[0]}, alpha=alpha, smallest_effect=effect)
    lost = data.draw(st.lists(st.integers(0, len(arms[0]) - 1), max_size=2, unique=True))
    table = lose(table, "a", lost, "crashed-infrastructure") if lost else table
    found = answer(table)
    interval, margin = found.interval, found.effect
    assert interval is not None
    assert math.isfinite(interval.low)
    assert math.isfinite(interval.high)
    assert -RANGE <= interval.low < interval.high <= RANGE
    agrees = {
        Verdict.BETTER: interval.low > 0,
        Verdict.WORSE: interval.high < 0,
        Verdict.EQUIVALENT: -margin < interval.low and interval.high < margin,
        Verdict.NOT_WORSE: interval.low > -margin,
        Verdict.UNDECIDED: not (
            interval.low > 0
            or interval.high < 0
            or interval.low > -margin
            or (-margin < interval.low and interval.high < margin)
        ),
    }
    assert agrees[found.verdict]
    for which, end, place in (("worst", interval.low, 0), ("best", interval.high, 1)):
        z = table.paired("a", "b", "point-mass-1", "return").differences(which) / RANGE
        assert end / RANGE == pytest.approx(reference_interval(list(z), alpha)[place], abs=1e-9)
    sentence = found.sentence()
    assert "nan" not in sentence.lower()
    assert "1 seeds" not in sentence
    assert "1 runs" not in sentence


@given(_ARMS, st.sampled_from([0.3, 0.05]))
def test_more_seeds_only_narrow(arms: tuple[list[float], list[float]], alpha: float) -> None:
    z = np.subtract(*arms) / RANGE
    ends = np.array([difference_interval(z[:n], 1.0, alpha) for n in range(len(z) + 1)])
    assert np.isfinite(ends).all()
    assert (np.diff(ends[:, 0]) >= 0).all()
    assert (np.diff(ends[:, 1]) <= 0).all()


def test_seeds_that_contradict_each_other_get_a_sentence_and_no_verdict() -> None:
    turned = {"a": [100.0] * 60 + [0.0] * 100, "b": [0.0] * 60 + [100.0] * 100}
    found = answer(score_table({"b": turned["b"], "a": turned["a"]}))
    assert found.contradiction
    assert found.verdict is Verdict.UNDECIDED
    assert "there is no verdict on a and b" in found.sentence()
    assert "no mean difference agrees with all 160 seeds" in found.sentence()
    assert found.to_dict()["beside"]["contradiction"]
    before = answer(score_table({"b": turned["b"][:60], "a": turned["a"][:60]}))
    assert (before.contradiction, before.verdict) == (False, Verdict.BETTER)
    assert "no verdict" not in before.sentence()


def test_solved_is_two_plain_numbers_by_the_same_rule() -> None:
    """Recomputed from the flags; the difference is the comparison by solved, with R = 1."""
    a, b = [85.0] * 18 + [5.0, 5.0], [85.0] * 6 + [5.0] * 14
    table = score_table({"b": b, "a": a})
    flags = {label: table.cell(label, "point-mass-1")["solved"].to_numpy() for label in ("a", "b")}
    rows = {row.label: row for row in solved_rows(table)}
    assert (rows["a"].seeds, rows["a"].solved, rows["a"].lost) == (20, 18, 0)
    assert (rows["b"].share, rows["b"].mean_return) == (0.3, 85.0)
    for label, row in rows.items():
        assert (row.low, row.high) == mean_interval(flags[label], 0, 1, 0.05)
        solved = [85.0] * row.solved
        assert (row.return_low, row.return_high) == mean_interval(solved, 0, RANGE, 0.05)
    record = analyse(table).solved_record()
    (difference,) = record["differences"]
    assert (difference["low"], difference["high"]) == pytest.approx(
        difference_interval(flags["a"] - flags["b"], 1.0, 0.05)
    )
    assert difference["verdict"] == "better"
    assert [cell["label"] for cell in record["cells"]] == ["b", "a"]


def test_lost_runs_count_as_solved_and_as_not() -> None:
    table = lose(score_table({"b": [5.0] * 4, "a": [85.0] * 4}), "a", [1], "crashed-infrastructure")
    row = {row.label: row for row in solved_rows(table)}["a"]
    assert (row.seeds, row.solved, row.lost, row.share) == (4, 3, 1, 1.0)
    assert row.low == mean_interval([1, 0, 1, 1], 0, 1, 0.05)[0]
    assert row.high == mean_interval([1, 1, 1, 1], 0, 1, 0.05)[1]
    assert row.return_low is None  # which runs are solved is not known
    waiting = lose(score_table({"b": [5.0] * 4, "a": [85.0] * 4}), "a", [1], "missing")
    assert {row.label: row.seeds for row in solved_rows(waiting)} == {"b": 4, "a": 1}


def test_permutations_are_exact_adjusted_and_told_where_they_disagree() -> None:
    rng = np.random.default_rng(0)
    arms = {k: rng.normal(mean, 2, 8) for k, mean in (("b", 50.0), ("a", 56.0), ("c", 50.5))}
    table = score_table(arms)
    found = {q.a: compare(table, q, confirmatory=True) for q in questions(table.study, ())}
    for label, item in found.items():
        exact = stats.permutation_test(
            (arms[label], arms["b"]),
            lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
            vectorized=True,
            n_resamples=np.inf,
        )
        assert item.permutation_p == pytest.approx(exact.pvalue)
        assert item.permutation_adjusted == pytest.approx(min(1, 2 * exact.pvalue))
    assert found["a"].verdict is Verdict.UNDECIDED
    assert "would tell them apart (adjusted p = " in found["a"].sentence()
    assert "permutation" not in found["c"].sentence()
    beside = found["a"].to_dict()["beside"]
    assert beside["permutation_adjusted"] == found["a"].permutation_adjusted
    assert beside["model"]["kind"] == "welch-t"
    assert beside["percentile"]["kind"] == "percentile (rliable)"


def test_the_cost_of_a_verdict_is_what_was_specified() -> None:
    """A small size of `python -m benchmarks.cost_of_verdicts`."""
    path = Path(__file__).parents[3] / "benchmarks" / "cost_of_verdicts.py"
    spec = importlib.util.spec_from_file_location("cost_of_verdicts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = list(module.lines(200))
    assert len(found) == 25
    (differs,) = [line for line in found if not line.agrees]
    assert differs.known
    assert differs.found == pytest.approx(69, abs=8)
