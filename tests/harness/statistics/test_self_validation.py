"""The statistics judged by what they are for: error rates on data whose truth is known.

Each test has a size for every test run and a full one for `make validate`. Bounds are the promised
rate plus three Monte-Carlo errors; for wrong claims of whole studies it is the upper 99 % limit of
the simulated rate that must stay below α. Tests with teeth also show that a worse method fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pacebench.harness.analysis.comparisons import Question, compare, questions
from pacebench.harness.analysis.verdicts import Verdict
from pacebench.harness.statistics import bootstrap, simulation, welch
from pacebench.harness.statistics.confidence_sequence import log_wealth_above, seeds_until
from pacebench.harness.statistics.scores import BoolArray, FloatArray
from pacebench.harness.statistics.simulation import CoverageCell
from tests.harness.statistics.tables import RANGE, lose, score_table, study


def sizes(quick: int, full: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "sets",
        [
            pytest.param(quick, id="quick"),
            pytest.param(full, id="full", marks=pytest.mark.validation),
        ],
    )


def slack(rate: float, sets: int) -> float:
    return 3 * math.sqrt(rate * (1 - rate) / sets)


# group, shape, runs, tasks, kind, estimand, promised range of the coverage
CERTIFIED = [
    *(("t", "gaussian", n, t, "welch-t", "mean", 0.93, 0.975) for n in (3, 5, 20) for t in (1, 4)),
    *(("t", "gaussian", n, 1, "welch-t", "difference", 0.93, 0.975) for n in (3, 10, 20)),
    *(("t", "bimodal", n, 1, "welch-t", "difference", 0.93, 0.975) for n in (10, 20)),
    *(("t", "fractions", n, 1, "welch-t", "mean", 0.92, 0.975) for n in (10, 20)),
    *(
        ("t", shape, 20, 1, "wilson", "success", 0.92, 0.975)
        for shape in ("binary-37", "binary-90")
    ),
    ("bounded", "binary-90", 5, 1, "learned-miller-thomas", "mean", 0.97, 1.0),
    ("bounded", "fractions", 10, 1, "learned-miller-thomas", "mean", 0.97, 1.0),
    ("bootstrap", "gaussian", 10, 1, "expanded-percentile", "iqm", 0.93, 0.985),
    ("bootstrap", "gaussian", 5, 4, "expanded-percentile", "iqm", 0.93, 0.985),
    ("improvement", "gaussian", 20, 1, "logit-brunner-munzel", "improvement", 0.93, 0.98),
    ("improvement", "bimodal", 10, 4, "logit-brunner-munzel", "improvement", 0.93, 0.98),
    ("profile", "gaussian", 20, 4, "kolmogorov", "profile", 0.93, 0.975),
    ("curve", "gaussian", 10, 1, "max-t", "curve", 0.93, 0.98),
]


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.validation)])
@pytest.mark.parametrize("cell", CERTIFIED, ids=lambda c: "-".join(str(part) for part in c[:6]))
def test_certified_cells_cover(cell: tuple[str, str, int, int, str, str, float, float], full: bool):
    group, shape, runs, tasks, kind, estimand, low, high = cell
    cheap = group in ("t", "bounded", "improvement", "profile")
    sets = (20_000 if full else 4_000) if cheap else (4_000 if full else 300)
    rows = simulation.simulate(CoverageCell(group, shape, runs, tasks), sets)
    asked = (kind, estimand, 0.95)
    (row,) = [row for row in rows if (row["kind"], row["estimand"], row["level"]) == asked]
    assert low - slack(low, sets) <= row["coverage"] <= high + slack(high, sets)


# What the protocol found about rliable's percentile interval of the mean on one task.
KNOWN_BAD = [
    ("gaussian", 3, 0.75),
    ("gaussian", 5, 0.83),
    ("binary-90", 5, 0.42),
    ("binary-90", 10, 0.64),
]


@pytest.mark.parametrize(("shape", "runs", "share"), KNOWN_BAD)
def test_known_bad_cells_are_as_bad_as_we_say(shape: str, runs: int, share: float) -> None:
    rows = simulation.simulate(CoverageCell("bootstrap", shape, runs, 1), 500)
    (row,) = [r for r in rows if (r["kind"], r["estimand"]) == ("percentile (rliable)", "mean")]
    assert row["coverage"] == pytest.approx(share, abs=0.015 + slack(share, 500))


Draw = Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray]]


def _equal(rng: np.random.Generator, sets: int) -> tuple[FloatArray, FloatArray]:
    return rng.normal(size=(sets, 10, 1)), rng.normal(size=(sets, 10, 1))


def _spreads(rng: np.random.Generator, sets: int) -> tuple[FloatArray, FloatArray]:
    return rng.normal(size=(sets, 10, 1)), 4 * rng.normal(size=(sets, 20, 1))


def _shapes(rng: np.random.Generator, sets: int) -> tuple[FloatArray, FloatArray]:
    """Equal means, different shapes: a median test goes wrong here."""
    return rng.exponential(size=(sets, 20, 1)) - 1, 0.2 * rng.normal(size=(sets, 20, 1))


def _strata(rng: np.random.Generator, sets: int) -> tuple[FloatArray, FloatArray]:
    place, scale = np.array([0.0, 50.0, -50.0, 5.0]), np.array([1.0, 10.0, 0.1, 3.0])
    return tuple(place + scale * rng.normal(size=(sets, 5, 4)) for _ in range(2))  # type: ignore[return-value]


@sizes(10_000, 200_000)
@pytest.mark.parametrize(
    ("draw", "rate"), [(_equal, 0.05), (_spreads, 0.05), (_strata, 0.05), (_shapes, 0.08)]
)
def test_welch_keeps_its_size_where_its_model_holds(draw: Draw, rate: float, sets: int) -> None:
    a, b = draw(np.random.default_rng(1), sets)
    p = welch.p_value(welch.difference_moments(a, b))
    assert np.mean(p <= 0.05) <= rate + slack(rate, sets)
    assert np.mean(p <= 0.05) >= 0.02, "a test that never rejects keeps its size too"


def test_the_tests_we_do_not_use_fail_where_ours_hold() -> None:
    """Mann–Whitney on equal means; a bootstrap interval of the difference as a test."""
    rng = np.random.default_rng(3)
    a, b = _shapes(rng, 2_000)
    ranks = stats.mannwhitneyu(a[:, :, 0], b[:, :, 0], axis=1).pvalue
    assert np.mean(ranks <= 0.05) > 0.15
    a, b = _equal(rng, 1_500)
    excluded = 0
    for x, y in zip(a, b, strict=True):
        values = [bootstrap.resample(v, ["mean"], 400, rng)["mean"] for v in (x, y)]
        low, high = np.quantile(values[0] - values[1], [0.025, 0.975])
        excluded += not low <= 0 <= high
    assert excluded / 1_500 > 0.06


# --- Whole studies: how often is any claim wrong, at any look? -----------------------------------

ALPHA, EFFECT, SEEDS = 0.05, 0.1, 200
QUICK, FULL = 250, 5_000  # simulated studies
# The smallest effect of interest in returns, as the analysis computes it.
MARGIN = score_table({"b": [50.0], "a": [50.0]}, smallest_effect=EFFECT).smallest_effect(
    "return", "point-mass-1"
)

# Draws scores in [0, 100], (studies, seeds), from a generator.
Arm = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def humps(good: float, rate: float, bad: float = 5.0, spread: float = 1.5) -> Arm:
    """Runs end near `good`, or at `rate` near `bad`; noise is symmetric, so means are exact."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
        noise = np.clip(spread * rng.standard_normal(size), -3, 3)
        return np.where(rng.random(size) < rate, bad, good) + noise

    return draw


