"""Every registered setup, and every example of one, holds to what `pacebench verify` asks."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import pytest

from docs.examples import cartpole, hopper, obstacles, pendulum
from pacebench import envs
from pacebench.harness.verify.conformance import Requirement, outcome
from pacebench.harness.verify.setups import SETUP_REQUIREMENTS, verify_setup

EXAMPLES = {spec.name: spec for spec in (pendulum.SETUP, cartpole.SETUP, hopper.SETUP)}
if find_spec("minigrid") is not None:
    EXAMPLES["obstacles"] = obstacles.SETUP
SUBJECTS: dict[str, Any] = {**{name: name for name in envs.names()}, **EXAMPLES}


@pytest.mark.parametrize("asked", SETUP_REQUIREMENTS, ids=lambda asked: asked.name)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_setup(subject: str, asked: Requirement[envs.Setup]) -> None:
    setup = envs.setup(SUBJECTS[subject])
    if asked.applies(setup):
        found = outcome(asked, setup)
        assert found.held, f"{found.message}\n{found.counterexample}"


def test_our_setups_have_measured_anchors(name: str) -> None:
    anchors = envs.setup(name).anchors
    assert anchors is not None, f"run: pacebench anchors {name} --write"
    assert anchors.episodes >= 1000
    assert name in anchors.command


@pytest.mark.parametrize(
    ("gymnasium_id", "name"),
    [
        ("pacebench/PointMass-v0", "point-mass-1"),
        ("pacebench/LunarLander-v0", "lunar-lander"),
        ("pacebench/BallCatching-v0", "ball-catching"),
        ("pacebench/SparseMaze-v0", "sparse-maze"),
    ],
)
def test_gymnasium_makes_it_by_its_id(gymnasium_id: str, name: str) -> None:
    context = envs.setup(name).initial_mean
    env = gymnasium.make(gymnasium_id, setup=name)
    obs, info = env.reset(seed=3, options={"context": context})
    expected, _ = envs.make(name).reset(seed=3, options={"context": context})
    assert np.array_equal(obs, expected)
    assert np.array_equal(info["context"], context)
    other = "ball-catching" if name != "ball-catching" else "lunar-lander"
    with pytest.raises(envs.SetupError, match="use the Gymnasium id of that environment"):
        gymnasium.make(gymnasium_id, setup=other)


# Environments that break one promise each: the suite must say so.
class Deaf(gymnasium.Env[Any, Any]):
    """Takes its context but does not let it act."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    push = 0.0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.random(1).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, dtype=np.float32), 0.0, False, False, {}


class Unseeded(Deaf):
    """Draws from NumPy's global state."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.array([np.random.rand()], dtype=np.float32), {}  # noqa: NPY002


class Leaking(Deaf):
    """Keeps the context of all instances in one place."""

    shared = np.zeros(1)

    def step(self, action: Any) -> Any:
        return self.shared.astype(np.float32), float(self.shared[0]), False, False, {}


def set_shared(env: Any, context: dict[str, float]) -> None:
    env.shared[0] = context["push"]


def adapted(environment: Any, **changes: Any) -> envs.Setup:
    given: dict[str, Any] = {
        "name": "broken",
        "context": {"push": (-1.0, 1.0)},
        "target": {"mean": [0.5], "variance": [0.01]},
        "threshold": 0.0,
        "horizon": 20,
        "visible": False,
    }
    return envs.from_gymnasium(environment, **{**given, **changes})


@pytest.mark.parametrize(
    ("setup", "broken"),
    [
        (adapted(Deaf), {"context-acts"}),
        (adapted(Unseeded), {"determinism", "batch-equals-single", "copies-independent"}),
        (adapted(Leaking, apply=set_shared), {"no-leaks"}),
    ],
    ids=["deaf", "unseeded", "leaking"],
)
def test_a_setup_that_breaks_a_promise_is_found_out(setup: envs.Setup, broken: set[str]) -> None:
    found = {o.property for o in verify_setup(setup) if not o.held}
    assert broken <= found


def test_anchors_that_are_too_near_are_found_out() -> None:
    ends = envs.PolicyScore("random", 0.0, 1.0), envs.PolicyScore("reference", 5.0, 1.0)
    near = envs.Anchors(*ends, episodes=9, seed=0, command="here", version="")
    found = {
        o.property: o.held for o in verify_setup(dataclasses.replace(pendulum.SETUP, anchors=near))
    }
    assert not found["anchors"]
    assert found["determinism"]
