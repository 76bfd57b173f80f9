"""The whole analysis: golden record, invariances, missing runs, looks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.analysis import Analysis, analyse
from pacebench.harness.statistics.specification import StatisticsSpec

MakeRuns = Callable[..., pd.DataFrame]
GOLDEN = Path(__file__).with_name("golden_analysis.json")
SETUPS = ("ball-catching", "point-mass")
SPEC = StatisticsSpec(
    control="default",
    runs=12,
    sesoi={"score": 1.0, "normalised": {"suite": 0.2}},
    ranges={
        "score": dict.fromkeys(SETUPS, (-10.0, 10.0)),
        "normalised": dict.fromkeys(SETUPS, (-2.5, 2.5)),
        "cvar": dict.fromkeys(SETUPS, (-11.0, 9.0)),
    },
    horizons=dict.fromkeys(SETUPS, 100.0),
    frozen=True,
    resamples=500,
    permutations=199,
)
SHIFTS = {"default": 0.0, "spgl": 2.5, "spdl": 0.1}


def _rounded(value: Any) -> Any:
    """Numbers to nine digits, so that the record is the same on another machine."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if np.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def test_golden_record(make_runs: MakeRuns) -> None:
    """`PACEBENCH_GOLDEN=1 pytest …` writes it anew; the difference is then read by a person."""
    record = _rounded(analyse(make_runs(SHIFTS), SPEC, 7).to_dict())
    _strip(record)
    if os.environ.get("PACEBENCH_GOLDEN"):
        parts = [f" {json.dumps(key)}: {_lines(value)}" for key, value in record.items()]
        text = "{\n" + ",\n".join(parts) + "\n}\n"
        GOLDEN.write_text(text, encoding="utf-8")
    assert record == json.loads(GOLDEN.read_text(encoding="utf-8"))


def _strip(value: Any) -> None:
    """Takes out what has its own test (simulated coverage) or is input (the runs)."""
    if isinstance(value, dict):
        for key in ("coverage", "coverage_sentence", "under_covers", "points"):
            value.pop(key, None)
        for item in value.values():
            _strip(item)
    elif isinstance(value, list):
        for item in value:
            _strip(item)


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n  " + ",\n  ".join(json.dumps(v, ensure_ascii=False) for v in value) + "\n ]"


def test_known_answers(make_runs: MakeRuns) -> None:
    """The golden numbers are right ones: recomputed here with scipy alone."""
    runs = make_runs(SHIFTS)
    found = analyse(runs, SPEC, 7)
    table = runs.set_index(["method", "setup"])["score"].sort_index()
    family = [item for item in found.contrasts if item.family]
    assert [(c.comparison.method, c.comparison.scope) for c in family] == [
        ("spdl", "ball-catching"),
        ("spgl", "ball-catching"),
        ("spdl", "point-mass"),
        ("spgl", "point-mass"),
        ("spdl", "suite"),
        ("spgl", "suite"),
    ]
    for item in family[:4]:
        a = table[item.comparison.method, item.comparison.scope]
        b = table["default", item.comparison.scope]
        oracle = stats.ttest_ind(a, b, equal_var=False)
        assert item.test is not None
        assert item.test.p_value == pytest.approx(oracle.pvalue)
        assert item.adjusted_p is not None
        assert item.adjusted_p >= oracle.pvalue
        ends = oracle.confidence_interval(0.95)
        assert item.interval is not None
        assert item.simultaneous is not None
        assert (item.interval.low, item.interval.high) == pytest.approx(tuple(ends))
        assert item.simultaneous.low < item.interval.low
        assert item.simultaneous.high > item.interval.high
    outcomes = [item.verdict.outcome.value for item in family]
    assert outcomes[1] == outcomes[3] == outcomes[5] == "better"
    for row in found.paper:
        values = table[row.method, row.setup]
        assert row.mean == pytest.approx(values.mean())
        assert row.standard_error == pytest.approx(stats.sem(values))
        assert row.best == (row.method == "spgl")
    assert found.exploratory == ()
    assert len(found.claims) == 6


def _text(analysis: Analysis) -> str:
    return json.dumps(analysis.to_dict(), sort_keys=True)