def coin(mean: float) -> Arm:
    """All or nothing: the widest scores that have this mean."""
    return lambda rng, size: RANGE * (rng.random(size) < mean / RANGE)


# What is asked, the arms, and their true means.
Case = tuple[list[dict[str, Any]], Mapping[str, tuple[Arm, float]]]


def _pairs(*weights: float) -> list[dict[str, Any]]:
    names = ["b", "c", "d"][: len(weights)]
    return [{"pair": [n, "a"], "weight": w} for n, w in zip(names, weights, strict=True)]


TIGHT = (humps(77, 0.0), 77.0)
CASES: dict[str, Case] = {
    "equal means, one arm fails in 1 run of 10": (
        _pairs(1, 1, 1),
        {"a": (humps(85, 0.1), 77.0), "b": TIGHT, "c": TIGHT, "d": (humps(85, 0.1), 77.0)},
    ),
    "the same, asked the other way round": (
        _pairs(1, 1),
        {"a": TIGHT, "b": (humps(85, 0.1), 77.0), "c": (humps(85, 0.1), 77.0)},
    ),
    "at the edge of the margin, tight": (
        _pairs(1, 1),
        {
            "a": (humps(50, 0), 50.0),
            "b": (humps(50 - MARGIN, 0), 50 - MARGIN),
            "c": (humps(50 + MARGIN, 0), 50 + MARGIN),
        },
    ),
    "at the edge of the margin by rare failures": (
        _pairs(1, 1),
        {
            "a": (humps(85, 0), 85.0),
            "b": (humps(85, MARGIN / 80), 85 - MARGIN),
            "c": (humps(85, 0), 85.0),
        },
    ),
    "unequal weights": (
        _pairs(8, 1, 1),
        {
            "a": (coin(50), 50.0),
            "b": (coin(50), 50.0),
            "c": (coin(50), 50.0),
            "d": (coin(50), 50.0),
        },
    ),
    "two humps in both": (
        _pairs(1, 1),
        {"a": (humps(85, 0.5), 45.0), "b": (humps(85, 0.5), 45.0), "c": (humps(85, 0.5), 45.0)},
    ),
    "a real effect among the null ones": (
        _pairs(1, 1, 1),
        {
            "a": (coin(50), 50.0),
            "b": (humps(95, 0), 95.0),
            "c": (coin(50), 50.0),
            "d": (humps(50, 0), 50.0),
        },
    ),
}


