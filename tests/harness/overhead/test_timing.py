"""How a block is run: order, restoring, clocks."""

from __future__ import annotations

import gc
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench import curricula
from pacebench.harness.overhead import timing
from pacebench.harness.overhead.cells import CLOCKS, synthetic
from pacebench.harness.overhead.quality import judge, problem_of
from pacebench.harness.overhead.timing import Replay, schedule, time_block


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1),
    st.integers(0, 2**32 - 1),
)
def test_schedule_is_a_palindrome_with_every_pass_in_it(passes, seed):
    order = [x for labels in schedule(passes, np.random.default_rng(seed)) for x in labels]
    assert order == order[::-1]
    assert Counter(order) == {label: 2 * count for label, count in passes.items()}


def test_the_only_pass_of_a_slow_curriculum_falls_amid_the_quick_ones():
    rounds = schedule({"quick": 20, "slow": 1}, np.random.default_rng(0))
    first, second = [r for r, labels in enumerate(rounds) if "slow" in labels]
    assert 5 <= first <= 14
    assert first + second == len(rounds) - 1


READERS = [n for n in curricula.names() if curricula.get(n).reads == {"contexts", "values"}]


@pytest.mark.parametrize("name", READERS)
def test_every_replayed_update_starts_from_the_recorded_state(name):
    instance = synthetic(1, 16, 2, seed=3, epsilon=0.05)
    replay = Replay(name, [instance])
    p, first = replay.solve(0)
    replay.time(0)
    q, second = replay.solve(0)
    a, b = first.to_dict(), second.to_dict()
    for clock in ("seconds", "seconds_recording"):
        del a[clock], b[clock]
    assert json.dumps(a) == json.dumps(b)
    np.testing.assert_array_equal(curricula.moments(p), curricula.moments(q))


class Ticking:
    """A clock that moves by a fixed step whenever it is read."""

    def __init__(self, step):
        self.now, self.step = 0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_slowdown_stretches_the_timed_region_by_its_factor(monkeypatch):
    instance = synthetic(1, 16, 0, seed=3, epsilon=0.05)
    clock = Ticking(10)
    monkeypatch.setattr(timing, "perf_counter_ns", clock)
    plain = Replay("default", [instance])
    slowed = Replay("default", [instance], slowdown=100.0)
    assert plain.time(0)[0] == pytest.approx(10e-9)
    # The update takes one tick; waiting ends at the first reading beyond 100 ticks.
    assert 1000e-9 <= slowed.time(0)[0] <= 1030e-9


def test_block_times_every_contestant_and_leaves_the_collector_alone():
    instances = [synthetic(2, 16, i, seed=3, epsilon=0.05) for i in (0, 1)]
    contestants = {"spgl": ("spgl", 3), "twin": ("spgl", 3), "default": ("default", 2)}
    # Two instances of 10 ms each.
    replays = {
        label: Replay(name, instances, 0.01, 0.02 * passes)
        for label, (name, passes) in contestants.items()
    }
    assert replays["default"].passes == 2
    assert gc.isenabled()
    frozen = gc.get_freeze_count()
    found = time_block(replays, np.random.default_rng(0))
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
    assert set(found) == {"spgl", "twin", "default"}
    for times in found.values():
        assert all(len(times[clock]) == 2 for clock in CLOCKS)
        # The method's own step is a part of the whole update.
        assert all(0 < own < whole for own, whole in zip(times["step"], times["wall"], strict=True))


def test_a_warm_pass_begins_with_untimed_updates(monkeypatch):
    instances = [synthetic(1, 16, i, seed=3, epsilon=0.05) for i in (0, 1, 2)]
    for seconds, expected in ((1e-4, [0, 1, 2, 0, 1, 2]), (0.01, [0, 1, 2])):
        replay, made = Replay("spgl", instances, seconds), []
        monkeypatch.setattr(replay, "time", lambda i, made=made: made.append(i) or (i, i, i))
        assert replay.run()[:, 0].tolist() == [0, 1, 2]
        assert made == expected


def test_passes_fill_the_share_and_are_at_least_one():
    instances = [synthetic(1, 16, i, seed=3, epsilon=0.05) for i in (0, 1)]
    assert Replay("default", instances, 1e-4, 0.02).passes == 100
    assert Replay("default", instances, 1e-3, 0.02).passes == 10
    assert Replay("default", instances, 3.0, 0.02).passes == 1
    assert Replay("default", instances, 1e-9, 10.0).passes == timing.MAXIMUM_PASSES


@pytest.mark.parametrize("name", curricula.names())
def test_every_curriculum_is_timed_on_the_same_instances(name):
    instance = synthetic(3, 16, 2, seed=1, epsilon=0.05)
    replay = Replay(name, [instance])
    assert all(seconds > 0 for seconds in replay.time(0))
    new, record = replay.solve(0)
    assert (problem_of(name) is None) == (record.epsilon is None)
    if problem_of(name) is not None:
        staying = judge(instance, instance.current)
        assert judge(instance, new, record).kl_forward < staying.kl_forward
