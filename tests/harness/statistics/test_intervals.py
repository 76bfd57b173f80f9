"""Every interval against an oracle, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logit
from statsmodels.stats.proportion import proportion_confint

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import bootstrap, improvement, intervals, welch
from pacebench.harness.statistics.interval import Interval, RefusedIntervalError, ZeroWidthError
from pacebench.harness.statistics.scores import Scores

SEEDS = st.integers(0, 10_000)


def _one(runs: int, seed: int, name: str = "m", spread: float = 1.0) -> Scores:
    return Scores.single_task(name, spread * np.random.default_rng(seed).normal(size=runs))


@given(st.integers(2, 40), SEEDS)
def test_mean_of_one_task_is_students_interval(runs: int, seed: int) -> None:
    scores = _one(runs, seed)
    expected = stats.ttest_1samp(scores.matrix[:, 0], 0).confidence_interval(0.95)
    found = intervals.mean_t(scores)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


@given(st.integers(2, 30), st.integers(2, 30), SEEDS)
def test_difference_on_one_task_is_welchs_interval(n: int, m: int, seed: int) -> None:
    a, b = _one(n, seed), _one(m, seed + 1, "c", 3.0)
    test = stats.ttest_ind(a.matrix[:, 0], b.matrix[:, 0], equal_var=False)
    moments = welch.difference_moments(a.matrix, b.matrix)
    assert welch.bounds(moments, 0.95) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert float(welch.p_value(moments)) == pytest.approx(test.pvalue)
    assert float(moments.df) == pytest.approx(test.df)


def test_paired_difference_is_students_on_the_differences() -> None:
    a, b = _one(12, 0), _one(12, 1, "c")
    test = stats.ttest_rel(a.matrix[:, 0], b.matrix[:, 0])
    moments = welch.difference_moments(a.matrix, b.matrix, paired=True)
    assert welch.bounds(moments, 0.95) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert float(welch.p_value(moments)) == pytest.approx(test.pvalue)


def test_strata_have_their_own_variances() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3)) * [1.0, 5.0, 0.1]
    scores = Scores("m", ("a", "b", "c"), tuple(range(6)), values)
    parts = values.var(axis=0, ddof=1) / 6 / 9
    df = parts.sum() ** 2 / (parts**2 / 5).sum()
    half = stats.t.ppf(0.975, df) * np.sqrt(parts.sum())
    found = intervals.mean_t(scores)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))


@given(st.integers(0, 20))
def test_success_is_wilsons(successes: int) -> None:
    outcomes = np.repeat([1.0, 0.0], [successes, 20 - successes])
    found = intervals.success(Scores.single_task("m", outcomes))
    expected = proportion_confint(successes, 20, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)
    assert found.low < found.high


def test_success_counts_runs_not_episodes() -> None:
    few = intervals.success(Scores.single_task("m", [0.7, 0.8, 0.6, 0.9]))
    expected = proportion_confint(3, 4, method="wilson")
    assert (few.low, few.high) == pytest.approx(expected)
    with pytest.raises(UserError, match=r"\[0, 1\]"):
        intervals.success(Scores.single_task("m", [1.2, 0.1]))


@given(st.integers(4, 25), SEEDS)
def test_improvement_is_brunner_munzels_on_the_logit_scale(runs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(0.3, 1, runs), 1)
    y = np.round(rng.normal(0, 2, runs + 2), 1)
    moments = improvement.moments(x[:, None], y[:, None])
    p = float(moments.estimate)
    assert p == pytest.approx(np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)))
    oracle = stats.brunnermunzel(x, y)
    assume(np.isfinite(oracle.statistic))
    assert float(welch.p_value(moments, 0.5)) == pytest.approx(oracle.pvalue)
    found = intervals.probability_of_improvement(
        Scores.single_task("m", x), Scores.single_task("c", y)
    )
    half = stats.t.ppf(0.975, moments.df) * moments.error / (p * (1 - p))
    assert logit(found.low) == pytest.approx(logit(p) - half, abs=1e-6)
    assert logit(found.high) == pytest.approx(logit(p) + half, abs=1e-6)


def test_improvement_without_overlap_has_an_exact_interval() -> None:
    a, b = Scores.single_task("m", [5.0, 6, 7]), Scores.single_task("c", [1.0, 2, 3])
    found = intervals.probability_of_improvement(a, b)
    exact = stats.binomtest(3, 3).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert "no overlap" in found.note
    mirrored = intervals.probability_of_improvement(b, a)
    assert mirrored.low == 0
    assert mirrored.high == pytest.approx(1 - found.low)


def test_bounded_mean_of_equal_runs_has_the_exact_width() -> None:
    scores = Scores.single_task("m", np.ones(10))
    found = intervals.bounded_mean(scores, (0, 1), np.random.default_rng(0), draws=200_000)
    # All at the top: the mean is 1 minus what the smallest of ten uniforms leaves, 0.025^{1/10}.
    assert found.high == 1.0
    assert found.low == pytest.approx(0.025 ** (1 / 10), abs=3e-3)


@given(st.integers(3, 15), SEEDS)
def test_bounded_mean_is_equivariant_and_inside_its_bounds(runs: int, seed: int) -> None:
    values = np.random.default_rng(seed).random(runs)
    plain = intervals.bounded_mean(
        Scores.single_task("m", values), (0, 1), np.random.default_rng(1), draws=500
    )
    assert 0 <= plain.low < values.mean() < plain.high <= 1
    scaled = intervals.bounded_mean(
        Scores.single_task("m", 5 * values - 2), (-2, 3), np.random.default_rng(1), draws=500
    )
    assert (scaled.low, scaled.high) == pytest.approx((5 * plain.low - 2, 5 * plain.high - 2))


def test_bounds_are_checked() -> None:
    scores = Scores.single_task("m", [0.5, 1.5])
    with pytest.raises(UserError, match="outside the declared bounds"):
        intervals.bounded_mean(scores, (0, 1), np.random.default_rng(0))
    with pytest.raises(UserError, match="finite and ordered"):
        intervals.bounded_mean(scores, (2, 1), np.random.default_rng(0))


def _resampled(scores: Scores, functional: str, kind: str = intervals.PERCENTILE) -> Interval:
    rng = np.random.default_rng(0)
    values = bootstrap.resample(scores.matrix, [functional], 200, rng)[functional]
    return intervals.from_distribution(scores, functional, values, kind)


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("kind", [intervals.PERCENTILE, intervals.EXPANDED])
def test_percentiles_of_few_runs_on_one_task_are_refused(runs: int, kind: str) -> None:
    with pytest.raises(RefusedIntervalError, match="at least 6"):
        _resampled(_one(runs, 0), "mean", kind)


def test_percentiles_are_given_from_six_runs_or_over_several_tasks() -> None:
    rng = np.random.default_rng(0)
    assert _resampled(_one(6, 0), "mean").width > 0
    several = Scores("m", ("a", "b"), tuple(range(3)), rng.normal(size=(3, 2)))
    assert _resampled(several, "iqm").width > 0


@pytest.mark.parametrize("value", [3.0, 0.56115, -1 / 3])
def test_zero_width_is_an_error_not_a_result(value: float) -> None:
    """Also where the mean of equal scores is another number in its last bit."""
    same = Scores.single_task("m", np.full(12, value))
    with pytest.raises(ZeroWidthError, match="zero width"):
        intervals.mean_t(same)
    with pytest.raises(ZeroWidthError):
        _resampled(same, "mean")
    with pytest.raises(ZeroWidthError):
        _resampled(same, "iqm", intervals.EXPANDED)
    assert welch.difference_moments(same.matrix, same.matrix).error == 0
    with pytest.raises(RefusedIntervalError):
        Interval(0.0, float("nan"), 1.0, 0.95, "k", "e", 3, 1)


@given(SEEDS, st.floats(0.1, 50), st.floats(-100, 100))
def test_intervals_follow_a_change_of_scale(seed: int, scale: float, shift: float) -> None:
    scores = _one(9, seed)
    moved = Scores.single_task("m", scale * scores.matrix[:, 0] + shift)
    for make in (
        intervals.mean_t,
        lambda s: _resampled(s, "iqm", intervals.EXPANDED),
    ):
        plain, other = make(scores), make(moved)
        expected = (scale * plain.low + shift, scale * plain.high + shift)
        assert (other.low, other.high) == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_duplicating_episodes_narrows_nothing() -> None:
    """Ten times as many episodes with the same means are the same runs: the same interval."""
    from pacebench.harness.statistics.estimands import mean_return

    rng = np.random.default_rng(0)
    episodes = [rng.normal(size=100) for _ in range(8)]
    plain = Scores.single_task("m", [mean_return(e) for e in episodes])
    tenfold = Scores.single_task("m", [mean_return(np.tile(e, 10)) for e in episodes])
    assert intervals.mean_t(tenfold).width == pytest.approx(intervals.mean_t(plain).width)
