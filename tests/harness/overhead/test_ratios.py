"""Instances × blocks: the intervals mean what they say, by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.overhead.ratios import per_update, total

INSTANCES, BLOCKS, DATA_SETS = 12, 10, 400


def simulate(rng, instance=1.0, block=0.03, noise=0.03, truth=1000.0):
    """Times of a and b by the crossed random-effects model, and the four true ratios.

    Instances matter to a far more than to b, as they do to a numerical solver.
    """
    slow, quick = instance * rng.standard_normal((INSTANCES, 1)), 0.1 * instance
    quick = quick * rng.standard_normal((INSTANCES, 1))

    def measured(logs):
        mood = block * rng.standard_normal(BLOCKS)
        return np.exp(logs + mood + noise * rng.standard_normal((INSTANCES, BLOCKS)))

    a, b = measured(math.log(truth) + slow), measured(quick)
    same = truth * math.exp((slow - quick).mean())
    same_total = truth * np.exp(slow).sum() / np.exp(quick).sum()
    other_total = truth * math.exp(0.5 * instance**2 - 0.5 * (0.1 * instance) ** 2)
    return a, b, {"other": truth, "same": same}, {"other": other_total, "same": same_total}


def coverage(rng, **law):
    held = np.zeros(4)
    for _ in range(DATA_SETS):
        a, b, each, summed = simulate(rng, **law)
        for i, (found, truth) in enumerate(((per_update(a, b), each), (total(a, b), summed))):
            held[2 * i] += found.low <= truth["other"] <= found.high
            held[2 * i + 1] += (
                found.same_instances.low <= truth["same"] <= found.same_instances.high
            )
    return held / DATA_SETS


def test_intervals_hold_the_truth_that_they_are_about():
    # Monte-Carlo standard error at 95 %: 1.1 points.
    each, each_same, summed, summed_same = coverage(np.random.default_rng(1))
    assert 0.92 <= each <= 0.98
    assert 0.92 <= each_same <= 0.98
    assert 0.92 <= summed_same <= 0.98
    # Few slow instances decide a total; its interval is known to be too narrow, and by how much.
    assert 0.84 <= summed <= 0.96


def test_intervals_hold_where_instances_do_not_matter():
    found = coverage(np.random.default_rng(2), instance=0.0)
    assert (found >= 0.92).all()


def test_intervals_are_not_conservative_where_instances_matter_little():
    found = coverage(np.random.default_rng(3), instance=0.1, block=0.05, noise=0.01)
    assert ((found >= 0.92) & (found <= 0.985)).all()


def test_repeating_the_same_instances_is_not_taken_for_more_of_them():
    """Blocks that replay the same instances narrow one interval and leave the other as it is."""
    rng = np.random.default_rng(4)
    a, b, *_ = simulate(rng, noise=0.05)
    few, many = per_update(a, b), per_update(np.tile(a, 8), np.tile(b, 8))
    width = [math.log(found.high / found.low) for found in (few, many)]
    assert width[1] > 0.95 * width[0]
    same = [math.log(f.same_instances.high / f.same_instances.low) for f in (few, many)]
    assert same[1] < 0.4 * same[0]


def test_mean_squares_by_hand():
    # Instance effects ±1, block effects ±0.1, no interaction: everything can be read off.
    rows, columns = np.array([-1.0, 1.0]), np.tile([-0.1, 0.1], 5)
    logs = 2.0 + rows[:, None] + columns
    found = per_update(np.exp(logs), np.ones_like(logs))
    assert found.estimate == pytest.approx(math.exp(2.0))
    # Variance of the mean over blocks: 0.01 · 10/9 / 10; over instances: 2 / 2.
    over_blocks, over_instances = 0.01 / 9, 1.0
    half = stats.t.ppf(0.975, 9) * math.sqrt(over_blocks)
    assert found.same_instances.low == pytest.approx(math.exp(2.0 - half))
    both = over_instances + over_blocks
    df = both**2 / (over_instances**2 / 1 + over_blocks**2 / 9)
    half = stats.t.ppf(0.975, df) * math.sqrt(both)
    assert found.high == pytest.approx(math.exp(2.0 + half))


def test_total_is_what_a_user_pays_and_the_mean_per_update_is_not():
    a = np.tile([[1.0], [1.0], [1.0], [97.0]], 10)
    b = np.ones_like(a)
    assert total(a, b).estimate == pytest.approx(25.0)
    assert per_update(a, b).estimate == pytest.approx(97.0**0.25)
    # The jackknife's variance of ln(sum) by hand: without the slow one the ratio is 1, else 33.
    left_out = np.log([33.0, 33.0, 33.0, 1.0])
    error = math.sqrt(3 / 4 * ((left_out - left_out.mean()) ** 2).sum())
    half = stats.t.ppf(0.975, 3) * error
    assert total(a, b).high == pytest.approx(25.0 * math.exp(half))


def test_five_percent_is_found_and_a_second_name_is_not():
    rng = np.random.default_rng(9)
    found = false = 0
    for _ in range(200):
        mood = np.exp(0.1 * rng.standard_normal(BLOCKS))
        spread = np.exp(rng.standard_normal((INSTANCES, 1)))
        a, twin, slowed = (
            f * spread * mood * np.exp(0.03 * rng.standard_normal((INSTANCES, BLOCKS)))
            for f in (1.0, 1.0, 1.05)
        )
        same = per_update(twin, a)
        floor = max(1 / same.low, same.high)
        found += per_update(slowed, a).speed(floor) == "slower"
        false += same.speed() != "inconclusive"
    assert found >= 190
    # 5 % of 200, and three standard errors.
    assert false <= 19


@pytest.mark.parametrize("place", [0.0, 0.003, 0.006, 0.02])
def test_an_a_a_excludes_one_in_no_more_than_five_of_a_hundred(place):
    """Two objects of one curriculum differ in every block anew, by where they happen to lie."""
    rng, shape = np.random.default_rng(11), (DATA_SETS, 10, BLOCKS)
    logs = 0.013 * rng.standard_normal(shape) + place * rng.standard_normal((DATA_SETS, 1, BLOCKS))
    false = sum(per_update(np.exp(x)).speed() != "inconclusive" for x in logs)
    # 5 % of 400, and three standard errors.
    assert false <= 33


def test_an_effect_below_the_noise_floor_is_inconclusive():
    noise = np.exp(0.001 * np.random.default_rng(0).standard_normal((2, 6, 12)))
    slower, exact = 1.02 * noise[0], noise[1]
    assert per_update(slower, exact).speed() == "slower"
    assert per_update(slower, exact).speed(1.03) == "inconclusive"
    assert total(exact, slower).speed(1.01) == "faster"


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_ratios_are_antisymmetric_and_free_of_units(seed, unit):
    a, b = np.exp(np.random.default_rng(seed).standard_normal((2, 4, 10)))
    for measure in (per_update, total):
        there, back, scaled = measure(a, b), measure(b, a), measure(unit * a, unit * b)
        assert there.estimate * back.estimate == pytest.approx(1.0)
        assert there.low * back.high == pytest.approx(1.0)
        assert scaled.low == pytest.approx(there.low)


def test_seconds_are_the_geometric_mean():
    found = per_update(np.tile([[1e-3], [1e-5], [1e-4]], 10))
    assert found.estimate == pytest.approx(1e-4)
    assert found.low < found.estimate < found.high
