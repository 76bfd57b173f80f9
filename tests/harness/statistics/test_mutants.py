"""Mistakes that statistics code is known for, planted one by one: each must be caught.

A mutant is a change of the source text, so it fails loudly when the line it changes has moved.
Mutants of the confidence sequence itself are in test_confidence_sequence.py.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pacebench.harness.analysis import comparisons, planning
from pacebench.harness.analysis import scores as scoring
from pacebench.harness.analysis import table as tables_module
from pacebench.harness.errors import UserError
from pacebench.harness.statistics import (
    bootstrap,
    curves,
    exact,
    improvement,
    profiles,
    scores,
    welch,
)
from pacebench.harness.statistics.confidence_sequence import difference_interval
from tests.harness.report import synthetic
from tests.harness.statistics import tables


@contextmanager
def planted(module: types.ModuleType, old: str, new: str) -> Iterator[None]:
    """Runs with a line of a module's source replaced."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(old) >= 1, f"{module.__name__} no longer holds {old!r}"
    kept = dict(vars(module))
    try:
        exec(compile(source.replace(old, new), module.__file__, "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(kept)


def _refuses(action: Callable[[], object]) -> None:
    try:
        action()
    except UserError:
        return
    raise AssertionError("not refused")


def check_seeds_are_heeded() -> None:
    values = np.random.default_rng(0).normal(size=(14, 2))

    def resample(seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        return bootstrap.resample(values, ["mean"], 40, rng)["mean"].tobytes()

    def permute(seed: int) -> float:
        rng = np.random.default_rng(seed)
        return exact.permutation_p_value(values[:, 0], values[:, 1] + 0.3, rng, 2_000)

    def band(seed: int) -> float:
        walks = values.cumsum(axis=1)
        return curves.max_t_quantile(walks, 0.95, np.random.default_rng(seed), 40)

    for function in (resample, permute, band):
        assert function(0) == function(0)
        assert function(0) != function(1)


def check_spread_against_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5), rng.normal(size=7)
    oracle = stats.ttest_ind(a, b, equal_var=False)
    moments = welch.difference_moments(a[:, None], b[:, None])
    assert abs(float(welch.p_value(moments)) - oracle.pvalue) < 1e-9
    assert abs(float(welch.mean_moments(a[:, None]).error) - stats.sem(a)) < 1e-9
    p = float(welch.p_value(improvement.moments(a[:, None], b[:, None]), 0.5))
    assert abs(p - stats.brunnermunzel(a, b).pvalue) < 1e-9


def check_no_spread_is_none() -> None:
    same = np.full((12, 1), 0.56115)
    assert welch.difference_moments(same, same).error == 0


def check_nothing_vanishes() -> None:
    _refuses(lambda: scores.Scores.single_task("m", [1.0, np.nan, 3.0]))


def check_transposed_is_refused() -> None:
    _refuses(lambda: scores.Scores("m", ("a", "b"), (0, 1, 2), np.ones((2, 3))))
    _refuses(
        lambda: scores.Scores("m", (0, 1), ("a", "b"), np.ones((2, 2)))  # type: ignore[arg-type]
    )
    _refuses(lambda: scores.Scores("m", (0, 1), (5, 6), np.ones((2, 2))))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    _refuses(lambda: curves.learning_curve(range(4), np.ones((4, 3)), range(3), rng))


def check_overlapping_seeds_are_refused() -> None:
    _refuses(lambda: scores.Scores("m", ("a",), (0, 0), np.ones((2, 1))))
    plan = tables.study(("default", "spgl"))
    mine = {run.run_id for run in planning.expand(plan)}
    planning.refuse_overlap("pilot", {"another run"}, plan)
    _refuses(lambda: planning.refuse_overlap("pilot", {"another run", *list(mine)[:1]}, plan))
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(3, 4)).cumsum(axis=1)
    _refuses(lambda: curves.learning_curve(range(4), walks, (0, 0, 1), rng))


def check_episodes_are_refused() -> None:
    table = tables.score_table({"default": [1.0, 2.0], "spgl": [3.0, 4.0]})
    rows = pd.concat([table.rows, table.rows])
    _refuses(
        lambda: tables_module.ScoreTable(table.study, table.scales, rows, np.random.SeedSequence(0))
    )


def check_both_sides_count() -> None:
    independent = np.random.default_rng(0).normal(size=(40, 10))
    found = curves.max_t_quantile(independent, 0.95, np.random.default_rng(0))
    assert abs(found - stats.t.isf(0.025 / 10, 39)) < 0.15
    a, b = np.arange(14.0), np.arange(14.0) + 3
    for x, y in ((a, b), (b, a)):
        p = exact.permutation_p_value(x, y, np.random.default_rng(0), 4_000)
        oracle = stats.ttest_ind(x, y).pvalue
        assert abs(p - oracle) < 0.3 * oracle
    assert profiles.half_width(20, 1, 0.95) > stats.ksone.ppf(0.95, 20) + 0.01


# --- The rule of verdicts, from the table of runs to the claim ------------------------------------


def _answer(table: tables.ScoreTable) -> comparisons.ComparisonResult:
    asked = comparisons.questions(table.study, ())[0]
    return comparisons.compare(_of_today(table), asked, confirmatory=True)


def _of_today(table: tables.ScoreTable) -> tables_module.ScoreTable:
    """Returns the table as the module's present class, which a mutant may have replaced."""
    return tables_module.ScoreTable(table.study, table.scales, table.rows, table.seed)


CLEAR = {"default": np.full(20, 5.0), "spgl": np.full(20, 95.0)}
LOST = "crashed-infrastructure"


def check_alpha_is_shared() -> None:
    pairs = [{"pair": [name, "a"], "weight": w} for name, w in (("b", 1), ("c", 2), ("d", 0))]
    asked = comparisons.questions(
        tables.study(("a", "b", "c", "d"), comparisons=pairs, primary=["return", "solved"]), ()
    )
    weighted = [q for q in asked if q.weighted]
    assert abs(sum(q.alpha for q in weighted) - 0.05) < 1e-12
    assert {q.a for q in weighted} == {"b", "c"}
    by_label = {q.a: q.alpha for q in weighted}
    assert abs(by_label["c"] / by_label["b"] - 2) < 1e-12


def check_alpha_reaches_the_interval() -> None:
    table = tables.score_table(CLEAR)
    found = _answer(table)
    assert found.interval is not None
    ends = difference_interval(np.full(20, 90.0), tables.RANGE, 0.05)
    assert (found.interval.low, found.interval.high) == ends
    shared = _answer(tables.score_table(CLEAR, primary=["return", "solved", "auc"]))
    assert shared.interval is not None
    assert shared.interval.low < found.interval.low


def check_failed_runs_score_the_floor() -> None:
    methods = (synthetic.Method("default", 0.9, 0.0, status={1: "diverged"}),)
    setups = ("point-mass-1",)
    plan, frames = synthetic.study(methods, setups, 4), synthetic.frames(methods, setups, 4)
    # One ran out of time after its last evaluation.
    frames.runs["status"] = frames.runs["status"].where(frames.runs["seed"] != 2, "timeout")
    scales = {name: scoring.scale_of(synthetic.setup(name)) for name in setups}
    rows = scoring.score_runs(frames, plan, scales).set_index("seed")  # type: ignore[arg-type]
    scale = scales["point-mass-1"]
    for seed in (1, 2):
        assert rows.loc[seed, "return"] == scale.raw(scale.floor)
        for name in ("normalised", "auc", "cvar"):
            assert abs(rows.loc[seed, name] - scale.floor) < 1e-12
        assert rows.loc[seed, "success"] == rows.loc[seed, "solved"] == 0
    assert rows["return"].notna().all()
    assert len(rows) == 4


def check_a_gap_is_not_jumped() -> None:
    table = tables.lose(tables.score_table(CLEAR), "spgl", 3, "missing")
    assert _answer(table).seeds == 3
    gone = table.rows[table.rows["status"] != "missing"]
    assert _answer(tables.with_rows(table, gone)).seeds == 3
    mixed = table.rows.sample(frac=1, random_state=0)
    x = _of_today(tables.with_rows(table, mixed)).paired(
        "spgl", "default", "point-mass-1", "return"
    )
    assert len(x.x) == 3


def check_seeds_are_taken_by_index() -> None:
    values = {"default": np.zeros(6), "spgl": np.arange(6.0)}
    table = tables.score_table(values)
    mixed = tables.with_rows(table, table.rows.sample(frac=1, random_state=3))
    pairs = _of_today(mixed).paired("spgl", "default", "point-mass-1", "return")
    assert pairs.differences("worst").tolist() == [0, 1, 2, 3, 4, 5]


def check_lost_runs_are_worst_and_best() -> None:
    table = tables.score_table(CLEAR)
    for label, worst, best in (("spgl", -5.0, 95.0), ("default", -5.0, 95.0)):
        pairs = _of_today(tables.lose(table, label, [2, 7], LOST)).paired(
            "spgl", "default", "point-mass-1", "return"
        )
        assert pairs.lost == 2
        assert pairs.differences("worst")[2] == worst
        assert pairs.differences("best")[2] == best
    whole, found = _answer(table), _answer(tables.lose(table, "spgl", [2, 7], LOST))
    assert found.seeds == 20
    assert found.lost == 2
    assert found.interval is not None
    assert whole.interval is not None
    assert found.interval.low < whole.interval.low
    assert "spgl" not in found.hidden
    upper = _answer(tables.lose(table, "default", [2, 7], LOST))
    assert upper.interval is not None
    z = np.full(20, 90.0)
    z[[2, 7]] = 95.0
    assert upper.interval.high == difference_interval(z, tables.RANGE, 0.05)[1]


def check_clipping_is_counted() -> None:
    outside = {"default": np.r_[np.full(5, -40.0), np.full(5, 40.0)], "spgl": np.full(10, 150.0)}
    found = _answer(tables.score_table(outside, primary="normalised", bounded=False))
    assert found.clipped == 15
    assert found.interval is not None
    assert found.interval.high <= 1.25


def check_the_range_decides() -> None:
    near = {"default": np.linspace(59, 61, 10), "spgl": np.linspace(86, 88, 10)}
    found = _answer(tables.score_table(near))
    assert found.interval is not None
    assert found.model is not None
    assert found.shown is found.interval
    assert found.verdict.value == "undecided"
    assert found.model_verdict.value == "better"
    assert "a t-test would already say" in found.sentence()
    assert found.to_dict()["low"] == found.interval.low


def check_hidden_failures_are_told() -> None:
    table = tables.score_table(CLEAR)
    found = _answer(table)
    assert set(found.hidden) == {"spgl"}, "the control fails in every run"
    assert abs(found.hidden["spgl"] - (1 - 0.05 ** (1 / 20))) < 1e-12


def check_a_contradiction_is_no_verdict() -> None:
    turned = {"default": [0.0] * 60 + [100.0] * 90, "spgl": [100.0] * 60 + [0.0] * 90}
    found = _answer(tables.score_table(turned))
    assert found.verdict.value == "undecided"
    assert "there is no verdict" in found.sentence()


def check_permutations_share_alpha() -> None:
    arms = {"default": [50.0, 51, 52, 53], "spgl": [60.0, 61, 62, 63], "other": [50.0, 51, 52, 54]}
    found = _answer(tables.score_table(arms))
    assert found.permutation_p is not None
    assert found.permutation_adjusted == 2 * found.permutation_p


def check_exploratory_is_no_claim() -> None:
    pairs = [{"pair": ["spgl", "default"], "weight": 0}, ["default", "spgl"]]
    table = tables.score_table(CLEAR, comparisons=pairs)
    (asked,) = [q for q in comparisons.questions(table.study, ("return",)) if q.a == "spgl"]
    found = comparisons.compare(_of_today(table), asked, confirmatory=True)
    assert not found.confirmatory
    assert found.sentence().startswith("Exploratory: ")


CHECKS = (
    check_seeds_are_heeded,
    check_spread_against_scipy,
    check_no_spread_is_none,
    check_nothing_vanishes,
    check_transposed_is_refused,
    check_overlapping_seeds_are_refused,
    check_episodes_are_refused,
    check_both_sides_count,
    check_alpha_is_shared,
    check_alpha_reaches_the_interval,
    check_failed_runs_score_the_floor,
    check_a_gap_is_not_jumped,
    check_seeds_are_taken_by_index,
    check_lost_runs_are_worst_and_best,
    check_clipping_is_counted,
    check_the_range_decides,
    check_hidden_failures_are_told,
    check_exploratory_is_no_claim,
    check_a_contradiction_is_no_verdict,
    check_permutations_share_alpha,
)

FRESH = "np.random.default_rng(0)"
Check = Callable[[], None]
# The module, the line, what it becomes, and the check that must notice.
MUTANTS: dict[str, tuple[types.ModuleType, str, str, Check]] = {
    "ignored seed, bootstrap": (
        bootstrap,
        "rng.integers(",
        f"{FRESH}.integers(",
        check_seeds_are_heeded,
    ),
    "ignored seed, permutation": (
        exact,
        "rng.permuted(",
        f"{FRESH}.permuted(",
        check_seeds_are_heeded,
    ),
    "ignored seed, band": (
        curves,
        "rng.standard_normal(",
        f"{FRESH}.standard_normal(",
        check_seeds_are_heeded,
    ),
    "unseeded bootstrap": (
        bootstrap,
        "rng.integers(",
        "np.random.default_rng().integers(",
        check_seeds_are_heeded,
    ),
    "ddof = 0, Welch": (welch, "ddof=1", "ddof=0", check_spread_against_scipy),
    "ddof = 0, Brunner-Munzel": (improvement, "ddof=1", "ddof=0", check_spread_against_scipy),
    "spread by rounding": (welch, "values - values[..., :1, :]", "values", check_no_spread_is_none),
    "dropped NaN, scores": (
        scores,
        "if not np.isfinite(values).all():",
        "values = np.nan_to_num(values)\n        if False:",
        check_nothing_vanishes,
    ),
    "transposed scores": (
        scores,
        "if values.shape != shape:",
        "values = values.T if values.shape != shape else values\n        if False:",
        check_transposed_is_refused,
    ),
    "transposed names": (
        scores,
        "if not all(isinstance(task, str)",
        "if False and not all(isinstance(task, str)",
        check_transposed_is_refused,
    ),
    "transposed curves": (
        curves,
        "if values.shape != (len(seeds), grid.size):",
        "values = values.T if values.shape != (len(seeds), grid.size) else values\n    if False:",
        check_transposed_is_refused,
    ),
    "overlapping seeds, scores": (
        scores,
        "if len(set(self.seeds)) != len(self.seeds):",
        "if False:",
        check_overlapping_seeds_are_refused,
    ),
    "overlapping seeds, roles": (
        planning,
        "if shared:",
        "if False:",
        check_overlapping_seeds_are_refused,
    ),
    "overlapping seeds, curves": (
        curves,
        "if len(set(seeds)) != len(seeds):",
        "if False:",
        check_overlapping_seeds_are_refused,
    ),
    "episodes as runs": (
        tables_module,
        'if self.rows.duplicated(["label", "setup", "seed"]).any():',
        "if False:",
        check_episodes_are_refused,
    ),
    "signed maximum, band": (
        curves,
        "np.abs(t).max(axis=1)",
        "t.max(axis=1)",
        check_both_sides_count,
    ),
    "one-sided permutation, drawn": (
        exact,
        "np.abs(sums)",
        "sums",
        check_both_sides_count,
    ),
    "signed maximum, profile": (
        profiles,
        "stats.kstwo.ppf",
        "stats.ksone.ppf",
        check_both_sides_count,
    ),
    "α not shared among questions": (
        comparisons,
        "said.alpha * pair.weight / total, weighted=True",
        "said.alpha, weighted=True",
        check_alpha_is_shared,
    ),
    "α shared without weights": (
        comparisons,
        "said.alpha * pair.weight / total, weighted=True",
        "said.alpha / len(asked), weighted=True",
        check_alpha_is_shared,
    ),
    "α shared among pairs only": (
        comparisons,
        "total = sum(pair.weight for pair, _, _ in asked)",
        "total = sum(pair.weight for pair in study.comparisons)",
        check_alpha_is_shared,
    ),
    "no weight is a claim": (
        comparisons,
        "        if pair.asked_on(scope)\n",
        "",
        check_alpha_is_shared,
    ),
    "exploratory is a claim": (
        comparisons,
        "confirmatory=confirmatory and q.weighted",
        "confirmatory=confirmatory",
        check_exploratory_is_no_claim,
    ),
    "a verdict in spite of a contradiction": (
        comparisons,
        "Verdict.UNDECIDED if contradiction else judge(decides, effect)",
        "judge(decides, effect)",
        check_a_contradiction_is_no_verdict,
    ),
    "permutations that share nothing": (
        comparisons,
        "min(1, p * said.alpha / q.alpha)",
        "p",
        check_permutations_share_alpha,
    ),
    "α of the study, not of the question": (
        comparisons,
        "_from_range(pairs, q.alpha)",
        "_from_range(pairs, table.study.statistics.alpha)",
        check_alpha_reaches_the_interval,
    ),
    "half the range": (
        tables_module,
        "return float((self.bounds[1] - self.bounds[0]).mean())",
        "return float((self.bounds[1] - self.bounds[0]).mean()) * 0.95",
        check_alpha_reaches_the_interval,
    ),
    "failed runs keep their return": (
        scoring,
        'table.loc[failed, "return"] = scale.raw(scale.floor)\n        # Left',
        "# Left",
        check_failed_runs_score_the_floor,
    ),
    "failed runs keep their score": (
        scoring,
        'table.loc[failed, ["normalised", "cvar"]] = scale.floor',
        "pass",
        check_failed_runs_score_the_floor,
    ),
    "failed runs are unknown": (
        scoring,
        "**{status.value: FLOOR for status in FLOORED}",
        "**{}",
        check_failed_runs_score_the_floor,
    ),
    "a later seed stands in for a missing one": (
        tables_module,
        "return next(seed for seed in count() if not all(seed in seeds for seeds in there))",
        "return min(len(seeds) for seeds in there)",
        check_a_gap_is_not_jumped,
    ),
    "a seed that is not there yet counts as lost": (
        tables_module,
        '[set(cell.index[(cell["status"] != MISSING).to_numpy()]) for cell in cells]',
        "[set(cell.index) for cell in cells]",
        check_a_gap_is_not_jumped,
    ),
    "seeds in the order of completion": (
        tables_module,
        "[self.values(label, setup, estimand).reindex(order) for setup in setups]",
        "[\n"
        '                    self.rows[self.rows["label"] == label][estimand][: len(order)]\n'
        "                    for setup in setups\n"
        "                ]",
        check_seeds_are_taken_by_index,
    ),
    "lost runs left out": (
        tables_module,
        "        return np.asarray((x - y).mean(axis=1))",
        "        keep = ~np.isnan(self.x - self.y).any(axis=1)\n"
        "        return np.asarray((x - y).mean(axis=1))[keep]",
        check_lost_runs_are_worst_and_best,
    ),
    "lost runs always at the first arm's best": (
        tables_module,
        'fills = (low, high) if lost == "worst" else (high, low)',
        "fills = (high, low)",
        check_lost_runs_are_worst_and_best,
    ),
    "lost runs of both arms alike": (
        tables_module,
        'fills = (low, high) if lost == "worst" else (high, low)',
        'fills = (low, low) if lost == "worst" else (high, high)',
        check_lost_runs_are_worst_and_best,
    ),
    "lost runs only at their worst": (
        comparisons,
        "    if pairs.lost:\n",
        "    if False:\n",
        check_lost_runs_are_worst_and_best,
    ),
    "clipping unreported": (
        tables_module,
        "        slack = 1e-9 * (high - low)\n",
        "        return 0\n        slack = 0.0\n",
        check_clipping_is_counted,
    ),
    "clipped runs reported as none by the answer": (
        comparisons,
        "clipped=pairs.clipped",
        "clipped=0",
        check_clipping_is_counted,
    ),
    "verdict from the model": (
        comparisons,
        "judge(decides, effect)",
        "judge(model, effect)",
        check_the_range_decides,
    ),
    "model interval shown": (
        comparisons,
        "return self.interval if self.interval is not None else self.model",
        "return self.model if self.model is not None else self.interval",
        check_the_range_decides,
    ),
    "what could hide, from all arms": (
        comparisons,
        'if all((cell["solved"] > 0).all() for cell in cells):',
        "if True:",
        check_hidden_failures_are_told,
    ),
    "what could hide, unsaid": (
        comparisons,
        'if all((cell["solved"] > 0).all() for cell in cells):',
        "if False:",
        check_hidden_failures_are_told,
    ),
}


def test_the_code_as_it_is_passes_every_check() -> None:
    for check in CHECKS:
        check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    module, old, new, check = MUTANTS[name]
    with planted(module, old, new), pytest.raises((AssertionError, UserError)):
        check()
    assert vars(module)["__name__"] == module.__name__
    check()
