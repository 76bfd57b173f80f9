"""What every registered learner must do; a new one is tested by being registered."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.records import Status
from pacebench.harness.seeding import RunSeed
from pacebench.harness.training import train
from pacebench.harness.verify.conformance import Requirement, outcome
from pacebench.harness.verify.learners import LEARNER_REQUIREMENTS, LearnerSubject, verify_learner
from tests.harness.training.cells import make_cell

SEEDS = [RunSeed(root=4, index=i) for i in range(2)]
SMALL: dict[str, Any] = {"net_arch": [16], "n_envs": 5, "n_steps": 120, "n_epochs": 1}
TINY: dict[str, dict[str, Any]] = {
    "sb3-sac": {"net_arch": [16], "batch_size": 32, "look_every": 130, "train_freq": 10},
}


def tiny_cell(learner: str, **changes: Any) -> Any:
    params = TINY.get(learner, SMALL)
    settings: dict[str, Any] = {"budget": 1000, "steps": (500, 1000), "contexts": 5}
    changes["schedule"] = {"min_episodes": 4, **changes.get("schedule", {})}
    return make_cell(learner=learner, params=params, **{**settings, **changes})


@pytest.fixture(scope="module", params=learners.names())
def learner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def subject(learner: str) -> LearnerSubject:
    """Shares its training between the requirements."""
    return LearnerSubject(learner, TINY.get(learner, SMALL))


@pytest.mark.parametrize("asked", LEARNER_REQUIREMENTS, ids=lambda asked: asked.name)
def test_learner(subject: LearnerSubject, asked: Requirement[LearnerSubject]) -> None:
    found = outcome(asked, subject)
    assert found.held, f"{found.message}\n{found.counterexample}"


def test_a_learner_that_breaks_a_promise_is_found_out() -> None:
    @learners.register("test-broken")
    class Broken(learners.PPO):
        doc = "Initialises its weights from the clock."

        @classmethod
        def build(cls, params: Any, obs: Any, actions: Any, seeds: Any) -> Any:
            shifted = [RunSeed(root=time.perf_counter_ns(), index=s.index) for s in seeds]
            return super().build(params, obs, actions, shifted)

    try:
        found = {o.property: o.held for o in verify_learner("test-broken", SMALL)}
    finally:
        learners.unregister("test-broken")
    assert not found["determinism"]
    assert found["records"]


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


def test_stable_baselines3_leaves_nothing_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (result,) = train(tiny_cell("sb3-ppo", budget=600, steps=(600,)), SEEDS[:1])
    assert result.status is Status.OK
    assert np.isfinite(result.diagnostics["value_loss"]).all(), "its log is read all the same"
    assert not list(tmp_path.glob("SB3-*"))


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
