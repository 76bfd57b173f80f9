"""The confidence sequence: against its formula, its symmetries, its error rates and its cost."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.statistics import confidence_sequence as cs
from pacebench.harness.statistics.scores import FloatArray
from tests.harness.statistics.test_mutants import planted
from tests.harness.statistics.test_self_validation import sizes, slack

FRACTIONS = [0.999 * math.sin(math.pi * (j - 0.5) / 64 / 2) ** 2 for j in range(1, 65)]

differences = st.lists(
    st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 0.25, 1.0])), max_size=12
)
alphas = st.sampled_from([0.3, 0.05, 0.0125, 0.001])


def reference_wealth(u: list[float], m: float) -> list[float]:
    """The wealth against "mean ≤ m" after every seed, as the formula is written."""
    products = [1.0] * 64
    path = []
    for score in u:
        products = [
            product * (1 + fraction / m * (score - m))
            for product, fraction in zip(products, FRACTIONS, strict=True)
        ]
        path.append(sum(products) / 64)
    return path


def reference_low(u: list[float], alpha: float) -> float:
    """The smallest m at which the largest wealth of all looks is below 2/α, by bisection."""
    low, high = 0.0, 1.0
    if not any(u):
        return low
    for _ in range(45):
        middle = (low + high) / 2
        if max(reference_wealth(u, middle)) >= 2 / alpha:
            low = middle
        else:
            high = middle
    return low


def reference_interval(z: list[float], alpha: float) -> tuple[float, float]:
    """The running interval of differences in [−1, 1]."""
    u = [(value + 1) / 2 for value in z]
    return 2 * reference_low(u, alpha) - 1, 1 - 2 * reference_low([1 - x for x in u], alpha)


def arm(success: float, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Scores as in results/point-mass: 85 ± 1.7 if the gate is found, otherwise 15 ± 2.

    The range is [0, 88]; scores are clipped on both sides alike, so that the means are exact.
    """
    centre, spread = np.where(rng.random(shape) < success, [[[85.0]], [[1.7]]], [[[15.0]], [[2.0]]])
    return np.asarray(centre + np.clip(spread * rng.standard_normal(shape), -3, 3))


def ever(log_wealth: FloatArray, alpha: float) -> float:
    """The share of sequences whose wealth ever reaches the threshold."""
    return float(np.isfinite(cs.seeds_until(log_wealth, alpha)).mean())


@given(differences, alphas)
def test_ends_are_those_of_the_formula(z: list[float], alpha: float) -> None:
    expected = reference_interval(z, alpha)
    assert cs.difference_interval(z, 1.0, alpha) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "z",
    [
        [],
        [0.0],
        [1.0],
        [-1.0],
        [1e-300],
        [1.0] * 40,
        [-1.0] * 40,
        [0.0] * 40,
        [1.0, -1.0] * 20,
        [-1.0] * 20 + [1.0] * 2,
        [0.3, 0.7] * 20,
        list(np.linspace(-1, 1, 40)),
        [-1 + 1e-9] * 10,
    ],
    ids=str,
)
def test_ends_at_the_edges_are_those_of_the_formula(z: list[float]) -> None:
    found = cs.difference_interval(z, 1.0, 0.05)
    assert found == pytest.approx(reference_interval(z, 0.05), abs=1e-9)
    assert -1 <= found[0] < found[1] <= 1


@given(differences, st.floats(0.01, 0.99))
def test_wealth_is_exact(z: list[float], m: float) -> None:
    """Against products of exact fractions, on both sides."""
    null = 2 * m - 1
    found = cs.difference_log_wealth(z, 1.0, null)
    exact = (Fraction(null) + 1) / 2
    sides = [
        (found.above, [(Fraction(value) + 1) / 2 for value in z], exact),
        (found.below, [(1 - Fraction(value)) / 2 for value in z], 1 - exact),
    ]
    for log_wealth, u, mean in sides:
        products = [Fraction(1)] * 64
        for seed, score in enumerate(u):
            ratio = score / mean - 1
            products = [
                product * (1 + Fraction(fraction) * ratio)
                for product, fraction in zip(products, FRACTIONS, strict=True)
            ]
            # Fractions are rounded one by one: their exact sum has too long a denominator.
            expected = math.log(math.fsum(float(product) for product in products) / 64)
            assert log_wealth[seed] == pytest.approx(expected, abs=1e-12, rel=1e-12)


