"""What every registered learner must do; a new one is tested by being registered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.errors import UserError
from pacebench.harness.learners.clock import PHASES
from pacebench.harness.records import (
    DIAGNOSTIC_COLUMNS,
    EVALUATION_COLUMNS,
    UPDATE_COLUMNS,
    NoHooks,
    Status,
)
from pacebench.harness.runner.playing import Player
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from tests.harness.learners.test_batch_invariance import fingerprint
from tests.harness.training.cells import make_cell
from tests.harness.training.test_interruption import run_in_pieces

SEEDS = [RunSeed(root=4, index=i) for i in range(2)]
TINY: dict[str, dict[str, Any]] = {
    "sb3-sac": {"net_arch": [16], "batch_size": 32, "look_every": 130, "train_freq": 10},
}


def tiny_cell(learner: str, **changes: Any) -> Any:
    params = TINY.get(learner, {"net_arch": [16], "n_envs": 5, "n_steps": 120, "n_epochs": 1})
    settings: dict[str, Any] = {"budget": 1000, "steps": (500, 1000), "contexts": 5}
    changes["schedule"] = {"min_episodes": 4, **changes.get("schedule", {})}
    return make_cell(learner=learner, params=params, **{**settings, **changes})


@pytest.fixture(scope="module", params=learners.names())
def learner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_learner_trains_and_records(learner: str) -> None:
    hooks = NoHooks()
    global_streams = torch.get_rng_state().clone(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    results = train(tiny_cell(learner), SEEDS, hooks)
    assert [r.seed for r in results] == SEEDS
    assert hooks.results == results
    for result in results:
        assert result.status is Status.OK
        assert result.reason == ""
        assert result.env_steps >= 1000
        assert list(result.evaluations) == list(EVALUATION_COLUMNS)
        assert len({len(c) for c in result.evaluations.values()}) == 1
        assert set(UPDATE_COLUMNS) <= set(result.updates)
        assert len(result.updates["iteration"]) >= 1
        assert len({len(c) for c in result.updates.values()}) == 1
        json.dumps([result.evaluations, result.updates, result.extras], allow_nan=False)
        told = result.diagnostics
        assert list(told) == list(DIAGNOSTIC_COLUMNS)
        assert told["iteration"] == list(range(1, len(told["iteration"]) + 1))
        assert told["env_steps"][-1] == result.env_steps
        assert np.isfinite(told["value_loss"]).all()
        if learners.get(learner).capabilities.critic:
            assert np.isfinite([told["approx_kl"], told["entropy"]]).all()
            assert (np.array(told["explained_variance"]) <= 1).all()
        assert set(result.timings) == set(PHASES)
        assert all(seconds > 0 for seconds in result.timings.values())
        assert all(a.dtype == np.float32 for a in result.policy.values())
    assert fingerprint(results[0]) != fingerprint(results[1])
    again = train(tiny_cell(learner), SEEDS[1:])
    assert fingerprint(again[0]) == fingerprint(results[1])
    assert torch.equal(torch.get_rng_state(), global_streams[0])
    np.testing.assert_array_equal(np.random.get_state()[1], global_streams[1])  # type: ignore[index]  # noqa: NPY002


def test_a_stored_policy_acts_as_the_trained_one(learner: str) -> None:
    cell = tiny_cell(learner)
    result = train(cell, SEEDS[:1])[0]
    batch = envs.make_batch(cell.setup, 3, 0)
    obs = batch.reset(np.tile(batch.setup.initial_mean, (3, 1)))
    player = Player(cell, SEEDS[0], result.policy)
    actions = player(obs)
    assert actions.shape == (3, 2)
    np.testing.assert_array_equal(actions, Player(cell, SEEDS[0], result.policy)(obs))
    other = Player(cell, SEEDS[1], result.policy)
    np.testing.assert_array_equal(actions, other(obs), "the policy must be all in its arrays")
    noisy = Player(cell, SEEDS[0], result.policy, np.random.default_rng(0))
    assert not np.array_equal(noisy(obs), actions)
    low, high = batch.action_space.low, batch.action_space.high
    assert ((actions >= low) & (actions <= high)).all()


def test_an_interrupted_learner_ends_the_same(learner: str) -> None:
    cell = tiny_cell(learner, budget=1500, steps=(500, 1500))
    whole = {r.seed.index: fingerprint(r) for r in train(cell, SEEDS)}
    pieces = run_in_pieces(cell, SEEDS, [1, 1])
    assert {r.seed.index: fingerprint(r) for r in pieces.results} == whole


@pytest.fixture(scope="module")
def cart() -> Iterator[str]:
    """A setup with discrete actions."""
    setup = envs.from_gymnasium(
        "CartPole-v1",
        name="cart",
        context={"length": (0.3, 1.0), "force_mag": (5.0, 15.0)},
        target={"mean": [0.5, 10.0], "variance": [0.0025, 0.25]},
        initial={"mean": [0.6, 9.0], "variance": [0.01, 1.0]},
        threshold=30.0,
        horizon=60,
        gamma=0.95,
    )
    envs.register(setup)
    yield setup.name
    envs.unregister(setup.name)


def test_discrete_actions_where_a_learner_takes_them(learner: str, cart: str) -> None:
    cell = tiny_cell(learner, setup=cart, budget=1500, steps=(500, 1500))
    if not learners.get(learner).capabilities.discrete:
        with pytest.raises(UserError, match="has discrete actions, which learner"):
            train(cell, SEEDS[:1])
        return
    whole = {r.seed.index: fingerprint(r) for r in train(cell, SEEDS)}
    pieces = run_in_pieces(cell, SEEDS, [1, 1])
    assert {r.seed.index: fingerprint(r) for r in pieces.results} == whole
    found = pieces.results[0].evaluations
    assert set(found["policy"]) == {"deterministic", "stochastic"}
    assert max(found["length"]) <= 60


def test_what_a_learner_says_about_itself(learner: str) -> None:
    kind = learners.get(learner)
    assert kind.doc
    assert kind.name == learner
    for setup in envs.names():
        params = kind.Params.model_validate(kind.defaults(setup))
        assert params.gamma == envs.setup(setup).gamma  # type: ignore[attr-defined]
        assert kind.rollout_steps(params) >= kind.copies(params) >= 1
    with pytest.raises(ValueError, match="no_such"):
        kind.Params.model_validate({"no_such": 1})


def test_a_critic_where_there_is_one(learner: str) -> None:
    schedule = {"value_signal": "critic"}
    with pytest.raises(UserError, match="hides it"):
        train(tiny_cell(learner, setup="point-mass-1", schedule=schedule), SEEDS[:1])
    if not learners.get(learner).capabilities.critic:
        with pytest.raises(UserError, match="no critic"):
            train(tiny_cell(learner, schedule=schedule), SEEDS[:1])
        return
    (result,) = train(tiny_cell(learner, schedule=schedule), SEEDS[:1])
    assert np.isfinite(result.updates["mean_value"]).all()


def test_an_off_policy_learner_takes_the_steps_that_are_counted() -> None:
    with pytest.raises(ValueError, match="multiple of train_freq"):
        learners.SACParams(look_every=100, train_freq=30)
    from pacebench.harness.learners.sb3_agents import SACAgent

    steps = []
    iterate = SACAgent.iterate

    def counted(self: SACAgent, *args: Any) -> None:
        iterate(self, *args)
        steps.append(self.model.num_timesteps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SACAgent, "iterate", counted)
        (result,) = train(tiny_cell("sb3-sac"), SEEDS[:1])
    assert steps == [520, 1040]
    assert result.env_steps == 1040


def test_the_package_imports_without_a_tensor_library() -> None:
    script = (
        "import sys; from pacebench.harness import learners, training; learners.names(); "
        "learners.get('ppo').defaults('point-mass-2'); "
        "assert not {'torch', 'stable_baselines3', 'mujoco'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_outside_learner_can_be_registered() -> None:
    @learners.register("test-learner")
    class Mine(learners.PPO):
        doc = "A learner of one's own."

    try:
        assert "test-learner" in learners.names()
        (result,) = train(tiny_cell("test-learner"), SEEDS[:1])
        assert result.status is Status.OK
    finally:
        learners.unregister("test-learner")
    with pytest.raises(LookupError, match="did you mean 'ppo'"):
        learners.get("pppo")


def initialised(**params: Any) -> Any:
    from pacebench.harness.learners.batched.agents import BatchedPPO

    batch = envs.make_batch("point-mass-2", 1, 0)
    chosen = learners.PPOParams(**params)
    return BatchedPPO(chosen, batch.observation_space, batch.action_space, SEEDS)


@pytest.mark.parametrize(
    ("chosen", "gain"),
    [
        ("mlp_extractor.policy_net.0.weight", np.sqrt(2)),
        ("mlp_extractor.policy_net.2.weight", np.sqrt(2)),
        ("mlp_extractor.value_net.0.weight", np.sqrt(2)),
        ("mlp_extractor.value_net.2.weight", np.sqrt(2)),
        ("action_net.weight", 0.01),
        ("value_net.weight", 1.0),
    ],
)
def test_orthogonal_initialisation_has_stable_baselines3s_gains(chosen: str, gain: float) -> None:
    agents = initialised(log_std_init=0.7)
    arrays = agents.policy(1)
    for name, array in arrays.items():
        if name.endswith("bias"):
            assert not array.any()
    weight = arrays[chosen].astype(np.float64)
    # The shorter side is orthogonal.
    square = weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
    np.testing.assert_allclose(square, gain**2 * np.eye(len(square)), atol=1e-5)
    np.testing.assert_allclose(arrays["log_std"], 0.7)
    assert not np.array_equal(weight, agents.policy(0)[chosen])


def test_without_orthogonal_initialisation_it_is_pytorchs_default() -> None:
    """Uniform up to 1/√inputs, weights and biases alike, in every layer."""
    arrays = initialised(ortho_init=False, net_arch=(256, 256)).policy(0)
    for name, weight in arrays.items():
        if not name.endswith("weight"):
            continue
        bound = 1 / np.sqrt(weight.shape[1])
        for array in (weight, arrays[name.replace("weight", "bias")]):
            assert np.abs(array).max() <= bound
            assert array.any()
        if weight.size > 1000:
            assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