def test_same_seed_same_bytes_and_the_global_generator_unmoved(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS)
    before = np.random.get_state()  # noqa: NPY002
    first = _text(analyse(runs, SPEC, 3))
    assert first == _text(analyse(runs, SPEC, np.random.SeedSequence(3)))
    assert first != _text(analyse(runs, SPEC, 4))
    after = np.random.get_state()  # noqa: NPY002
    assert before[2] == after[2]
    assert (before[1] == after[1]).all()


def test_order_of_rows_methods_and_setups_does_not_matter(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS)
    plain = _text(analyse(runs, SPEC, 0))
    for seed in range(3):
        assert _text(analyse(runs.sample(frac=1, random_state=seed), SPEC, 0)) == plain
    by_setup = runs.sort_values(["setup", "seed", "method"], ascending=False)
    assert _text(analyse(by_setup, SPEC, 0)) == plain


def test_names_do_not_decide(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS)
    other = {"default": "zz", "spgl": "aa", "spdl": "mm"}
    renamed = runs.assign(method=runs["method"].map(other))
    plain = analyse(runs, SPEC, 0)
    found = analyse(renamed, replace(SPEC, control="zz"), 0)
    verdicts = {
        (other[c.comparison.method], c.comparison.scope, c.comparison.column): (
            c.verdict.outcome,
            c.adjusted_p,
        )
        for c in plain.contrasts
        if c.family
    }
    for c in found.contrasts:
        if c.family:
            key = (c.comparison.method, c.comparison.scope, c.comparison.column)
            assert verdicts[key] == (c.verdict.outcome, pytest.approx(c.adjusted_p))


def test_a_method_more_changes_no_estimate_of_the_others(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS)
    fewer = analyse(runs[runs["method"] != "spdl"], SPEC, 0)
    more = {
        (e.method, e.scope, e.column, e.functional): e for e in analyse(runs, SPEC, 0).estimates
    }
    assert fewer.estimates
    for item in fewer.estimates:
        same = more[item.method, item.scope, item.column, item.functional]
        assert same.to_dict() == item.to_dict()


def test_affine_change_of_the_score_changes_no_verdict(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS)
    spec = replace(SPEC, estimands=("score",), scopes=("setups",), sesoi={}, ranges={})
    plain = analyse(runs, spec, 0)
    moved = analyse(runs.assign(score=1000 + 7 * runs["score"]), spec, 0)
    for a, b in zip(plain.contrasts, moved.contrasts, strict=True):
        assert a.verdict.outcome == b.verdict.outcome
        assert a.adjusted_p == pytest.approx(b.adjusted_p)
        assert a.interval is not None
        assert b.interval is not None
        assert b.interval.low == pytest.approx(7 * a.interval.low)


def test_deleting_failed_runs_is_impossible_and_failing_never_pays(make_runs: MakeRuns) -> None:
    """A method that fails half of its runs and is good in the rest must not come out better."""
    runs = make_runs({"default": 0.0, "fragile": 0.0}, runs=20)
    bad = (runs["method"] == "fragile") & (runs["score"] < 0)
    survivors = runs[~bad]
    spec = replace(SPEC, runs=20, estimands=("score",), scopes=("setups",), sesoi={})
    manifest = list(runs[["method", "setup", "seed"]].itertuples(index=False, name=None))
    # What survivorship would claim if a smaller manifest were accepted:
    naive = stats.ttest_ind(
        survivors[survivors["method"] == "fragile"]["score"],
        survivors[survivors["method"] == "default"]["score"],
        equal_var=False,
    )
    assert naive.pvalue < 0.001
    assert naive.statistic > 0
    marked = runs.assign(status=np.where(bad, "diverged", "ok"))
    for analysis in (
        analyse(survivors, spec, 0, manifest=manifest),
        analyse(marked, spec, 0, manifest=manifest),
        analyse(runs.assign(status=np.where(bad, "crashed-infrastructure", "ok")), spec, 0),
    ):
        outcomes = {c.verdict.outcome.value for c in analysis.contrasts}
        assert "better" not in outcomes
    (first, *_) = analyse(survivors, spec, 0, manifest=manifest).contrasts
    assert "could turn 'better'" in first.verdict.sentence()