def test_long_sequences_keep_their_digits() -> None:
    z = np.clip(np.random.default_rng(0).normal(0.3, 0.4, 600), -1, 1)
    ends = cs.difference_sequence(z, 1.0, 0.05)
    threshold = cs.log_threshold(0.05)
    for end, side, inwards in ((ends.low, "above", 1), (ends.high, "below", -1)):
        path = [
            float(getattr(cs.difference_log_wealth(z, 1.0, end[-1] + inwards * shift), side).max())
            for shift in (-1e-9, 1e-9)
        ]
        assert path[0] > threshold > path[1]


@given(differences.filter(len), alphas)
def test_looks_are_nested_and_see_the_past_only(z: list[float], alpha: float) -> None:
    found = cs.difference_sequence(z, 1.0, alpha)
    assert (np.diff(found.low) >= 0).all()
    assert (np.diff(found.high) <= 0).all()
    assert (found.low <= found.high).all()
    assert (found.low >= -1).all()
    assert (found.high <= 1).all()
    for n in range(1, len(z) + 1):
        assert cs.difference_interval(z[:n], 1.0, alpha) == pytest.approx(
            (found.low[n - 1], found.high[n - 1]), abs=1e-12
        )


@given(differences, alphas, st.floats(-0.99, 0.99))
def test_a_value_leaves_the_interval_when_its_wealth_reaches_the_threshold(
    z: list[float], alpha: float, null: float
) -> None:
    ends = cs.difference_sequence(z, 1.0, alpha)
    wealth = cs.difference_log_wealth(z, 1.0, null)
    for values, value, side in (
        (np.array(z), null, wealth.above),
        (-np.array(z), -null, wealth.below),
    ):
        np.testing.assert_array_equal(cs.log_wealth_above(values, 1.0, value), side)
    for n in range(1, len(z) + 1):
        if min(abs(ends.low[n - 1] - null), abs(ends.high[n - 1] - null)) < 1e-9:
            continue
        assert (cs.seeds_until(wealth.above, alpha) <= n) == (ends.low[n - 1] > null)
        assert (cs.seeds_until(wealth.below, alpha) <= n) == (ends.high[n - 1] < null)


@given(differences, alphas, st.floats(1e-3, 1e3), st.floats(-5, 5))
def test_scale_shift_and_reflection(
    z: list[float], alpha: float, scale: float, shift: float
) -> None:
    low, high = cs.difference_interval(z, 1.0, alpha)
    values = np.array(z)
    assert cs.difference_interval(-values, 1.0, alpha) == (-high, -low)
    assert cs.difference_interval(scale * values, scale, alpha) == pytest.approx(
        (scale * low, scale * high), abs=1e-9 * scale
    )
    assert cs.mean_interval(values + shift, shift - 1, shift + 1, alpha) == pytest.approx(
        (shift + low, shift + high), abs=1e-9
    )


@given(differences.flatmap(st.permutations))
def test_a_smaller_alpha_gives_a_wider_interval_in_any_order(z: list[float]) -> None:
    narrow, wide = (cs.difference_interval(z, 1.0, alpha) for alpha in (0.05, 0.01))
    assert wide[0] <= narrow[0] < narrow[1] <= wide[1]


def test_order_matters_to_intermediate_looks_only() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, 30)
    forwards, backwards = (cs.difference_log_wealth(v, 1.0).above for v in (z, z[::-1]))
    assert forwards[-1] == pytest.approx(backwards[-1], rel=1e-12)
    assert not np.allclose(forwards[:-1], backwards[:-1])