CLAIMS = (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT, Verdict.NOT_WORSE)


def reached(z: FloatArray, alpha: float, verdict: Verdict, margin: float = MARGIN) -> FloatArray:
    """After how many seeds a verdict is first reached, infinity if never.

    An end of the interval passes a value when the wealth against that value reaches the threshold,
    so three values tell all verdicts of all looks, at a fraction of the intervals' cost.
    """

    def passes(differences: FloatArray, value: float) -> FloatArray:
        return seeds_until(log_wealth_above(differences, RANGE, value), alpha)

    if verdict is Verdict.EQUIVALENT:
        return np.maximum(passes(z, -margin), passes(-z, -margin))
    return {
        Verdict.BETTER: lambda: passes(z, 0.0),
        Verdict.WORSE: lambda: passes(-z, 0.0),
        Verdict.NOT_WORSE: lambda: passes(z, -margin),
    }[verdict]()


def false(verdict: Verdict, difference: float, margin: float = MARGIN) -> bool:
    """Whether a verdict is wrong about a true difference."""
    tiny = 1e-9
    return {
        Verdict.BETTER: difference <= tiny,
        Verdict.WORSE: difference >= -tiny,
        Verdict.EQUIVALENT: abs(difference) >= margin - tiny,
        Verdict.NOT_WORSE: difference <= -margin + tiny,
    }[verdict]


def any_wrong(
    asked: list[Question],
    scores: Mapping[str, FloatArray],
    means: Mapping[str, float],
    alphas: list[float] | None = None,
) -> BoolArray:
    """In which studies some claim is wrong at some look: the most patient adversary.

    He looks after every seed of every question, and stops each where it suits him.
    """
    wrong = np.zeros(len(next(iter(scores.values()))), dtype=bool)
    for number, q in enumerate(asked):
        alpha = alphas[number] if alphas else q.alpha
        lies = [v for v in CLAIMS if false(v, means[q.a] - means[q.b])]
        if Verdict.NOT_WORSE in lies:  # whoever is better or equivalent is not worse
            lies = [v for v in lies if v not in (Verdict.BETTER, Verdict.EQUIVALENT)]
        for verdict in lies:
            wrong |= np.isfinite(reached(scores[q.a] - scores[q.b], alpha, verdict))
    return wrong


