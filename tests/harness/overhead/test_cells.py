"""Instances: reproducible, consistent with the distribution they name, of every kind."""

from __future__ import annotations

import gzip
from itertools import pairwise

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.overhead.cells import (
    KINDS,
    RecordedStream,
    replay_streams,
    synthetic,
)
from pacebench.harness.overhead.measure import record
from tests.harness.overhead.simulated import SETTINGS


@pytest.mark.parametrize("d", [1, 3, 50])
def test_contexts_are_sampled_from_the_current_distribution(d):
    instance = synthetic(d, 4000, 0, seed=5, epsilon=0.05)
    z = (instance.contexts - instance.current.mean) / instance.current.std
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)


def test_instances_are_the_same_in_every_process_and_differ_from_each_other():
    one, same = (synthetic(3, 16, 2, seed=5, epsilon=0.05) for _ in range(2))
    np.testing.assert_array_equal(one.contexts, same.contexts)
    np.testing.assert_array_equal(one.values, same.values)
    other = synthetic(3, 16, 4, seed=5, epsilon=0.05)
    assert not np.array_equal(one.contexts, other.contexts)
    np.testing.assert_array_equal(one.target.mean, other.target.mean)


@pytest.mark.parametrize("d", [1, 3, 100])
def test_every_kind_of_step_occurs(d):
    stream = [synthetic(d, 64, i, seed=5, epsilon=0.05) for i in range(len(KINDS))]
    steps, cases = set(), set()
    for instance, kind in zip(stream, KINDS, strict=True):
        curriculum = instance.make("spgl")
        record = curriculum.update(instance.contexts, instance.values)
        assert (record.step == "performance") == (kind == "performance")
        steps.add(record.step)
        cases |= set(record.case.split("/"))
        if kind == "near":
            assert record.case == "free/free"
    assert steps == {"performance", "convergence"}
    # In one dimension both constraints cannot bind at different points.
    assert {"free", "kl", "value" if d == 1 else "both"} <= cases


def test_a_recorded_stream_survives_the_file(tmp_path):
    instances = [synthetic(3, size, 1, seed=5, epsilon=0.05) for size in (8, 12, 8)]
    file = tmp_path / "streams" / "s.json.gz"
    recorded = RecordedStream(source={"setup": "x"}, instances=instances)
    recorded.write(file)
    loaded = RecordedStream.read(file, "")
    assert loaded.source == {"setup": "x"}
    stream = replay_streams(tmp_path, SETTINGS)[0]
    assert (stream.name, stream.d, stream.size) == ("recorded-s", 3, 8)
    np.testing.assert_array_equal(stream.build(1).values, instances[1].values)
    for a, b in zip(loaded.instances, instances, strict=True):
        np.testing.assert_array_equal(a.contexts, b.contexts)
        np.testing.assert_array_equal(a.values, b.values)
        np.testing.assert_array_equal(a.current.mean, b.current.mean)
        np.testing.assert_array_equal(a.current.variance, b.current.variance)
        np.testing.assert_array_equal(a.target.mean, b.target.mean)
        assert (a.threshold, a.epsilon) == (b.threshold, b.epsilon)


def test_a_file_that_is_no_stream_is_refused(tmp_path):
    file = tmp_path / "streams" / "s.json.gz"
    file.parent.mkdir()
    for content in (b"nonsense", gzip.compress(b'{"source": {}, "instances": [{}]}')):
        file.write_bytes(content)
        with pytest.raises(UserError, match="recorded anew"):
            replay_streams(tmp_path, SETTINGS)


def test_the_choice_of_a_recording_spans_it_and_names_it(tmp_path):
    instance = synthetic(1, 4, 0, seed=5, epsilon=0.05)
    prints = set()
    for length in (37, 38):
        recorded = RecordedStream(source={}, instances=[instance] * length)
        recorded.write(tmp_path / "streams" / "s.json.gz")
        stream = replay_streams(tmp_path, SETTINGS)[0]
        assert (stream.indices[0], stream.indices[-1]) == (0, length - 1)
        assert len(stream.indices) == 2 * SETTINGS.instances
        prints.add(stream.fingerprint)
    # Two measurements are paired only where they replay the same.
    assert len(prints) == 2


def test_a_real_run_is_recorded():
    recorded = record("point-mass-1", seed=3, steps=4_096)
    instances = recorded.instances
    assert recorded.source["setup"] == "point-mass-1"
    assert len(instances) >= 2
    for before, after in pairwise(instances):
        # The recorded curriculum moved in between.
        assert not np.array_equal(before.current.mean, after.current.mean)
        assert before.contexts.shape == (len(before.values), before.target.dim)