def test_leading_axes_are_independent_sequences() -> None:
    z = np.random.default_rng(0).choice([-1.0, 0.2, 1.0], size=(2, 3, 20))
    ends, wealth = cs.difference_sequence(z, 1.0, 0.05), cs.difference_log_wealth(z, 1.0, 0.1)
    assert ends.low.shape == ends.contradiction.shape == wealth.below.shape == z.shape
    for index in np.ndindex(2, 3):
        alone = cs.difference_sequence(z[index], 1.0, 0.05)
        np.testing.assert_allclose(ends.low[index], alone.low, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ends.high[index], alone.high, rtol=0, atol=1e-12)
        single = cs.difference_log_wealth(z[index], 1.0, 0.1)
        np.testing.assert_allclose(wealth.below[index], single.below, rtol=1e-12)
    assert cs.difference_sequence(np.empty((4, 0)), 1.0, 0.05).low.shape == (4, 0)
    assert cs.seeds_until(np.empty((4, 0)), 0.05).tolist() == [math.inf] * 4


def test_seeds_without_a_common_mean_leave_the_last_interval() -> None:
    z = [1.0] * 60 + [-1.0] * 100
    found = cs.difference_sequence(z, 1.0, 0.05)
    first = int(found.contradiction.argmax())
    assert 60 < first < 100
    assert found.contradiction[first:].all()
    assert (found.low[first:] == found.low[first - 1]).all()
    assert (found.high[first:] == found.high[first - 1]).all()
    assert cs.difference_interval(z, 1.0, 0.05) == (found.low[first - 1], found.high[first - 1])


def test_a_rate_and_its_difference_are_the_same_capital() -> None:
    solved = np.random.default_rng(0).random((2, 30)) < [[0.9], [0.4]]
    low, high = cs.mean_interval(solved[0], 0, 1, 0.05)
    assert 0 < low < solved[0].mean() < high < 1
    z = solved[0].astype(float) - solved[1]
    expected = cs.mean_interval((z + 1) / 2, 0, 1, 0.05)
    found = cs.difference_interval(z, 1, 0.05)
    assert found == pytest.approx([2 * end - 1 for end in expected], abs=1e-12)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: cs.difference_interval([0.0, 1.1], 1.0, 0.05), "1 of 2 values, .* 1.1, lie out"),
        (lambda: cs.difference_interval([math.nan], 1.0, 0.05), "outside the declared range"),
        (lambda: cs.mean_interval([-0.1], 0, 1, 0.05), "outside the declared range"),
        (lambda: cs.difference_interval([0.0], 0.0, 0.05), "finite and ordered"),
        (lambda: cs.difference_interval([0.0], math.inf, 0.05), "finite and ordered"),
        (lambda: cs.difference_interval([0.0], 1.0, 1.0), "alpha"),
        (lambda: cs.difference_interval([0.0], 1.0, math.nan), "alpha"),
        (lambda: cs.difference_interval([[0.0]], 1.0, 0.05), "one sequence"),
        (lambda: cs.difference_log_wealth([0.0], 1.0, 1.0), "strictly between"),
    ],
)
def test_what_cannot_be_is_refused(act: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        act()


def test_rounding_over_the_bound_is_no_mistake() -> None:
    assert cs.difference_interval([1 + 1e-15], 1.0, 0.05) == cs.difference_interval([1], 1.0, 0.05)


def test_the_public_name_is_light() -> None:
    code = (
        "import sys; from pacebench.harness.statistics import difference_interval; "
        "sys.exit(bool({'pandas', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_wealth_is_a_martingale_at_the_mean() -> None:
    """Its expectation over all outcomes of a three-point distribution is one, at any n."""
    values, weights = np.array([-1.0, 0.1, 0.8]), np.array([0.1, 0.5, 0.4])
    mean = float(values @ weights)
    outcomes = np.array(list(itertools.product(range(3), repeat=6)))
    probabilities = weights[outcomes].prod(axis=1)
    z = values[outcomes]
    for side in cs.difference_log_wealth(z, 1.0, mean):
        np.testing.assert_allclose(probabilities @ np.exp(side), 1, rtol=1e-12)
    # Against "mean ≤ d" with a d above the mean, the expected wealth falls; below, it rises.
    assert (probabilities @ np.exp(cs.difference_log_wealth(z, 1.0, mean + 0.1).above) < 1).all()
    assert (probabilities @ np.exp(cs.difference_log_wealth(z, 1.0, mean - 0.1).above) > 1).all()


@sizes(4_000, 40_000)
def test_the_wealth_stays_one_on_average(sets: int) -> None:
    rng = np.random.default_rng(0)
    for z in (rng.uniform(-1, 1, (sets, 10)), 2.0 * (rng.random((sets, 10)) < 0.5) - 1):
        wealth = np.exp(cs.difference_log_wealth(z, 1.0).above)
        error = wealth.std(axis=0) / math.sqrt(sets)
        assert (np.abs(wealth.mean(axis=0) - 1) < 4 * error).all()


@pytest.mark.parametrize("alpha", [0.05, 0.0125])
@sizes(1_000, 20_000)
def test_a_tight_arm_is_not_better_than_one_that_fails_with_the_same_mean(
    sets: int, alpha: float
) -> None:
    """Looked at after each of 400 seeds; Welch's t claims it in a third of studies at n = 10."""
    rng = np.random.default_rng(1)
    failing = arm(0.9, (sets, 400), rng)
    tight = arm(1.0, failing.shape, rng) - 85 + 78
    better, worse = (ever(side, alpha) for side in cs.difference_log_wealth(tight - failing, 88.0))
    assert better <= alpha / 2 + slack(alpha / 2, sets)
    assert worse <= alpha / 2 + slack(alpha / 2, sets)
    t_test = stats.ttest_ind(tight[:, :10], failing[:, :10], axis=1, equal_var=False)
    assert (t_test.pvalue < 0.05).mean() > 0.25


@pytest.mark.parametrize("edge", [8.8, -8.8, -4.4])
@sizes(1_000, 20_000)
def test_a_difference_at_the_edge_of_the_margin_is_not_equivalent(sets: int, edge: float) -> None:
    """Nor is it more than the margin worse, where that is the edge."""
    rng = np.random.default_rng(2)
    failing = arm(0.9, (sets, 300), rng)
    tight = 78 + edge + rng.uniform(-1, 1, failing.shape)
    wealth = cs.difference_log_wealth(tight - failing, 88.0, edge)
    for side in wealth:
        assert ever(side, 0.05) <= 0.025 + slack(0.025, sets)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.97])
