"""The diagonal path allocates O(K d), never d × d."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pacebench import curricula


@pytest.mark.parametrize("name", ["spgl", "spgl-shared", "linear", "default"])
@pytest.mark.parametrize("threshold", [0.0, 10.0])
def test_memory_is_linear_in_samples_and_dimensions(name, threshold):
    d, K = 10_000, 20
    rng = np.random.default_rng(0)
    target = curricula.Gaussian(rng.normal(size=d), rng.uniform(0.5, 2.0, d))
    initial = curricula.Gaussian(rng.normal(size=d), rng.uniform(0.5, 2.0, d))
    tracemalloc.start()
    c = curricula.make(name, target=target, initial=initial, epsilon=0.05, threshold=threshold)
    contexts = c.sample(K, rng)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    record = c.update(contexts, np.linspace(0.5, 1.5, K))
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert record.accepted
    # A few K × d temporaries and some dozen vectors of length d; one d × d matrix is 800 MB.
    assert peak < 8 * (4 * K * d + 60 * d)