def keeps_its_promise(wrong: BoolArray) -> bool:
    """Whether studies with a wrong claim are rarer than α: at full size, by their upper limit."""
    found, sets = int(wrong.sum()), len(wrong)
    limit = float(stats.beta.ppf(0.99, found + 1, sets - found))
    print(f"wrong in {found / sets:.2%} of {sets} studies, upper 99 % limit {limit:.2%}")
    return (limit if sets >= FULL else found / sets) <= ALPHA


def _asked(case: Case) -> list[Question]:
    pairs, arms = case
    found = questions(
        study(tuple(arms), comparisons=pairs, alpha=ALPHA, smallest_effect=EFFECT), ()
    )
    assert sum(q.alpha for q in found) == pytest.approx(ALPHA)
    return found


def _scores(case: Case, sets: int, seed: int = 10) -> dict[str, FloatArray]:
    rng = np.random.default_rng(seed)
    return {label: arm(rng, (sets, SEEDS)) for label, (arm, _) in case[1].items()}


@pytest.mark.parametrize("name", CASES)
@sizes(QUICK, FULL)
def test_any_wrong_claim_of_a_study_is_rarer_than_alpha(name: str, sets: int) -> None:
    """Looked at after each of 200 seeds, from the first on."""
    case = CASES[name]
    means = {label: mean for label, (_, mean) in case[1].items()}
    assert keeps_its_promise(any_wrong(_asked(case), _scores(case, sets), means))


@sizes(200, 4_000)
def test_the_rules_it_replaces_break_the_promise(sets: int) -> None:
    """The same looks with t-tests; and every question at the whole of α."""
    case = CASES["equal means, one arm fails in 1 run of 10"]
    scores = _scores(case, sets)
    wrong = np.zeros(sets, dtype=bool)
    for seeds in (10, 20, 40):
        for label in ("b", "c"):
            moments = welch.difference_moments(
                scores[label][:, :seeds, None], scores["a"][:, :seeds, None]
            )
            low, high = welch.bounds(moments, 1 - ALPHA / 3)
            wrong |= ~((low <= 0) & (high >= 0))
    assert wrong.mean() > 3 * ALPHA
    many = {"a": np.full((sets, SEEDS), 50.0)}
    rng = np.random.default_rng(11)
    many |= {str(i): coin(50)(rng, (sets, SEEDS)) for i in range(20)}
    pairs = [{"pair": [str(i), "a"]} for i in range(20)]
    asked = questions(study(tuple(many), comparisons=pairs), ())
    means = dict.fromkeys(many, 50.0)
    assert any_wrong(asked, many, means).mean() <= ALPHA + slack(ALPHA, sets)
    assert any_wrong(asked, many, means, [ALPHA] * 20).mean() > 2 * ALPHA


@sizes(400, 4_000)
def test_a_comparison_chosen_after_the_data_breaks_the_promise(sets: int) -> None:
    """Why comparisons are declared: of twenty arms, the two furthest apart get all of α."""
    rng = np.random.default_rng(12)
    arms = np.stack([coin(50)(rng, (sets, SEEDS)) for _ in range(20)])
    means = arms.mean(axis=2)
    best, control = (arms[pick, np.arange(sets)] for pick in (means.argmax(0), means.argmin(0)))
    asked = questions(study(("a", "b")), ())
    scores = {"a": control, "b": best}
    assert any_wrong(asked, scores, {"a": 50.0, "b": 50.0}).mean() > 2 * ALPHA