@sizes(1_000, 20_000)
def test_rates_are_covered_at_every_look(sets: int, rate: float) -> None:
    solved = (np.random.default_rng(3).random((sets, 200)) < rate).astype(float)
    for side in cs.mean_log_wealth(solved, 0, 1, rate):
        assert ever(side, 0.1) <= 0.05 + slack(0.05, sets)


SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "rare failures": lambda rng, shape: np.where(rng.random(shape) < 0.05, -0.95, 0.05),
    "skewed": lambda rng, shape: 2 * rng.beta(0.3, 2.7, shape) - 1 + 0.8,
    "tight": lambda rng, shape: np.clip(rng.normal(0, 0.02, shape), -1, 1),
    "solved by one": lambda rng, shape: (
        (rng.random(shape) < 0.5).astype(float) - (rng.random(shape) < 0.5)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@sizes(200, 4_000)
def test_intervals_cover_at_every_look(sets: int, shape: str) -> None:
    """The ends themselves, looked at after each of 60 seeds; all these shapes have mean zero."""
    z = SHAPES[shape](np.random.default_rng(4), (sets, 60))
    ends = cs.difference_sequence(z, 1.8, 0.2)
    missed = ((ends.low > 0) | (ends.high < 0)).any(axis=1).mean()
    assert missed <= 0.2 + slack(0.2, sets)
    assert (ends.high[:, -1] - ends.low[:, -1] < 2.5).all()


def check_ends() -> None:
    """A high start and a fall, so that an earlier look excludes more than the last one."""
    z = [1.0, 0.9, 1.0, 0.8, 1.0, 0.9, -0.7, -0.6, -0.8, 0.1]
    np.testing.assert_allclose(
        cs.difference_interval(z, 1.0, 0.05), reference_interval(z, 0.05), rtol=0, atol=1e-9
    )


def check_wealth() -> None:
    z = [0.5, -0.9, 0.2, 1.0]
    found = np.exp(cs.difference_log_wealth(z, 1.0, 0.1).above)
    np.testing.assert_allclose(found, reference_wealth([0.75, 0.05, 0.6, 1.0], 0.55), rtol=1e-12)


def check_nesting() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, (50, 40))
    ends = cs.difference_sequence(z, 1.0, 0.05)
    assert (np.diff(ends.low) >= 0).all()
    assert (np.diff(ends.high) <= 0).all()


