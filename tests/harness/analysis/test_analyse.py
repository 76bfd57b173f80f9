"""The whole analysis of scored runs: known answers, invariances, lost runs, what is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.analysis.analyse import Analysis, analyse
from pacebench.harness.analysis.comparisons import (
    ComparisonResult,
    Question,
    compare,
    questions,
)
from pacebench.harness.analysis.deviations import Standing
from pacebench.harness.analysis.table import SUITE, ScoreTable
from pacebench.harness.analysis.verdicts import Verdict, judge
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import difference_interval
from pacebench.harness.statistics.interval import Interval
from tests.harness.statistics.tables import ESTIMANDS, RANGE, lose, score_table, study, with_rows

PM = ("point-mass-1", "point-mass-2")


def draw(means: Mapping[str, float], seeds: int, setups: int = 1, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {k: rng.normal(mean, 2, (seeds, setups)).clip(0, 100) for k, mean in means.items()}


@pytest.fixture(scope="module")
def table() -> ScoreTable:
    return score_table(draw({"default": 30, "spgl": 85, "spdl": 31}, 16, 2), PM)


@pytest.fixture(scope="module")
def analysis(table: ScoreTable) -> Analysis:
    return analyse(table)


def first(table: ScoreTable) -> ComparisonResult:
    """Answers the first question of a study."""
    return compare(table, questions(table.study, ())[0], confirmatory=True)


def text(found: Analysis) -> str:
    """Everything that was computed, as one string."""
    record = {
        "estimates": [item.to_dict() for item in found.estimates],
        "comparisons": [
            {
                **item.to_dict(),
                "interval": item.interval and item.interval.to_dict(),
                "wealth": None if item.wealth is None else [w.tolist() for w in item.wealth],
            }
            for item in found.comparisons
        ],
        "paper": [asdict(row) for row in found.paper],
        "solved": found.solved_record(),
        "accounting": [cell.to_dict() for cell in found.accounting],
        "claims": found.claims,
    }
    return json.dumps(record, sort_keys=True)


def test_known_answers(table: ScoreTable, analysis: Analysis) -> None:
    """Recomputed here from the rows, with SciPy and the public interval alone."""
    asked = [c for c in analysis.comparisons if c.question.weighted]
    assert [(c.question.a, c.question.b, c.question.scope) for c in asked] == [
        (label, "default", setup) for setup in PM for label in ("spgl", "spdl")
    ]
    returns = table.rows.set_index(["label", "setup"])["return"].sort_index()
    for item in asked:
        x, y = (returns[name, item.question.scope] for name in (item.question.a, "default"))
        alpha = 0.05 / 4
        assert item.question.alpha == pytest.approx(alpha)
        assert item.interval is not None
        ends = difference_interval(x.to_numpy() - y.to_numpy(), RANGE, alpha)
        assert (item.interval.low, item.interval.high) == pytest.approx(ends, rel=1e-12)
        assert item.interval.estimate == pytest.approx(x.mean() - y.mean())
        assert item.model is not None
        welch = stats.ttest_ind(x, y, equal_var=False).confidence_interval(1 - alpha)
        assert (item.model.low, item.model.high) == pytest.approx(tuple(welch))
        assert item.seeds == 16
        assert item.effect == pytest.approx(0.05 * table.scales[item.question.scope].unit)
        assert item.confirmatory
    assert [c.verdict for c in asked] == [Verdict.BETTER, Verdict.UNDECIDED] * 2
    assert analysis.claims == tuple(c.sentence() for c in asked)
    assert [v["verdict"] for v in analysis.verdicts()] == [c.verdict.value for c in asked]
    for row in analysis.paper:
        values = returns[row.label, row.setup]
        assert row.mean == pytest.approx(values.mean())
        assert row.standard_error == pytest.approx(stats.sem(values))
        assert row.best == (row.label == "spgl")


def test_the_suite_is_the_mean_over_setups_of_normalised_differences() -> None:
    returns = draw({"default": 30, "spgl": 85}, 16, 2)
    table = score_table(returns, PM, primary="normalised")
    (asked,) = [q for q in questions(table.study, ()) if q.weighted]
    assert (asked.scope, asked.alpha) == (SUITE, 0.05)
    found = compare(table, asked, confirmatory=True)
    z, ranges = [], []
    for column, setup in enumerate(PM):
        scale = table.scales[setup]
        x, y = (scale.normalise(returns[label][:, column]) for label in ("spgl", "default"))
        z.append(x - y)
        ranges.append(scale.highest - scale.lowest)
    assert found.interval is not None
    ends = difference_interval(np.mean(z, axis=0), float(np.mean(ranges)), 0.05)
    assert (found.interval.low, found.interval.high) == pytest.approx(ends)
    assert found.verdict is Verdict.BETTER


def test_same_seed_same_bytes_and_the_global_generator_unmoved(
    table: ScoreTable, analysis: Analysis
) -> None:
    before = np.random.get_state()  # noqa: NPY002
    again = ScoreTable(table.study, table.scales, table.rows, np.random.SeedSequence(0))
    assert text(analyse(again)) == text(analysis)
    after = np.random.get_state()  # noqa: NPY002
    assert before[2] == after[2]
    assert (before[1] == after[1]).all()
    other = ScoreTable(table.study, table.scales, table.rows, np.random.SeedSequence(1))
    changed = analyse(other)
    assert text(changed) != text(analysis)
    # Verdicts and what decides them involve no chance at all.
    verdicts, others = (
        [{k: v for k, v in item.items() if k not in ("beside", "sentence")} for item in items]
        for items in (changed.verdicts(), analysis.verdicts())
    )
    assert verdicts == others


def test_the_order_of_rows_does_not_matter(table: ScoreTable, analysis: Analysis) -> None:
    mixed = with_rows(table, table.rows.sample(frac=1, random_state=1))
    assert text(analyse(mixed)) == text(analysis)


def test_the_order_of_seeds_does_not_change_the_last_look_but_the_ones_before(
    table: ScoreTable,
) -> None:
    """Seeds are taken by index; renumbering them is another sequence with the same sum."""
    plain = first(table)
    renumbered = table.rows.assign(seed=15 - table.rows["seed"])
    turned = first(with_rows(table, renumbered))
    assert plain.wealth is not None
    assert turned.wealth is not None
    assert turned.wealth.above[-1] == pytest.approx(plain.wealth.above[-1])
    assert turned.wealth.above[0] != pytest.approx(plain.wealth.above[0])


def test_names_do_not_decide(table: ScoreTable, analysis: Analysis) -> None:
    other = {"default": "zz", "spgl": "mm", "spdl": "aa"}
    renamed = replace(
        table,
        study=study(tuple(other.values()), PM),
        rows=table.rows.assign(label=table.rows["label"].map(other)),
    )
    for a, b in zip(analysis.comparisons[:4], questions(renamed.study, ()), strict=True):
        found = compare(renamed, b, confirmatory=True)
        assert found.interval == a.interval
        assert found.verdict is a.verdict


def test_a_method_more_changes_no_estimate_of_the_others(
    table: ScoreTable, analysis: Analysis
) -> None:
    fewer = replace(
        table,
        study=study(("default", "spgl"), PM),
        rows=table.rows[table.rows["label"] != "spdl"],
    )
    known = {(e.label, e.scope, e.estimand, e.functional): e for e in analysis.estimates}
    found = analyse(fewer)
    assert found.estimates
    for item in found.estimates:
        same = known[item.label, item.scope, item.estimand, item.functional]
        assert same.to_dict() == item.to_dict()
    assert found.comparisons[0].question.alpha == 2 * analysis.comparisons[0].question.alpha


@pytest.mark.parametrize("factor", [7.0, 1e-3])
def test_another_unit_of_the_return_changes_no_verdict(table: ScoreTable, factor: float) -> None:
    def moved(anchor: Any) -> Any:
        return replace(anchor, mean_return=1_000 + factor * anchor.mean_return)

    scales = {
        name: replace(
            scale,
            anchors=replace(
                scale.anchors,
                baseline=moved(scale.anchors.baseline),
                reference=moved(scale.anchors.reference),
            ),
        )
        for name, scale in table.scales.items()
    }
    rows = table.rows.assign(**{"return": 1_000 + factor * table.rows["return"]})
    other = replace(table, scales=scales, rows=rows)
    for asked in questions(table.study, ()):
        a, b = (compare(each, asked, confirmatory=True) for each in (table, other))
        assert a.verdict is b.verdict
        assert a.model_verdict is b.model_verdict
        assert a.permutation_p == pytest.approx(b.permutation_p)
        for before, after in ((a.interval, b.interval), (a.model, b.model)):
            assert before is not None
            assert after is not None
            ends = (factor * before.low, factor * before.high)
            assert (after.low, after.high) == pytest.approx(ends, rel=1e-6)


def test_a_turned_question_has_the_turned_answer(table: ScoreTable) -> None:
    asked = questions(table.study, ())[0]
    turned = Question(asked.b, asked.a, asked.scope, asked.estimand, asked.alpha, weighted=True)
    a, b = (compare(table, q, confirmatory=True) for q in (asked, turned))
    assert (a.verdict, b.verdict) == (Verdict.BETTER, Verdict.WORSE)
    assert a.interval is not None
    assert b.interval is not None
    assert (b.interval.low, b.interval.high) == pytest.approx((-a.interval.high, -a.interval.low))


def test_a_longer_look_only_narrows_and_never_takes_a_claim_back() -> None:
    rng = np.random.default_rng(3)
    returns = {"default": rng.uniform(0, 60, 40), "spgl": rng.uniform(40, 100, 40)}
    before: ComparisonResult | None = None
    for seeds in (5, 10, 20, 30, 40):
        found = first(score_table({k: v[:seeds] for k, v in returns.items()}))
        assert found.interval is not None
        if before is not None:
            assert before.interval is not None
            assert found.interval.low >= before.interval.low
            assert found.interval.high <= before.interval.high
            assert before.verdict in (Verdict.UNDECIDED, Verdict.NOT_WORSE, found.verdict)
        before = found
    assert before is not None
    assert before.verdict is Verdict.BETTER


def test_shares_of_alpha_add_up_and_no_weight_is_no_claim() -> None:
    pairs = [
        {"pair": ["b", "a"], "weight": 3},
        {"pair": ["c", "a"], "weight": 1},
        {"pair": ["c", "b"], "weight": 0},
    ]
    asked = questions(
        study(("a", "b", "c"), PM, comparisons=pairs, primary=["return", "solved"]),
        ("return", "solved", "normalised"),
    )
    weighted = [q for q in asked if q.weighted]
    assert len(weighted) == 8
    assert sum(q.alpha for q in weighted) == pytest.approx(0.05)
    assert [q.alpha for q in weighted if q.a == "b"] == pytest.approx([0.05 * 3 / 16] * 4)
    assert {q.alpha for q in asked if not q.weighted} == {0.05}
    assert len({(q.a, q.b, q.scope, q.estimand) for q in asked}) == len(asked)
    assert {q.estimand for q in weighted} == {"return", "solved"}
    returns = draw({"a": 20, "b": 90, "c": 20}, 30)
    table = score_table(returns, comparisons=pairs)
    found = {
        (q.a, q.b): compare(table, q, confirmatory=True)
        for q in questions(table.study, ("return",))
    }
    assert found["b", "a"].confirmatory
    silent = found["c", "b"]
    assert silent.verdict is Verdict.WORSE
    assert not silent.confirmatory
    assert silent.sentence().startswith("Exploratory: on point-mass-1, c is worse than b")


def test_a_comparison_may_be_a_question_on_some_setups_only() -> None:
    pairs = [{"pair": ["b", "a"]}, {"pair": ["c", "a"], "weight": 2, "setups": [PM[1]]}]
    plan = study(("a", "b", "c"), PM, comparisons=pairs, primary=["return", "normalised"])
    asked = questions(plan, ("return",))
    weighted = {(q.a, q.scope, q.estimand): q.alpha for q in asked if q.weighted}
    # Of the whole suite only a pair is asked that is asked everywhere.
    assert weighted == pytest.approx(
        {
            ("b", PM[0], "return"): 0.05 / 5,
            ("b", PM[1], "return"): 0.05 / 5,
            ("c", PM[1], "return"): 0.05 * 2 / 5,
            ("b", SUITE, "normalised"): 0.05 / 5,
        }
    )
    assert [(q.a, q.scope) for q in asked if not q.weighted] == [("c", PM[0])]
    # What is said of no pair stands in no plan.
    written = plan.model_dump(mode="json")["statistics"]["comparisons"]
    assert ["setups" in pair for pair in written] == [False, True]


def test_a_reason_for_doubt_makes_every_claim_exploratory() -> None:
    table = score_table(draw({"default": 30, "spgl": 85}, 16))
    found = analyse(table, Standing(doubts=("the plan was changed",)))
    assert found.exploratory == ("the plan was changed",)
    assert not any(c.confirmatory for c in found.comparisons)
    assert all(claim.startswith("Exploratory: ") for claim in found.claims)


LOST = ("crashed-infrastructure", "missing")


@pytest.mark.parametrize("status", ["deleted", "floor", *LOST])
def test_losing_the_bad_runs_never_pays(status: str) -> None:
    """A method that fails half of its runs is no better for the failures being gone."""
    rng = np.random.default_rng(0)
    good = rng.random(60) < 0.5
    table = score_table({"default": np.full(60, 50.0), "fragile": np.where(good, 90.0, 5.0)})
    naive = table.rows[(table.rows["label"] == "default") | (table.rows["return"] > 50)]
    assert naive.groupby("label")["return"].mean()["fragile"] > 85, "what survivorship would show"
    bad = np.flatnonzero(~good)
    if status == "deleted":
        table = with_rows(table, naive)
    elif status in LOST:
        table = lose(table, "fragile", bad, status)
    found = first(table)
    assert found.verdict not in (Verdict.BETTER, Verdict.NOT_WORSE, Verdict.EQUIVALENT)
    if status in ("deleted", "missing"):
        assert found.seeds == bad[0], "what comes after a gap must not stand in for it"
    else:
        assert found.seeds == 60
    assert found.lost == (len(bad) if status == "crashed-infrastructure" else 0)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12),
    st.sets(st.integers(0, 11), max_size=4),
    st.sets(st.integers(0, 11), max_size=4),
)
def test_whatever_lost_runs_were_the_interval_holds_it(
    scores: list[tuple[float, float]], lost_a: set[int], lost_b: set[int]
) -> None:
    x, y = np.array(scores).T
    whole = score_table({"b": y, "a": x})
    table = lose(whole, "a", list(lost_a), "crashed-infrastructure")
    table = lose(table, "b", list(lost_b), "crashed-infrastructure")
    pairs, known = (each.paired("a", "b", "point-mass-1", "return") for each in (table, whole))
    assert pairs.lost == sum(seed < len(x) for seed in [*lost_a, *lost_b])
    z = known.differences("worst")
    assert (pairs.differences("worst") <= z).all()
    assert (pairs.differences("best") >= z).all()
    for each, lost in zip((pairs.x[:, 0], pairs.y[:, 0]), (lost_a, lost_b), strict=True):
        assert set(np.flatnonzero(np.isnan(each))) == {seed for seed in lost if seed < len(x)}
    low, high = difference_interval(z, RANGE, 0.05)
    assert difference_interval(pairs.differences("worst"), RANGE, 0.05)[0] <= low
    assert difference_interval(pairs.differences("best"), RANGE, 0.05)[1] >= high


def test_lost_runs_that_cannot_turn_a_verdict_do_not_block_it() -> None:
    table = score_table(draw({"default": 5, "spgl": 95}, 30))
    table = lose(table, "spgl", 3, "crashed-infrastructure")
    found = analyse(table)
    item = found.comparisons[0]
    assert item.verdict is Verdict.BETTER
    assert (item.seeds, item.lost) == (30, 1)
    assert "spgl" not in item.hidden, "a lost run may have been a failure"
    whole = first(score_table(draw({"default": 5, "spgl": 95}, 30)))
    assert item.interval is not None
    assert whole.interval is not None
    assert item.interval.low < whole.interval.low
    (estimate,) = [
        e
        for e in found.estimates
        if (e.label, e.estimand, e.functional) == ("spgl", "return", "mean")
    ]
    assert estimate.unresolved == 1
    assert estimate.worst is not None
    assert estimate.best is not None
    assert estimate.worst == pytest.approx(29 / 30 * estimate.value)
    assert estimate.worst < estimate.value < estimate.best
    (cell,) = [c for c in found.accounting if c.label == "spgl"]
    assert (cell.planned, cell.ok, cell.unresolved) == (30, 29, 1)
    assert found.runs == 29


def test_lost_runs_without_a_range_decide_nothing() -> None:
    table = score_table(draw({"default": 30, "spgl": 60}, 20), bounded=False)
    whole = first(table)
    assert whole.interval is None
    assert whole.verdict is Verdict.BETTER
    assert "rests on a t-test" in whole.sentence()
    lost = first(lose(table, "spgl", [4, 9], "crashed-infrastructure"))
    assert lost.verdict is Verdict.UNDECIDED


def test_the_wealth_that_is_shown_agrees_with_the_verdict() -> None:
    table = score_table({"default": np.full(40, 60.0), "spgl": np.full(40, 50.0)})
    table = lose(table, "spgl", range(0, 40, 2), "crashed-infrastructure")
    found = first(table)
    assert found.verdict is Verdict.UNDECIDED
    assert found.wealth is not None
    assert max(side.max() for side in found.wealth) < np.log(2 / found.question.alpha)


def test_a_range_decides_where_a_model_would_be_sure() -> None:
    """Ten runs that never failed against ten that did once: no shape is trusted."""
    scores = np.r_[np.linspace(84, 86, 9), 60.0]
    found = first(score_table({"default": scores, "spgl": np.linspace(86.0, 88.0, 10)}))
    assert found.verdict is Verdict.UNDECIDED
    assert found.hidden["spgl"] == pytest.approx(1 - 0.05 ** (1 / 10))
    easy = first(
        score_table({"default": np.linspace(59, 61, 10), "spgl": np.linspace(86.0, 88.0, 10)})
    )
    assert (easy.verdict, easy.model_verdict) == (Verdict.UNDECIDED, Verdict.BETTER)
    assert easy.shown is easy.interval
    assert "a t-test would already say “better”; it trusts that failures rarer than 1 in 4" in (
        easy.sentence()
    )


def test_runs_that_all_agree_get_a_bounded_interval_or_none() -> None:
    flat = {"default": np.full(12, 50.0), "spgl": np.full(12, 50.0)}
    found = analyse(score_table(flat))
    kinds = {(e.estimand, e.functional): e for e in found.estimates if e.label == "spgl"}
    mean = kinds["return", "mean"]
    assert mean.interval is not None
    assert mean.interval.kind == "learned-miller-thomas"
    assert mean.rliable is None
    assert any("zero width" in sentence for sentence in mean.refusals)
    assert kinds["return", "iqm"].interval is None
    for item in found.estimates:
        # Rounding must not lend a width to runs that are all the same.
        shown = [each for each in (item.interval, item.rliable) if each is not None]
        assert all(each.width > 0.1 for each in shown), item
    success = kinds["success", "mean"].interval
    assert success is not None
    assert success.kind == "wilson"
    for item in found.comparisons:
        assert item.model is None
        assert item.interval is not None
        assert item.interval.low < 0 < item.interval.high
        assert item.verdict is Verdict.UNDECIDED
    unbounded = analyse(score_table(flat, bounded=False))
    (bare,) = [
        e
        for e in unbounded.estimates
        if (e.label, e.estimand, e.functional) == ("spgl", "return", "mean")
    ]
    assert bare.interval is None
    assert "declare the bounds" in bare.refusals[0]
    assert unbounded.comparisons[0].shown is None
    assert "no interval can be given" in unbounded.claims[0]


def test_five_runs_have_no_percentiles() -> None:
    found = analyse(score_table(draw({"default": 30, "spgl": 85}, 5)))
    (estimate,) = [
        e
        for e in found.estimates
        if (e.label, e.estimand, e.functional) == ("spgl", "return", "iqm")
    ]
    assert estimate.interval is None
    assert estimate.rliable is None
    assert estimate.runs == 5


def test_steps_are_censored_not_dropped() -> None:
    table = score_table(draw({"default": 30, "spgl": 85}, 12))
    rows = table.rows.copy()
    rows["steps_to_threshold"] = np.where(rows["label"] == "default", np.nan, 300.0)
    rows.loc[rows["seed"] == 0, "steps_to_threshold"] = 200.0
    found = analyse(with_rows(table, rows))
    means = {e.label: e.value for e in found.estimates if e.estimand == "steps_to_threshold"}
    assert means["default"] == pytest.approx((200 + 11 * 1_000) / 12)
    assert means["spgl"] == pytest.approx((200 + 11 * 300) / 12)
    assert all(c.question.estimand != "steps_to_threshold" for c in found.comparisons)


def test_episodes_cannot_pass_for_runs() -> None:
    table = score_table(draw({"default": 30, "spgl": 85}, 5))
    with pytest.raises(UserError, match="one row per run, not one per episode"):
        with_rows(table, pd.concat([table.rows, table.rows]))


def test_contradictions_are_refused() -> None:
    table = score_table(draw({"default": 30, "spgl": 85}, 5))
    with pytest.raises(UserError, match="unknown status 'fine'"):
        with_rows(table, table.rows.assign(status="fine"))
    single = table.study.model_copy(
        update={
            "evaluation": table.study.evaluation.model_copy(update={"points": 1}),
            "statistics": table.study.statistics.model_copy(update={"primary": ("auc",)}),
        }
    )
    with pytest.raises(UserError, match="'auc' needs two evaluations"):
        analyse(replace(table, study=single))
    with pytest.raises(UserError, match="must not be called 'suite'"):
        analyse(replace(table, study=table.study.model_copy(update={"setups": (SUITE,)})))


def test_nothing_has_run_yet() -> None:
    table = score_table(draw({"default": 30, "spgl": 85}, 5))
    rows = table.rows.assign(status="missing", how="unresolved", **dict.fromkeys(ESTIMANDS, np.nan))
    found = analyse(with_rows(table, rows))
    assert found.runs == 0
    assert all(c.verdict is Verdict.UNDECIDED and c.seeds == 0 for c in found.comparisons)
    assert "no interval can be given" in found.claims[0]


def _interval(low: float, high: float, level: float = 0.95) -> Interval:
    return Interval((low + high) / 2, low, high, level, "confidence-sequence", "difference", 20, 1)


@given(st.floats(-2, 2), st.floats(1e-6, 3), st.floats(0.01, 1))
def test_the_verdict_is_where_the_interval_lies(low: float, width: float, effect: float) -> None:
    high = low + width
    found = judge(_interval(low, high), effect)
    assert (found is Verdict.BETTER) == (low > 0)
    assert (found is Verdict.WORSE) == (high < 0)
    inside = low > -effect and high < effect
    assert (found is Verdict.EQUIVALENT) == (inside and low <= 0 <= high)
    assert (found is Verdict.NOT_WORSE) == (-effect < low <= 0 and high >= max(effect, 0))
    mirrored = judge(_interval(-high, -low), effect)
    swap = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    if found in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT):
        assert mirrored is swap.get(found, found)


def test_no_interval_is_no_verdict() -> None:
    assert judge(None, 0.1) is Verdict.UNDECIDED


BASE = replace(
    first(score_table({"default": np.full(6, 50.0), "spgl": np.full(6, 50.0)})), permutation_p=0.0
)


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("interval", [None, _interval(-0.25, 1.25)])
@pytest.mark.parametrize("confirmatory", [True, False])
def test_no_sentence_calls_methods_equal(
    verdict: Verdict, interval: Interval | None, confirmatory: bool
) -> None:
    item = replace(BASE, verdict=verdict, interval=interval, confirmatory=confirmatory)
    said = item.sentence().lower()
    for word in ("equal", "same", "no difference", "identical", "not significant"):
        assert word not in said
    assert said.endswith(".")
    assert said.startswith("on point-mass-1") == confirmatory
    assert item.to_dict()["verdict"] == verdict.value


def test_sentences() -> None:
    better = replace(BASE, verdict=Verdict.BETTER, interval=_interval(0.25, 1.25), effect=1.5)
    assert better.sentence() == (
        "On point-mass-1, spgl is better than default in mean target return, by less than the "
        "smallest effect of interest (1.5) (difference 0.75, 95 % interval 0.25 to 1.25, 20 seeds)."
    )
    large = replace(better, effect=0.5)
    assert "by less than" not in large.sentence()
    within = replace(better, verdict=Verdict.EQUIVALENT, interval=_interval(-0.25, 1.25))
    assert "spgl and default differ in mean target return by less than the smallest effect" in (
        within.sentence()
    )
    short = replace(better, verdict=Verdict.NOT_WORSE, interval=_interval(-0.25, 3))
    assert "spgl is not worse than default in mean target return by the smallest effect" in (
        short.sentence()
    )
    assert "−0.25 to 3" in short.sentence()


@pytest.mark.parametrize(
    ("level", "words"), [(0.95, "95"), (0.951, "95.1"), (0.997, "99.7"), (0.999985, "99.999")]
)
def test_a_level_is_never_rounded_to_certainty(level: float, words: str) -> None:
    item = replace(BASE, verdict=Verdict.BETTER, interval=_interval(0.25, 1.25, level))
    assert f"{words} % interval" in item.sentence()