@sizes(QUICK, FULL)
def test_two_copies_of_a_tuned_method_are_not_told_apart(sets: int) -> None:
    """Each picks the best of ten configurations by three seeds; fresh seeds judge the choice.

    Configurations differ in how often they fail; the mean of a tuned method is over what its search
    finds, so every observation is a search of its own.
    """
    rng = np.random.default_rng(13)
    rates = np.linspace(0.05, 0.5, 10)

    def tuned() -> FloatArray:
        trials = (rng.random((sets, SEEDS, 10, 3)) >= rates[:, None]).mean(axis=-1)
        chosen = rates[(trials + 1e-6 * rng.random(trials.shape)).argmax(axis=-1)]
        return np.where(rng.random((sets, SEEDS)) < chosen, 5.0, 85.0)

    asked = questions(study(("a", "b")), ())
    scores = {"a": tuned(), "b": tuned()}
    assert keeps_its_promise(any_wrong(asked, scores, {"a": 50.0, "b": 50.0}))


@sizes(QUICK, FULL)
def test_runs_lost_to_the_machine_do_not_make_claims_wrong(sets: int) -> None:
    """The machine loses the bad runs of one arm, as long runs on a small queue are lost.

    At their worst and best the claims hold; on the runs that are left they do not.
    """
    rng = np.random.default_rng(14)
    a, b = (humps(85, 0.1)(rng, (sets, SEEDS)) for _ in range(2))
    lost = (b < 50) & (rng.random(b.shape) < 0.7)
    worst, best = (np.where(lost, fill, b) - a for fill in (0.0, RANGE))
    better = np.isfinite(reached(worst, ALPHA, Verdict.BETTER))
    assert keeps_its_promise(better | np.isfinite(reached(best, ALPHA, Verdict.WORSE)))
    # Left out: the mean of what is left stands in, which is what dropping them amounts to.
    left = np.where(lost, 85.0, b) - a
    naive = seeds_until(log_wealth_above(left, RANGE), ALPHA)
    assert np.isfinite(naive).mean() > better.mean()


@pytest.mark.parametrize("name", CASES)
@sizes(1, 20)
def test_the_analysis_says_what_the_wealth_says(name: str, sets: int) -> None:
    """The error rates above are those of `compare`: same verdicts at the same looks."""
    case = CASES[name]
    scores = _scores(case, sets, seed=15)
    for number in range(sets):
        for look in (4, 11, 90):
            table = score_table(
                {label: values[number, :look] for label, values in scores.items()},
                comparisons=case[0],
                smallest_effect=EFFECT,
            )
            for q in _asked(case):
                found = compare(table, q, confirmatory=True).verdict
                z = scores[q.a][number, :look] - scores[q.b][number, :look]
                met = (v for v in CLAIMS if np.isfinite(reached(z, q.alpha, v)))
                expected = next(met, Verdict.UNDECIDED)
                assert found is expected


@sizes(25, 400)
def test_whole_analyses_of_equal_methods_with_lost_runs(sets: int) -> None:
    """The same promise kept by `compare` itself, on tables from which runs were lost."""
    rng = np.random.default_rng(16)
    wrong = found = 0
    for _ in range(sets):
        arms = {k: humps(85, 0.3)(rng, (1, 12))[0] for k in ("a", "b", "c")}
        table = score_table(arms)
        for label in ("b", "c"):
            bad = np.flatnonzero((arms[label] < 50) & (rng.random(12) < 0.5))
            table = lose(table, label, bad, "crashed-infrastructure")
        asked = questions(table.study, ())
        verdicts = [compare(table, q, confirmatory=True).verdict for q in asked]
        wrong += any(v in (Verdict.BETTER, Verdict.WORSE) for v in verdicts)
        clear = score_table({"a": arms["a"] * 0 + 3, "b": 0 * arms["b"] + 97}, alpha=0.2)
        asked = questions(clear.study, ())
        found += compare(clear, asked[0], confirmatory=True).verdict is Verdict.BETTER
    assert wrong / sets <= ALPHA + slack(ALPHA, sets)
    assert found == sets, "a claim does come out where there is something to claim"