def test_unknown_runs_that_cannot_flip_a_verdict_do_not_block_it(make_runs: MakeRuns) -> None:
    runs = make_runs({"default": 0.0, "spgl": 8.0}, runs=20)
    runs.loc[runs["seed"] == 3, "status"] = "crashed-infrastructure"
    spec = replace(
        SPEC,
        runs=20,
        estimands=("score",),
        scopes=("setups",),
        sesoi={},
        ranges={"score": dict.fromkeys(SETUPS, (-10.0, 10.0))},
    )
    found = analyse(runs, spec, 0)
    assert [c.verdict.outcome.value for c in found.contrasts] == ["better", "better"]
    (estimate, *_) = [e for e in found.estimates if e.method == "spgl"]
    assert estimate.unresolved == 1
    assert estimate.worst is not None
    assert estimate.best is not None
    assert estimate.worst < estimate.value < estimate.best
    blocked = analyse(runs, replace(spec, ranges={}), 0)
    assert all("range of the score is not declared" in c.verdict.blocked for c in blocked.contrasts)


def test_runs_that_all_agree_get_a_bounded_interval_or_none(make_runs: MakeRuns) -> None:
    runs = make_runs({"default": 0.0, "spgl": 0.0}).assign(score=3.0, success=1.0)
    spec = replace(SPEC, estimands=("score", "success"), scopes=("setups",), sesoi={})
    found = analyse(runs, spec, 0)
    kinds = {(e.column, e.functional): e for e in found.estimates if e.scope == "point-mass"}
    mean = kinds["score", "mean"]
    assert mean.interval is not None
    assert mean.interval.kind == "learned-miller-thomas"
    assert "bounded" in mean.interval.note
    assert mean.rliable is None
    assert any("zero width" in sentence for sentence in mean.refusals)
    assert kinds["score", "iqm"].interval is None
    success = kinds["success", "mean"].interval
    assert success is not None
    assert success.kind == "wilson"
    for contrast in found.contrasts:
        assert contrast.test is None
        assert contrast.interval is not None
        assert contrast.interval.kind.startswith("mover-")
        assert contrast.verdict.outcome.value == "inconclusive"
    unbounded = analyse(runs, replace(spec, ranges={}), 0)
    (bare,) = [
        e
        for e in unbounded.estimates
        if (e.method, e.scope, e.column, e.functional) == ("spgl", "point-mass", "score", "mean")
    ]
    assert bare.interval is None
    assert "declare the bounds" in bare.refusals[0]


def test_five_runs_show_points_instead_of_percentiles(make_runs: MakeRuns) -> None:
    found = analyse(make_runs(SHIFTS, setups=("point-mass",), runs=5), replace(SPEC, runs=5), 0)
    (estimate,) = [
        e for e in found.estimates if (e.method, e.column, e.functional) == ("spgl", "score", "iqm")
    ]
    assert estimate.interval is None
    assert estimate.rliable is None
    assert len(estimate.points) == 5
    assert any("fewer than 10" in reason for reason in found.exploratory)
    assert all(c.startswith("Exploratory: ") for c in found.claims)


def test_steps_are_censored_not_dropped(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS, setups=("point-mass",))
    runs["steps_to_threshold"] = np.where(runs["method"] == "default", np.nan, 30.0)
    runs.loc[runs["seed"] == 0, "steps_to_threshold"] = 20.0
    found = analyse(runs, SPEC, 0)
    means = {e.method: e.value for e in found.estimates if e.column == "steps_to_threshold"}
    assert means["default"] == pytest.approx((20 + 11 * 100) / 12)
    assert means["spgl"] == pytest.approx((20 + 11 * 30) / 12)
    (contrast,) = [
        c
        for c in found.contrasts
        if (c.comparison.column, c.comparison.method) == ("steps_to_threshold", "spgl")
    ]
    assert contrast.verdict.outcome.value == "better", "fewer steps are better"
    with pytest.raises(UserError, match="horizon"):
        analyse(runs, replace(SPEC, horizons={}), 0)


