"""`currot`: a bimodal target under perfect performance, the edge of what succeeds otherwise."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import CurriculumError, Gaussian, Mixture
from pacebench.curricula.currot import transport
from pacebench.curricula.kernel_regression import KernelRegression, NearbyRegression
from pacebench.curricula.successes import Memory, remember, successful_contexts

GATES = Mixture([Gaussian([3.0, 0.5], [1e-4] * 2), Gaussian([-3.0, 0.5], [1e-4] * 2)])
WIDE = Gaussian([0.0, 4.25], [4.0, 3.516])
BOUNDS = ([-4.0, 0.5], [4.0, 8.0])


def make(**options):
    common = {"target": GATES, "initial": WIDE, "bounds": BOUNDS, "threshold": 4.0}
    return curricula.make("currot", **{**common, **options})


def test_particles_end_on_a_bimodal_target_under_perfect_performance():
    c, rng = make(record_every=0), np.random.default_rng(0)
    assert c.radius == pytest.approx(math.sqrt(0.5))
    for _ in range(60):
        c.update(c.sample(20, rng), 5.0 + 0.1 * rng.standard_normal(20))
    particles = c.distribution.particles
    assert particles.shape == (100, 2)
    assert np.mean(particles[:, 0] > 0) == pytest.approx(0.5, abs=0.02)
    np.testing.assert_allclose(np.abs(particles[:, 0]), 3.0, atol=0.1)
    np.testing.assert_allclose(particles[:, 1], 0.5, atol=0.1)
    assert c._distance_to_target(c.distribution) < 0.02


def test_particles_stay_where_episodes_succeed():
    c, rng = make(record_every=0), np.random.default_rng(1)
    for _ in range(60):
        x = c.sample(20, rng)
        # Only gates wider than 3 can be passed.
        c.update(x, np.where(x[:, 1] > 3.0, 5.0, 0.0))
    widths = c.distribution.particles[:, 1]
    assert widths.min() > 2.2
    assert np.median(widths) < 4.5
    # Sideways nothing holds them back.
    assert np.abs(c.distribution.particles[:, 0]).min() > 1.0


@pytest.mark.parametrize(("success", "kept"), [(8.0, False), (13.0, True)])
def test_a_mode_that_the_policy_lost_is_left_only_if_its_failures_outweigh_its_successes(
    success, kept
):
    """N/2 old successes and up to N failures at the mode: V̂ falls no lower than a third of V."""
    c, rng = make(record_every=0), np.random.default_rng(0)
    held = []
    for update in range(120):
        x = c.sample(20, rng)
        c.update(x, np.where((update >= 60) & (x[:, 0] < 0.0), 0.0, success))
        held.append(np.mean(c.distribution.particles[:, 0] < -2.5))
    assert held[59] == pytest.approx(0.5, abs=0.02)
    assert min(held[60:]) == (held[59] if kept else 0.0)


def test_it_waits_until_the_mean_prediction_has_reached_the_threshold_once():
    c, rng = make(), np.random.default_rng(0)
    before = c.distribution
    record = c.update(c.sample(20, rng), np.full(20, 3.0))
    assert (record.step, c.distribution is before, c.reached) == ("wait", True, False)
    assert record.kl_step == 0.0
    record = c.update(c.sample(20, rng), np.full(20, 9.0))
    assert (record.step, c.reached) == ("transport", True)
    assert record.epsilon is record.kl_step is record.ess is None
    # From then on a shortfall no longer stops it.
    assert c.update(c.sample(20, rng), np.full(20, -9.0)).step == "transport"


def test_the_regression_equals_the_formula_and_the_nearest_point_far_away():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(30, 2)), rng.normal(size=30)
    asked = rng.normal(size=(700, 2))
    weights = np.exp(-((asked[:, None] - x[None]) ** 2).sum(axis=2) / (2 * 0.4**2))
    expected = (weights @ v) / weights.sum(axis=1)
    np.testing.assert_allclose(KernelRegression(x, v, 0.4)(asked), expected, atol=2e-5)
    far = np.array([[1e3, 0.0]])
    nearest = v[np.argmin(((x - far) ** 2).sum(axis=1))]
    assert KernelRegression(x, v, 0.01)(far)[0] == pytest.approx(nearest, abs=1e-5)


def test_nearby_regression_looks_at_points_within_three_widths_or_at_the_ten_nearest():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(30, 2)), rng.normal(size=30)
    asked = rng.normal(size=(700, 2))
    squares = ((asked[:, None] - x[None]) ** 2).sum(axis=2) / 0.2**2
    near = squares < 9.0
    none = np.flatnonzero(~near.any(axis=1))
    # No more than half of the points are ever near, so that none is left out.
    assert near.sum(axis=1).max() <= 15
    assert len(none)
    for row in none:
        near[row, np.argsort(squares[row])[:10]] = True
    nearest = squares.min(axis=1, keepdims=True)
    weights = np.where(near, np.exp((nearest - squares) / 2), 0.0)
    expected = (weights @ v) / weights.sum(axis=1)
    np.testing.assert_allclose(NearbyRegression(x, v, 0.2, rng)(asked), expected, atol=2e-5)


def test_of_more_points_than_half_a_random_half_is_looked_at():
    x, v = np.zeros((10, 1)), np.arange(10.0) == 0.0
    found = [
        NearbyRegression(x, v.astype(float), 1.0, np.random.default_rng(seed))(np.zeros((1, 1)))[0]
        for seed in range(400)
    ]
    # The one that differs is among five of ten, or not.
    assert set(np.round(found, 6)) == {0.0, 0.2}
    assert np.mean(found) == pytest.approx(0.1, abs=0.015)


def test_contexts_close_together_do_not_all_look_at_the_same_half():
    """One draw for all would lift or drop a whole mode of the particles at once."""
    rng = np.random.default_rng(0)
    x, v = 0.01 * rng.normal(size=(150, 2)), np.arange(150) < 50
    asked = 0.01 * rng.normal(size=(50, 2))
    models = [NearbyRegression(x, v.astype(float), 1.0, rng) for _ in range(200)]
    found = np.array([model(asked) for model in models])
    # 75 of 150 without replacement.
    spread = math.sqrt(1 / 3 * 2 / 3 / 75 * 75 / 149)
    assert found.mean() == pytest.approx(1 / 3, abs=0.003)
    assert found.std(axis=0).mean() == pytest.approx(spread, rel=0.1)
    assert found.std(axis=1).mean() == pytest.approx(spread, rel=0.1)
    assert found.mean(axis=1).std() < 0.4 * spread
    # It remains a function of the context, whatever else is asked along with it.
    np.testing.assert_allclose(models[0](asked[::-1][:7]), found[0, ::-1][:7], atol=1e-6)


def test_transport_in_one_dimension_matches_quantiles():
    rng = np.random.default_rng(0)
    source, wanted = np.array([[0.0], [2.0], [1.0]]), np.array([[10.0], [30.0], [20.0]])
    np.testing.assert_allclose(transport(source, wanted, rng).ravel(), [10.0, 28.0, 19.0])


def test_the_memory_keeps_successes_near_the_target():
    rng, wanted = np.random.default_rng(0), np.zeros((4, 1))

    def after(memory, contexts, values, **fails):
        contexts = np.array(contexts, dtype=float)[:, None]
        return remember(memory, contexts, np.array(values), 1.0, wanted, 4, **fails)

    memory = after(Memory.empty(1), [9, 8], [0.0, 2.0], fails=False)
    assert memory.values.tolist() == [0.0, 2.0]
    assert (memory.settled, memory.worst) == (False, 0.0)
    # Until half of them exceed δ the best are kept.
    memory = after(memory, [4], [0.5], fails=False)
    assert (memory.values.tolist(), memory.settled) == ([0.0, 2.0], True)
    # Successes take the place of what fell short; failures are remembered apart.
    memory = after(memory, [7, 6, 5], [3.0, -1.0, 3.0], fails=True)
    assert memory.contexts.ravel().tolist() == [7.0, 5.0, 8.0]
    assert memory.failed_contexts.tolist() == [[6.0]]
    # They do not come in by their place before the memory is full: the oldest leave.
    memory = after(memory, [9, 20], [3.0, 3.0], fails=True)
    assert memory.contexts.ravel().tolist() == [9.0, 20.0, 7.0, 5.0]
    # Once full, the nearest to the target stay.
    memory = after(memory, [1, 30, 2], [3.0, 3.0, 3.0], fails=True)
    assert sorted(memory.contexts.ravel().tolist()) == [1.0, 2.0, 5.0, 7.0]
    assert memory.failed_contexts.ravel().tolist() == [6.0, 30.0]
    bounds = np.zeros(1), np.full(1, 9.0)
    drawn = successful_contexts(memory, 1.0, 50, (1e-6, np.ones(1)), bounds, rng)
    assert set(drawn.round(3).ravel().tolist()) == {1.0, 2.0, 5.0, 7.0}


def test_noise_that_leads_out_of_the_bounds_is_drawn_anew():
    at_the_edge = Memory(
        np.zeros((1, 1)), np.array([2.0]), np.zeros((0, 1)), np.zeros(0), True, 0.0
    )
    bounds = np.zeros(1), np.ones(1)
    drawn = successful_contexts(
        at_the_edge, 1.0, 400, (0.1, np.ones(1)), bounds, np.random.default_rng(0)
    )
    # Clipped noise would lie on the edge in half of the cases, and be 0.04 away on average.
    assert np.mean(drawn == 0.0) < 0.01
    assert drawn.mean() == pytest.approx(0.08, abs=0.01)


def test_the_state_goes_on_bit_by_bit_and_another_seed_does_not():
    rng, c, copy, other = np.random.default_rng(0), make(), make(), make(seed=1)
    for _ in range(4):
        x = c.sample(20, rng)
        c.update(x, 6.0 - 0.3 * np.abs(x[:, 0]))
    saved = json.loads(json.dumps(c.state_dict()))
    copy.load_state_dict(saved), other.load_state_dict(saved)
    x = c.sample(20, rng)
    for curriculum in (c, copy, other):
        curriculum.update(x, 6.0 - 0.3 * np.abs(x[:, 0]))
    assert json.dumps(c.state_dict()) == json.dumps(copy.state_dict())
    assert json.dumps(c.state_dict()) != json.dumps(other.state_dict())
    with pytest.raises(CurriculumError, match="100 particles"):
        c.load_state_dict({**saved, "particles": [[0.0, 0.0]]})


@pytest.mark.parametrize(
    "wrong", [{"particles": 1}, {"candidates": 0}, {"metric_epsilon": 0.0}, {"start": "middle"}]
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(CurriculumError, match=next(iter(wrong))):
        make(**wrong)
