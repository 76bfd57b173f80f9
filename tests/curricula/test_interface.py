"""The open interface: episodes, distributions of any kind, two clocks, a distance for everyone."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import (
    Curriculum,
    CurriculumError,
    Episodes,
    Gaussian,
    Mixture,
    Proposal,
    UniformBox,
)
from pacebench.curricula.distributions import divergence, fitted_gaussian
from pacebench.curricula.wasserstein import SlicedWasserstein

TARGET, INITIAL = Gaussian([0.0, 1.0], [1.0, 0.5]), Gaussian([3.0, -1.0], [4.0, 2.0])
BIMODAL = Mixture([Gaussian([3.0, 0.5], [1e-4] * 2), Gaussian([-3.0, 0.5], [1e-4] * 2)])
BOUNDS = ([-4.0, 0.5], [4.0, 8.0])


class Ring:
    """A distribution that can do no more than it must."""

    dim = 2

    def sample(self, n, rng):
        angle = rng.uniform(0.0, 2.0 * math.pi, n)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)


class Solved(Curriculum):
    """Draws from the ring and counts the episodes that were solved."""

    name = "solved-test"
    reads = frozenset({"contexts", "success"})

    def __init__(self, **common):
        super().__init__(**common)
        self.solved = 0

    def _propose_from(self, episodes):
        return Proposal("schedule", "ring", Ring(), {"solved": int(episodes.success.sum())})


def spgl(**changes):
    common = {"target": TARGET, "initial": INITIAL, "threshold": 0.0}
    return curricula.make("spgl", **{**common, **changes})


def test_episodes_and_the_short_form_are_one_update():
    rng = np.random.default_rng(0)
    x, v = INITIAL.sample(20, rng), rng.normal(size=20)
    long, short = spgl(), spgl()
    first = long.update(Episodes(x, v, success=v > 0)).to_dict()
    second = short.update(x, v).to_dict()
    assert all(first[key] == second[key] for key in first if not key.startswith("seconds"))
    assert long.state_dict() == short.state_dict()


def test_episodes_are_frozen_and_typed():
    e = Episodes([[1, 2], [3, 4]], success=[1, 0], lengths=[5.0, 6.0], values=[1, 2])
    assert e.contexts.dtype == e.values.dtype == np.float64
    assert (e.success.dtype, e.lengths.dtype, len(e)) == (np.bool_, np.int64, 2)
    assert e.returns is e.start_values is e.value_errors is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        e.values = None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"contexts": [1.0, 2.0]}, "one row an episode"),
        ({"contexts": np.zeros((0, 2))}, "K is 0"),
        ({"contexts": [[1.0, math.nan]]}, "first in row 0"),
        ({"contexts": [[1.0, 2.0]], "returns": [1.0, 2.0]}, r"returns of shape \(1,\)"),
        ({"contexts": [[1.0, 2.0]], "success": "yes"}, r"success of shape \(1,\)"),
        ({"contexts": [[1.0, 2.0]], "value_errors": [math.inf]}, "value_errors contain NaN"),
    ],
)
def test_wrong_episodes_are_refused(fields, words):
    with pytest.raises(CurriculumError, match=words):
        Episodes(**fields)


def test_what_a_curriculum_reads_must_be_given():
    c = Solved(target=TARGET, initial=INITIAL)
    with pytest.raises(CurriculumError, match=r"reads success of each.*contexts=…, success=…"):
        c.update([[0.0, 0.0]], [1.0])
    assert c.updates == 0
    record = c.update(Episodes([[0.0, 0.0], [1.0, 1.0]], success=[True, False]))
    assert c.solved == 1
    assert record.mean_value is record.slack is record.epsilon is None


def test_episodes_that_stand_in_succeed_above_the_mean_value():
    x, v = np.zeros((4, 2)), [1.0, 2.0, 3.0, 6.0]
    e = Episodes.standing_in(x, v, {"contexts", "success", "value_errors", "returns"})
    assert e.success.tolist() == [False, False, False, True]
    assert e.returns.tolist() == e.value_errors.tolist() == v
    assert not Episodes.standing_in(x, np.ones(4), {"success"}).success.any()


def test_no_density_means_no_divergence_but_a_distance():
    c = Solved(target=TARGET, initial=INITIAL, bounds=([-5.0, -5.0], [5.0, 5.0]))
    record = c.update(Episodes(np.zeros((3, 2)), success=[True] * 3))
    assert (record.kl_step, record.kl_target_forward, record.kl_target_reverse) == (None,) * 3
    assert record.ess is None
    assert not record.kl_estimated
    assert 0.0 < record.sliced_wasserstein < 0.5


def test_clocks_are_apart_and_recording_can_be_thinned():
    rng = np.random.default_rng(0)
    whole, thin, never = spgl(), spgl(record_every=3), spgl(record_every=0)
    for i in range(7):
        x = whole.sample(20, rng)
        records = [c.update(x, np.ones(20)) for c in (whole, thin, never)]
        assert all(r.seconds > 0.0 and r.seconds_recording > 0.0 for r in records)
        assert records[0].kl_step is not None
        assert records[0].sliced_wasserstein is not None
        for field in ("kl_step", "kl_target_forward", "ess", "sliced_wasserstein", "kl_estimated"):
            kept = getattr(records[0], field) if i % 3 == 0 else None
            assert getattr(records[1], field) == kept
            assert getattr(records[2], field) is None
    # Leaving diagnostics out changes nothing else.
    assert whole.state_dict() == thin.state_dict() == never.state_dict()


def test_recording_is_no_part_of_the_step(monkeypatch):
    import time

    original = Curriculum._diagnostics

    def slow(self, *args):
        time.sleep(0.02)
        return original(self, *args)

    monkeypatch.setattr(Curriculum, "_diagnostics", slow)
    record = spgl().update(INITIAL.sample(20, np.random.default_rng(0)), np.ones(20))
    assert record.seconds < 0.02 <= record.seconds_recording


@pytest.mark.parametrize("name", ["spgl", "spgl-shared", "spdl-sqp", "linear"])
def test_gaussian_methods_say_so_and_can_be_given_a_fit(name):
    common = {"target": BIMODAL, "initial": UniformBox(*BOUNDS), "threshold": 0.0, "bounds": BOUNDS}
    with pytest.raises(CurriculumError, match=r"needs a Gaussian as its target.*fit='gaussian'"):
        curricula.make(name, **common)
    c = curricula.make(name, **common, fit="gaussian")
    np.testing.assert_allclose(c.target.mean, [0.0, 0.5])
    np.testing.assert_allclose(c.target.covariance, [9.0 + 1e-4, 1e-4])
    np.testing.assert_allclose(c.initial.variance, [64 / 12, 7.5**2 / 12])
    record = c.update(c.sample(20, np.random.default_rng(0)), np.ones(20))
    # The distance is that to the two modes, not to the Gaussian between them.
    assert record.sliced_wasserstein is not None
    assert c._distance_to_target(c.target) > 5 * c._distance_to_target(BIMODAL) > 0.0
    with pytest.raises(CurriculumError, match="fit must be"):
        curricula.make(name, **common, fit="cauchy")


def test_controls_take_any_target():
    for name in ("default", "initial", "uniform"):
        c = curricula.make(name, target=BIMODAL, initial=Ring(), bounds=BOUNDS)
        record = c.update(c.sample(9, np.random.default_rng(0)), np.ones(9))
        assert record.sliced_wasserstein is not None
    with pytest.raises(CurriculumError, match=r"sample\(n, rng\)"):
        curricula.make("default", target=3.0, initial=Ring())


def test_a_mixture_has_the_moments_and_the_density_of_its_parts():
    parts = [Gaussian([0.0, 0.0], [1.0, 2.0]), Gaussian([4.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])]
    m, rng = Mixture(parts, [1.0, 3.0]), np.random.default_rng(0)
    np.testing.assert_allclose(m.weights, [0.25, 0.75])
    x = m.sample(200_000, rng)
    np.testing.assert_allclose(x.mean(axis=0), m.mean, atol=0.02)
    np.testing.assert_allclose(np.cov(x.T), m.covariance, atol=0.03)
    np.testing.assert_allclose(m.std**2, m.covariance.diagonal())
    by_hand = 0.25 * np.exp(parts[0].log_prob(x[:5])) + 0.75 * np.exp(parts[1].log_prob(x[:5]))
    np.testing.assert_allclose(m.log_prob(x[:5]), np.log(by_hand))
    assert m.log_prob(x[0]) == pytest.approx(m.log_prob(x[:1])[0])
    for wrong in ([], [Ring()], [Gaussian([0.0], [1.0]), parts[0]]):
        with pytest.raises(CurriculumError):
            Mixture(wrong)
    with pytest.raises(CurriculumError, match="positive weights"):
        Mixture(parts, [1.0, 0.0])


def test_divergences_are_exact_or_called_estimated():
    assert divergence(TARGET, INITIAL) == (TARGET.kl(INITIAL), False)
    assert divergence(Mixture([TARGET]), INITIAL) == (TARGET.kl(INITIAL), False)
    assert divergence(TARGET, UniformBox(*BOUNDS)) == (math.inf, False)
    assert divergence(Ring(), TARGET) == (None, False)
    near, apart = Mixture([TARGET, TARGET]), Mixture([INITIAL, TARGET])
    assert divergence(near, TARGET) == (pytest.approx(0.0, abs=1e-12), True)
    estimate, estimated = divergence(apart, TARGET)
    x = apart.sample(400_000, np.random.default_rng(1))
    assert estimated
    assert estimate == pytest.approx(np.mean(apart.log_prob(x) - TARGET.log_prob(x)), rel=0.15)


def test_moments_of_a_sampler_are_those_of_its_samples():
    fitted = fitted_gaussian(Ring())
    np.testing.assert_allclose(fitted.mean, 0.0, atol=0.05)
    np.testing.assert_allclose(fitted.covariance, 0.5 * np.eye(2), atol=0.05)
    _, std = curricula.moments(Ring())
    np.testing.assert_allclose(std, math.sqrt(0.5), rtol=0.05)
    assert curricula.moments(TARGET)[0] is TARGET.mean


def test_the_sliced_distance_is_that_of_wasserstein():
    unlimited = np.full(1, math.inf)
    measure = SlicedWasserstein(Gaussian([0.0], [1.0]), -unlimited, unlimited, np.ones(1))
    # In one dimension W₁ = E|μ − μ' + (σ − σ')Z|.
    z = np.random.default_rng(1).standard_normal(1_000_000)
    for mean, std in ((3.0, 1.0), (0.0, 2.0), (-4.0, 0.5), (100.0, 1.0)):
        exact = np.abs(mean + (std - 1.0) * z).mean()
        assert measure(Gaussian([mean], [std**2])) == pytest.approx(exact, rel=0.15)
    assert measure(Gaussian([0.0], [1.0])) < 0.06
    # Over the directions of the plane the mean of |cos| is 2/π.
    plane = SlicedWasserstein(
        Gaussian([0.0, 0.0], [1.0, 1.0]), *np.full((2, 2), [[-math.inf], [math.inf]]), np.ones(2)
    )
    assert plane(Gaussian([5.0, 0.0], [1.0, 1.0])) == pytest.approx(5 * 2 / math.pi, rel=0.1)


def test_the_distance_is_in_widths_of_the_bounds_and_sees_what_environments_see():
    near = Gaussian([4.0, 0.5], [1e-8, 1e-8])
    c = curricula.make("initial", target=near, initial=INITIAL, bounds=BOUNDS)
    beyond, far = Gaussian([40.0, -9.0], [1e-8, 1e-8]), Gaussian([-4.0, 0.5], [1e-8, 1e-8])
    assert c._distance_to_target(beyond) < 1e-3
    assert 0.5 < c._distance_to_target(far) < 1.0


def test_many_dimensions_cost_little():
    d = 4096
    target = Gaussian(np.zeros(d), np.ones(d))
    measure = SlicedWasserstein(target, *np.full((2, d), [[-math.inf], [math.inf]]), np.ones(d))
    shifted = Gaussian(np.full(d, 3.0), np.ones(d))
    # A shift by 3 in every dimension is one of about 3 along a random direction.
    assert measure(shifted) == pytest.approx(3.0, rel=0.25)
    assert measure(target) < 0.4