def check_looks_do_not_see_ahead() -> None:
    z = [0.9, -0.8, 0.3, 0.7, -0.2]
    path = cs.difference_sequence(z, 1.0, 0.05)
    early = cs.difference_interval(z[:3], 1.0, 0.05)
    np.testing.assert_allclose(early, (path.low[2], path.high[2]), rtol=0, atol=1e-12)


def check_error_rate() -> None:
    """Many looks at fair coins, at a level of which the sequence uses up most."""
    coins = 2.0 * (np.random.default_rng(0).random((1_000, 400)) < 0.5) - 1
    assert ever(np.maximum(*cs.difference_log_wealth(coins, 1.0)), 0.5) <= 0.5


def check_no_ruin() -> None:
    z = [-1.0] * 5 + [1.0] * 20
    ends, wealth = cs.difference_sequence(z, 1.0, 0.05), cs.difference_log_wealth(z, 1.0)
    assert np.isfinite([*ends.low, *ends.high, *wealth.above, *wealth.below]).all()


def check_range() -> None:
    with pytest.raises(UserError):
        cs.difference_interval([1.01], 1.0, 0.05)


# A line of the source, what it is changed into, and the check that must catch it.
MUTANTS = {
    "last look instead of all": (
        "t = np.minimum(t, threshold - coefficients[:, 1])",
        "t = threshold - coefficients[:, 1]",
        check_nesting,
    ),
    "bets beyond what one has": (
        "LARGEST_FRACTION = 0.999",
        "LARGEST_FRACTION = 1.2",
        check_no_ruin,
    ),
    "α not halved": ("math.log(2 / alpha)", "math.log(1 / alpha)", check_error_rate),
    "order of completion": (
        "values = np.asarray(x, dtype=np.float64)",
        "values = np.sort(np.asarray(x, dtype=np.float64))",
        check_looks_do_not_see_ahead,
    ),
    "best gambler instead of the average": (" - math.log(NODES)", "", check_error_rate),
    "nodes at the wrong end of their cells": (
        "np.arange(NODES) + 0.5",
        "np.arange(NODES) + 1.0",
        check_wealth,
    ),
    "bets that are not scaled by the mean": (
        "stakes = _fractions() / m",
        "stakes = _fractions()",
        check_wealth,
    ),
    "upper end not mirrored": ("np.stack([rise, fall])", "np.stack([rise, rise])", check_ends),
    "clipped without a word": ("if outside.any():", "if False:", check_range),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    old, new, check = MUTANTS[name]
    check()
    with planted(cs, old, new), pytest.raises((AssertionError, pytest.fail.Exception)):
        check()


@pytest.mark.parametrize("kind", ["spread", "rare", "none", "contradiction"])
def test_the_last_look_alone_is_the_last_of_all_looks(kind):
    """Beyond `_FEW` seeds the interval comes from a root that takes time n instead of n²."""
    rng = np.random.default_rng(3)
    z = {
        "spread": rng.uniform(-0.8, 1, 300),
        "rare": rng.choice([-1.0, 0.0, 1.0], 300, p=[0.01, 0.98, 0.01]),
        "none": np.full(300, -1.0),
        "contradiction": np.r_[np.ones(150), -np.ones(150)],
    }[kind]
    every, last = cs.difference_sequence(z, 1.0, 0.05), cs.difference_ends(z, 1.0, 0.05)
    assert last.contradiction == every.contradiction[-1] == (kind == "contradiction")
    assert (last.low, last.high) == pytest.approx((every.low[-1], every.high[-1]), rel=0, abs=1e-12)
    # At the switch between the two ways, too.
    for n in (cs._FEW, cs._FEW + 1):
        found = cs.difference_interval(z[:n], 1.0, 0.05)
        ends = cs._last_end((1 + z[:n]) / 2, cs.log_threshold(0.05))
        if kind != "contradiction":
            assert found[0] == pytest.approx(2 * ends - 1, rel=0, abs=1e-12)
