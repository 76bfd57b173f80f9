"""The paired analysis of times: it holds under drift, finds 5 %, and says when it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.findings import Speed
from pacebench.harness.overhead.ratios import noise_floor, ratio, seconds
from pacebench.harness.overhead.timing import schedule

BLOCKS, DATA_SETS = 10, 400


def drifting_block(rng, factors, drift, mood):
    """Simulates one process: a pass takes its time × a slow drift × noise, in scheduled order."""
    passes = dict.fromkeys(factors, 8)
    taken = {label: [] for label in factors}
    clock = 0.0
    for labels in schedule(passes, rng):
        for label in labels:
            pass_time = factors[label] * mood * (1 + drift * clock)
            clock += pass_time
            taken[label].append(pass_time * np.exp(0.05 * rng.standard_normal()))
    return {label: np.median(np.reshape(t, (2, 8)), axis=1).mean() for label, t in taken.items()}


def interleaved(rng, factors):
    """Simulates blocks of the design in use, on a machine that drifts and has moods."""
    found = {label: [] for label in factors}
    mood = 1.0
    for _ in range(BLOCKS):
        mood *= np.exp(0.1 * rng.standard_normal())
        drift = 0.02 * rng.standard_normal()
        for label, time in drifting_block(rng, factors, drift, mood).items():
            found[label].append(time)
    return {label: np.array(times) for label, times in found.items()}


def one_after_the_other(rng, labels):
    """Simulates all blocks of one program before all of the next, on the same machine."""
    found, mood = {}, 1.0
    for label in labels:
        times = []
        for _ in range(BLOCKS):
            mood *= np.exp(0.1 * rng.standard_normal())
            times.append(mood * np.exp(0.05 * rng.standard_normal() / np.sqrt(16)))
        found[label] = np.array(times)
    return found


def test_paired_blocks_hold_under_drift_and_sequential_timing_does_not():
    rng = np.random.default_rng(7)
    paired = unpaired = 0
    for _ in range(DATA_SETS):
        same = interleaved(rng, {"a": 1.0, "b": 1.0})
        paired += ratio(same["a"], same["b"]).outcome is not Speed.INCONCLUSIVE
        sequence = one_after_the_other(rng, "ab")
        logs = np.log(sequence["a"]), np.log(sequence["b"])
        unpaired += stats.ttest_ind(*logs, equal_var=False).pvalue < 0.05
    # Binomial standard error at 5 %: 1.1 points.
    assert paired / DATA_SETS < 0.085
    assert unpaired / DATA_SETS > 0.25


def test_interval_covers_the_true_ratio():
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(DATA_SETS):
        times = interleaved(rng, {"a": 1.3, "b": 1.0})
        found = ratio(times["a"], times["b"])
        held += found.low <= 1.3 <= found.high
    assert 0.92 <= held / DATA_SETS <= 0.98


def test_five_percent_is_found_and_a_third_name_is_not():
    rng = np.random.default_rng(9)
    found = false = 0
    for _ in range(100):
        times = interleaved(rng, {"a": 1.0, "twin": 1.0, "again": 1.0, "slowed": 1.05})
        floor = noise_floor(times["a"], times["twin"])
        found += ratio(times["slowed"], times["a"], floor).outcome is Speed.SLOWER
        false += ratio(times["again"], times["a"], floor).outcome is not Speed.INCONCLUSIVE
    assert found >= 75
    assert false <= 6


def test_an_effect_below_the_noise_floor_is_inconclusive():
    exact = np.exp(np.linspace(-0.001, 0.001, 12))
    slower = 1.02 * np.exp(np.linspace(0.001, -0.001, 12))
    assert ratio(slower, exact).outcome is Speed.SLOWER
    assert ratio(slower, exact, floor=1.03).outcome is Speed.INCONCLUSIVE
    assert ratio(exact, slower, floor=1.01).outcome is Speed.FASTER


times = st.lists(st.floats(1e-6, 1e2), min_size=10, max_size=20)


@given(times, st.floats(1e-3, 1e3))
def test_ratio_is_antisymmetric_and_free_of_units(values, unit):
    a = np.array(values)
    b = a[::-1].copy()
    there, back = ratio(a, b), ratio(b, a)
    assert there.estimate * back.estimate == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)
    scaled = ratio(unit * a, unit * b)
    assert scaled.estimate == pytest.approx(there.estimate)
    assert scaled.low == pytest.approx(there.low)


def test_seconds_are_the_geometric_mean():
    found = seconds(np.array([1e-3, 1e-5] * 5))
    assert found.estimate == pytest.approx(1e-4)
    assert found.low < found.estimate < found.high


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (np.ones(9), np.ones(9), "too few"),
        (np.ones(10), np.ones(11), "no pairs"),
        (np.r_[np.ones(10), 0.0], np.ones(11), "not positive"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, said):
    with pytest.raises(UserError, match=said):
        ratio(a, b)
