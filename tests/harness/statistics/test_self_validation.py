"""The statistics judged by what they are for: error rates on data whose truth is known.

Each test has a size for every test run and a full one for `make validate`. Bounds are the promised
rate plus three Monte-Carlo errors. Tests with teeth also show that a worse method fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pacebench.harness.statistics import (
    bootstrap,
    bounded,
    hypothesis_tests,
    multiplicity,
    power,
    sequential,
    simulation,
    verdicts,
    welch,
)
from pacebench.harness.statistics.analysis import analyse
from pacebench.harness.statistics.scores import FloatArray
from pacebench.harness.statistics.simulation import CoverageCell
from pacebench.harness.statistics.specification import StatisticsSpec


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
    ("t", "gaussian", 10, 1, "paired-t", "difference", 0.93, 0.975),
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
    ("family", "gaussian", 10, 1, "simultaneous-t", "difference", 0.93, 0.975),
    ("curve", "gaussian", 10, 1, "max-t", "curve", 0.93, 0.98),
]


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.validation)])
@pytest.mark.parametrize("cell", CERTIFIED, ids=lambda c: "-".join(str(part) for part in c[:6]))
def test_certified_cells_cover(cell: tuple[str, str, int, int, str, str, float, float], full: bool):
    group, shape, runs, tasks, kind, estimand, low, high = cell
    cheap = group in ("t", "bounded", "improvement", "profile")
    sets = (20_000 if full else 4_000) if cheap else (4_000 if full else 300)
    rows = simulation.simulate(CoverageCell(group, shape, runs, tasks), sets)
    (row,) = [row for row in rows if (row["kind"], row["estimand"]) == (kind, estimand)]
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
def test_welch_keeps_its_size(draw: Draw, rate: float, sets: int) -> None:
    a, b = draw(np.random.default_rng(1), sets)
    p = welch.p_value(welch.difference_moments(a, b))
    assert np.mean(p <= 0.05) <= rate + slack(rate, sets)
    assert np.mean(p <= 0.05) >= 0.02, "a test that never rejects keeps its size too"


@sizes(300, 5_000)
@pytest.mark.parametrize(("draw", "rate"), [(_equal, 0.05), (_spreads, 0.055), (_strata, 0.05)])
def test_permutation_keeps_its_size(draw: Draw, rate: float, sets: int) -> None:
    rng = np.random.default_rng(2)
    rejected = 0
    for x, y in zip(*draw(rng, sets), strict=True):
        observed = abs(float(welch.statistic(welch.difference_moments(x, y))))
        reference = np.abs(hypothesis_tests.permutation_statistics(x, y, rng, 199))
        rejected += (1 + np.sum(reference >= observed * (1 - 1e-9))) / 200 <= 0.05
    assert rejected / sets <= rate + slack(rate, sets)


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


@sizes(4_000, 60_000)
@pytest.mark.parametrize("different", [0, 1, 2])
def test_holm_keeps_the_family_wise_error(different: int, sets: int) -> None:
    """Four methods against one control under the global null and partial ones."""
    rng = np.random.default_rng(4)
    control = rng.normal(size=(sets, 10, 1))
    p = np.empty((sets, 4))
    for column in range(4):
        shift = 2.0 if column < different else 0.0
        values = rng.normal(shift, 1, size=(sets, 10, 1))
        p[:, column] = welch.p_value(welch.difference_moments(values, control))
    rejected = np.array([multiplicity.holm(row) <= 0.05 for row in p])
    error = rejected[:, different:].any(axis=1).mean()
    assert error <= 0.05 + slack(0.05, sets)
    naive = (p[:, different:] <= 0.05).any(axis=1).mean()
    assert naive > 0.08, "without adjustment the family errs more often"
    if different:
        assert rejected[:, :different].mean() > 0.9


@sizes(10_000, 200_000)
def test_declared_looks_keep_the_error_and_peeking_does_not(sets: int) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, sets, 20, 1))
    plan = sequential.schedule(20, (5, 10, 15))
    stopped, peeked = np.zeros(sets, bool), np.zeros(sets, bool)
    for look, alpha in zip(plan.looks, plan.alphas, strict=True):
        p = welch.p_value(welch.difference_moments(a[:, :look], b[:, :look]))
        stopped |= p <= alpha
        peeked |= p <= 0.05
    assert stopped.mean() <= 0.05 + slack(0.05, sets)
    assert stopped.mean() >= 0.04
    assert peeked.mean() == pytest.approx(0.125, abs=0.01 + slack(0.125, sets))


@sizes(4_000, 60_000)
@pytest.mark.parametrize("difference", [1.0, -1.0, 1.4])
def test_equivalence_at_the_boundary(difference: float, sets: int) -> None:
    """A true difference as large as the smallest effect of interest is rarely called equivalent."""
    rng = np.random.default_rng(6)
    a, b = rng.normal(difference, 1, (sets, 20, 1)), rng.normal(size=(sets, 20, 1))
    moments = welch.difference_moments(a, b)
    p = welch.equivalence(moments, 1.0)
    assert np.mean(p <= 0.05) <= 0.05 + slack(0.05, sets)
    single = verdicts.tost(welch.Moments(*(part[0] for part in moments)), 1.0)
    assert single == pytest.approx(float(p[0]))


@sizes(400, 4_000)
@pytest.mark.parametrize("rate", [0.06, 0.10, 0.15])
def test_equivalence_without_a_caution_survives_rare_failures(rate: float, sets: int) -> None:
    """Runs end near 85 or, rarely, at the floor: a t test of ten good runs knows nothing of that.

    One method fails at the given rate, which moves its mean by more than the margin; the other
    never does. Two one-sided tests are fooled whenever no failure happened to show; a claim of
    equivalence that carries no caution must not be.
    """
    rng = np.random.default_rng(8)
    margin, floor, top = 4.33, 0.5, 88.0
    good = np.minimum(rng.normal(85, 1.5, (2, sets, 10, 1)), top)
    failed = rng.random((sets, 10, 1)) < rate
    a, b = np.where(failed, floor, good[0]), good[1]
    assert rate * (85 - floor) > margin
    moments = welch.difference_moments(a, b)
    equivalent = welch.equivalence(moments, margin) <= 0.05
    uniforms = bounded.uniform_order_statistics(10, 1, 2_000, rng)
    ends = []
    for values in (a, b):
        low, high = bounded.learned_miller_thomas(values, floor, top, 0.95, uniforms)
        ends.append((values.mean(axis=(1, 2)), low, high))
    _, low, high = bounded.mover(*ends)
    unwarned = equivalent & (low >= -margin) & (high <= margin)
    assert equivalent.mean() > 0.15, "the reason why the caution is there"
    assert unwarned.mean() <= 0.05


@sizes(4_000, 60_000)
def test_the_minimum_detectable_effect_is_detected_as_often_as_it_says(sets: int) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(sets, 12, 1)), rng.normal(size=(sets, 12, 1))
    effect = power.minimum_detectable_effect(math.sqrt(2 / 12), 22, 0.05, 0.8)
    p = welch.p_value(welch.difference_moments(a + effect, b))
    assert np.mean(p <= 0.05) == pytest.approx(0.8, abs=0.005 + slack(0.8, sets))


def _study(rng: np.random.Generator, shift: float = 0.0) -> pd.DataFrame:
    rows = [
        {"method": method, "setup": setup, "seed": seed, "status": "ok"}
        for method in ("a", "b", "control")
        for setup in ("x", "y")
        for seed in range(10)
    ]
    frame = pd.DataFrame(rows)
    frame["score"] = rng.normal(size=len(frame)) + shift * (frame["method"] == "a")
    # Some runs of every method fail.
    frame["status"] = np.where(rng.random(len(frame)) < 0.05, "diverged", "ok")
    return frame


AA = StatisticsSpec(
    control="control",
    runs=10,
    estimands=("score",),
    scopes=("setups",),
    ranges={"score": {"x": (-3.0, None), "y": (-3.0, None)}},
    frozen=True,
    resamples=100,
    permutations=49,
)


@pytest.mark.slow
@sizes(150, 3_000)
def test_a_study_of_equal_methods_end_to_end(sets: int) -> None:
    """Three copies of one method, two setups, failures: how often does any claim come out?"""
    rng = np.random.default_rng(8)
    wrong = found = 0
    for number in range(sets):
        result = analyse(_study(rng), AA, number)
        wrong += any(c.verdict.outcome.value in ("better", "worse") for c in result.contrasts)
    assert wrong / sets <= 0.05 + slack(0.05, sets)
    for number in range(sets // 10):
        result = analyse(_study(rng, shift=4.0), AA, number)
        found += any(c.verdict.outcome.value == "better" for c in result.contrasts)
    assert found / (sets // 10) > 0.9, "a claim does come out where there is something to claim"


@sizes(100, 1_000)
def test_deleting_failures_would_fool_a_naive_analysis_and_not_this_one(sets: int) -> None:
    """Method a loses its worst runs. On the remaining rows it looks better than it is.

    Where it happens to have none to lose, the data are whole and the test errs as often as it may.
    """
    rng = np.random.default_rng(9)
    fooled = erred = naive = 0
    spec = replace(AA, ranges={"score": {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}})
    for number in range(sets):
        frame = _study(rng).assign(status="ok")
        frame["score"] = frame["score"].clip(-3, 3)
        manifest = list(frame[["method", "setup", "seed"]].itertuples(index=False, name=None))
        kept = frame[(frame["method"] != "a") | (frame["score"] > -0.3)]
        result = analyse(kept, spec, number, manifest=manifest)
        lost = {cell.setup for cell in result.accounting if cell.method == "a" and cell.missing}
        better = {
            c.comparison.scope
            for c in result.contrasts
            if c.verdict.outcome.value == "better" and c.comparison.method == "a"
        }
        fooled += bool(better & lost)
        erred += bool(better - lost)
        a, control = (kept[kept["method"] == name]["score"] for name in ("a", "control"))
        naive += stats.ttest_ind(a, control, equal_var=False).pvalue <= 0.05
    assert naive / sets > 0.3
    assert fooled == 0
    assert erred / sets <= 0.05 + slack(0.05, sets)