def test_looks(make_runs: MakeRuns) -> None:
    runs = make_runs(SHIFTS, runs=12)
    spec = replace(SPEC, runs=20, looks=(12,), estimands=("score",), scopes=("setups",))
    manifest = [
        (method, setup, seed) for method in SHIFTS for setup in SETUPS for seed in range(20)
    ]
    declared = analyse(runs, spec, 0)
    assert declared.exploratory == ()
    assert 0 < declared.alpha < 0.01
    assert declared.level == pytest.approx(1 - declared.alpha)
    undeclared = analyse(runs, replace(spec, looks=()), 0, manifest=manifest)
    assert any("neither the planned 20 nor a declared look" in r for r in undeclared.exploratory)
    peeked = analyse(runs, spec, 0, looks_taken=[7, 12])
    assert any("undeclared numbers of runs: 7" in reason for reason in peeked.exploratory)
    loose = analyse(runs, replace(spec, frozen=False), 0)
    assert any("not frozen" in reason for reason in loose.exploratory)
    changed = analyse(runs, spec, 0, deviations=["runs was 20 and is 12."])
    assert changed.exploratory == ("runs was 20 and is 12.",)
    assert not any(c.verdict.confirmatory for c in changed.contrasts)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"control": "x"}, "'x', which is not in the manifest"),
        ({"estimands": ("speed",)}, "Unknown estimand 'speed'"),
        ({"primary": "auc", "estimands": ("score",)}, "primary estimand 'auc'"),
        ({"looks": (40,)}, "Looks"),
        ({"alpha": 0.7}, "alpha"),
        ({"scopes": ()}, "scopes"),
        ({"comparisons": (("spgl", "default"), ("default", "spgl"))}, "pair twice"),
    ],
)
def test_a_bad_specification_is_a_sentence(
    make_runs: MakeRuns, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        analyse(make_runs(SHIFTS), replace(SPEC, **change), 0)


def test_all_pairs(make_runs: MakeRuns) -> None:
    spec = replace(SPEC, comparisons="all-pairs", estimands=("score",), scopes=("setups",))
    found = analyse(make_runs(SHIFTS), spec, 0)
    assert len(found.contrasts) == 6
    assert all(item.family for item in found.contrasts)


def test_pairs_where_declared(make_runs: MakeRuns) -> None:
    """Runs that share their seed's luck: pairing finds what the unpaired analysis cannot."""
    runs = make_runs({"default": 0.0, "spgl": 0.0}, runs=12)
    luck = np.random.default_rng(1).normal(0, 5, 12)
    runs["score"] = runs["score"] + luck[runs["seed"]] + 2.0 * (runs["method"] == "spgl")
    runs.loc[(runs["seed"] == 4) & (runs["method"] == "spgl"), "status"] = "crashed-infrastructure"
    spec = replace(SPEC, estimands=("score",), scopes=("setups",), sesoi={}, ranges={}, runs=11)
    plain = analyse(runs, spec, 0)
    pairs = analyse(runs, replace(spec, paired=True), 0)
    for before, after in zip(plain.contrasts, pairs.contrasts, strict=True):
        assert before.interval is not None
        assert after.interval is not None
        assert after.interval.kind == "paired-t"
        assert after.interval.runs == 11
        assert after.interval.width < before.interval.width
        assert after.test is not None
        assert after.sensitivity is not None
        assert before.test is not None
        assert after.test.p_value < 0.01
        assert after.test.p_value < before.test.p_value / 5
        assert after.sensitivity.p_value < 0.02
        assert after.simultaneous is not None
        assert after.simultaneous.width > after.interval.width


def test_a_floor_above_a_score_is_no_bound_and_no_crash(make_runs: MakeRuns) -> None:
    ranges = {"score": dict.fromkeys(SETUPS, (0.0, 10.0))}
    spec = replace(SPEC, estimands=("score",), scopes=("setups",), ranges=ranges)
    runs = make_runs(SHIFTS)
    for table in (runs, runs.assign(score=-1.0)):
        found = analyse(table, spec, 0)
        (estimate, *_) = found.estimates
        assert estimate.bounded is None
        assert any("outside the declared bounds" in text for text in estimate.refusals)
