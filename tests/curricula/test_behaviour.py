"""What the curricula do over several updates: controls, shortfalls, floors, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacebench import curricula
from pacebench.curricula import Curriculum, CurriculumError, Gaussian, Proposal, sqp
from pacebench.curricula import spdl as spdl_module

TARGET, INITIAL = Gaussian([0.0, 1.0], [1.0, 0.5]), Gaussian([3.0, -1.0], [4.0, 2.0])


def make(name, **keywords):
    common = {"target": TARGET, "initial": INITIAL, "threshold": 0.0, "epsilon": 0.05}
    return curricula.make(name, **{**common, **keywords})


def feed(c, value, rng, n=40):
    contexts = c.sample(n, rng)
    return c.update(contexts, np.full(n, float(value)) + 0.01 * rng.standard_normal(n))


def test_default_and_initial_stay():
    rng = np.random.default_rng(0)
    for name, where in (("default", TARGET), ("initial", INITIAL)):
        c = make(name)
        assert c.distribution is where
        record = feed(c, -5, rng)
        assert c.distribution is where
        assert (record.step, record.kl_step, record.ess) == ("schedule", 0.0, 40.0)


def test_linear_interpolates_mean_and_log_spread():
    rng, c = np.random.default_rng(0), make("linear", updates=4)
    means, spreads = [c.distribution.mean], [c.distribution.std]
    for _ in range(6):
        feed(c, -1, rng)
        means.append(c.distribution.mean)
        spreads.append(c.distribution.std)
    np.testing.assert_allclose(means[2], 0.5 * (INITIAL.mean + TARGET.mean))
    np.testing.assert_allclose(spreads[2], np.sqrt(INITIAL.std * TARGET.std))
    for arrived in (4, 5, 6):
        np.testing.assert_array_equal(means[arrived], TARGET.mean)
        np.testing.assert_array_equal(spreads[arrived], TARGET.std)


def test_uniform_samples_within_bounds():
    c = make("uniform", bounds=([-1, -2], [1, 5]))
    x = c.sample(500, np.random.default_rng(0))
    assert (x >= [-1, -2]).all()
    assert (x <= [1, 5]).all()
    record = c.update(x, np.ones(500))
    assert record.kl_target_forward == math.inf
    assert record.to_dict()["kl_target_forward"] is None


@pytest.mark.parametrize("name", ["spgl", "spgl-shared", "spdl-sqp"])
def test_shortfall_rules(name):
    for rule, expected in (("hold", "hold"), ("recover", "performance")):
        rng, c = np.random.default_rng(0), make(name, on_shortfall=rule)
        assert feed(c, -1, rng).step == "performance"
        assert not c.reached
        assert feed(c, 1, rng).step == "convergence"
        assert c.reached
        before = c.distribution
        record = feed(c, -1, rng)
        assert record.step == expected
        assert (c.distribution is before) == (rule == "hold")


def test_reached_survives_saving():
    rng, c = np.random.default_rng(0), make("spdl-sqp")
    feed(c, 1, rng)
    copy = make("spdl-sqp")
    copy.load_state_dict(c.state_dict())
    assert feed(copy, -1, rng).step == "hold"


@pytest.mark.parametrize("name", ["spdl", "spdl-sqp"])
def test_std_floor_holds_until_the_target_is_near(name):
    target, initial = Gaussian([0.0], [1e-4]), Gaussian([0.5], [0.04])
    floor, near, rng = 0.1, 30.0, np.random.default_rng(0)
    free = curricula.make(name, target=target, initial=initial, threshold=0.0, epsilon=0.2)
    held = curricula.make(
        name,
        target=target,
        initial=initial,
        threshold=0.0,
        epsilon=0.2,
        std_floor=floor,
        kl_threshold=near,
    )
    narrowest = {}
    for label, c in (("free", free), ("held", held)):
        seen = []
        for _ in range(12):
            far = c.distribution.kl(target) > near
            feed(c, 1, rng)
            if far:
                seen.append(float(c.distribution.std[0]))
        narrowest[label] = min(seen)
    assert narrowest["held"] >= floor * (1 - 1e-6)
    assert narrowest["free"] < floor


def test_a_start_below_the_floor_is_lifted_within_the_budget():
    c = curricula.make(
        "spdl-sqp",
        target=Gaussian([0.0], [1e-4]),
        initial=Gaussian([2.0], [1e-4]),
        threshold=0.0,
        std_floor=0.1,
        kl_threshold=1.0,
    )
    rng, widths = np.random.default_rng(0), []
    for _ in range(10):
        old = c.distribution
        feed(c, 1, rng)
        assert old.kl(c.distribution) <= 0.05 * (1 + 1e-6)
        widths.append(float(c.distribution.std[0]))
    assert widths[-1] > 0.01


def test_a_failed_update_is_refused_and_counted(monkeypatch):
    c, rng = make("spdl"), np.random.default_rng(0)

    class Wandered:
        x, nit = np.full(5, 40.0), 7

    monkeypatch.setattr(spdl_module, "minimize", lambda *_, **__: Wandered)
    before = c.distribution
    record = feed(c, 1, rng)
    assert not record.accepted
    assert record.case == "rejected"
    assert record.iterations == 7
    assert c.distribution is before
    assert (c.updates, c.rejected) == (1, 1)


def test_a_solver_that_raises_is_refused_and_counted(monkeypatch):
    def fails(*_, **__):
        raise np.linalg.LinAlgError

    c = make("spdl")
    monkeypatch.setattr(spdl_module, "minimize", fails)
    assert not feed(c, 1, np.random.default_rng(0)).accepted
    assert c.rejected == 1


def test_a_solution_outside_the_budget_is_pulled_back(monkeypatch):
    c, rng = make("spgl-joint"), np.random.default_rng(0)
    original = sqp.minimize

    def overshoots(*args, **keywords):
        result = original(*args, **keywords)
        result.x = 3.0 * result.x
        return result

    monkeypatch.setattr(sqp, "minimize", overshoots)
    record = feed(c, 1, rng)
    assert record.accepted
    assert 0.9 * 0.05 <= record.kl_step <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("name", ["spgl-exact-kl", "spgl-exact", "spgl-joint"])
def test_ablations_agree_with_the_closed_form_as_the_budget_vanishes(name):
    rng = np.random.default_rng(0)
    contexts = INITIAL.sample(200, rng)
    values = contexts @ [1.0, -0.5] + 3.0
    for threshold in (-50.0, 50.0):
        far = {}
        for epsilon in (1e-3, 1e-5):
            # One budget over both blocks is what `spgl-shared` has; two, what `spgl` has.
            reference = make(
                "spgl-shared" if name == "spgl-joint" else "spgl",
                epsilon=epsilon,
                threshold=threshold,
            )
            c = make(name, epsilon=epsilon, threshold=threshold)
            reference.update(contexts, values)
            c.update(contexts, values)
            far[epsilon] = c.distribution.kl(reference.distribution) / epsilon
        assert far[1e-5] < 0.02
        assert far[1e-5] < far[1e-3] + 1e-6


def test_spdl_and_its_sqp_solve_one_problem():
    rng = np.random.default_rng(1)
    contexts = INITIAL.sample(100, rng)
    values = 2.0 - 0.2 * contexts[:, 0] + 0.1 * rng.standard_normal(100)
    for threshold in (0.5, 10.0):
        slow, fast = (make(n, threshold=threshold) for n in ("spdl", "spdl-sqp"))
        first, second = slow.update(contexts, values), fast.update(contexts, values)
        assert first.accepted
        assert second.accepted
        assert first.step == second.step
        if first.step == "convergence":
            assert second.kl_target_reverse == pytest.approx(first.kl_target_reverse, rel=1e-2)
            assert second.kl_target_reverse <= first.kl_target_reverse * (1 + 1e-4)
        else:
            assert second.predicted_value >= first.predicted_value - 1e-4 * abs(
                first.predicted_value
            )


def test_collapse_stops_at_a_limit_instead_of_underflowing():
    c = curricula.make(
        "spgl",
        target=Gaussian([0.0], [1.0]),
        initial=Gaussian([0.0], [1.0]),
        epsilon=0.2,
        threshold=1e9,
    )
    # All contexts at the mean and worth something: each update narrows by the whole budget.
    for _ in range(400):
        record = c.update(np.repeat(c.distribution.mean[None], 5, axis=0), np.ones(5))
    assert record.case == "limit"
    assert not record.accepted
    assert 0 < c.theta[0] < 1e-99
    assert math.isfinite(record.kl_target_forward)


@pytest.mark.parametrize("name", curricula.names())
@pytest.mark.parametrize("level", [-1.0, 1.0])
def test_proposing_changes_nothing(name, level):
    c, rng = make(name, bounds=([-9.0, -9.0], [9.0, 9.0])), np.random.default_rng(0)

    def episodes():
        told = dict.fromkeys(c.reads | {"values"}, np.full(15, level))
        return curricula.Episodes(**{**told, "contexts": c.sample(15, rng)})

    c.update(episodes())
    attributes, state = dict(vars(c)), c.state_dict()
    proposal = c._propose_from(episodes())
    assert all(vars(c)[key] is value for key, value in attributes.items())
    assert len(vars(c)) == len(attributes)
    assert c.state_dict() == state
    # The base class installs by name, so a misspelt name would be a new attribute.
    assert set(proposal.state) <= set(attributes)


class Replay(Curriculum):
    """Keeps the contexts of the last updates; its distribution is fitted to them."""

    name = "replay"

    def __init__(self, **common):
        super().__init__(**common)
        self.buffer = np.zeros((0, self.dim))

    def _propose(self, contexts, values):
        buffer = np.concatenate([self.buffer, contexts])[-50:]
        p = Gaussian(buffer.mean(axis=0), buffer.var(axis=0))
        return Proposal("schedule", "refit", p, {"buffer": buffer})

    def _state(self):
        return {"buffer": self.buffer.tolist()}

    def _load_state(self, state):
        buffer = np.array(state["buffer"]).reshape(-1, self.dim)
        p = Gaussian(buffer.mean(axis=0), buffer.var(axis=0))
        return {"buffer": buffer, "_distribution": p}


def test_a_buffer_travels_in_the_proposal():
    c, rng = Replay(target=TARGET, initial=INITIAL), np.random.default_rng(0)
    feed(c, 1, rng)
    feed(c, 1, rng)
    assert c.buffer.shape == (50, 2)
    kept, p = c.buffer, c.distribution
    with pytest.raises(CurriculumError):
        # Fifty equal contexts have no spread: proposing fails, and nothing has changed.
        c.update(np.ones((50, 2)), np.ones(50))
    assert (c.buffer is kept, c.distribution is p, c.updates) == (True, True, 2)
    copy = Replay(target=TARGET, initial=INITIAL)
    copy.load_state_dict(c.state_dict())
    x = c.sample(9, rng)
    first, second = (k.update(x, np.ones(9)).to_dict() for k in (c, copy))
    assert all(first[key] == second[key] for key in first if not key.startswith("seconds"))
    assert c.state_dict() == copy.state_dict()


def test_malformed_state_changes_nothing():
    c, rng = make("spgl"), np.random.default_rng(0)
    feed(c, 1, rng)
    good = c.state_dict()
    for bad in (
        {**good, "mean": [1.0]},
        {**good, "theta": [1.0, -1.0]},
        {"name": "spgl", "dim": 2},
        {**good, "updates": "many"},
        {**good, "updates": float("inf")},
        {**good, "updates": -1},
        {**good, "theta": {}},
        None,
        [],
        "state",
    ):
        with pytest.raises(CurriculumError):
            c.load_state_dict(bad)
        assert c.state_dict() == good


def test_rows_of_the_coupling_matrix_sum_to_one():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 6))
    family = curricula.ScaledFamily(Gaussian(np.zeros(4), root @ root.T))
    np.testing.assert_allclose(family.coupling.sum(axis=1), 1.0, rtol=1e-9)
    assert np.linalg.eigvalsh(family.coupling).min() >= 1 - 1e-9
