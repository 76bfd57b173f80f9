"""A plain Gymnasium environment becomes a setup: every way of a context, and every mistake."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from docs.examples import cartpole, hopper, pendulum
from pacebench import envs
from pacebench.envs.from_gymnasium import probe


class Drift(gymnasium.Env[Any, Any]):
    """Moves by the action and a push, which comes in every way that an environment may take it."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, push: float = 0.0, kind: str = "box", render_mode: Any = None) -> None:
        self.push, self.at, self.asked = push, 0.0, {}
        self.sizes = np.zeros(2)
        self.action_space = spaces.Box(-1.0, 1.0, (1, 1))
        inner = spaces.Box(-np.inf, np.inf, (1, 2))
        self.observation_space = (
            spaces.Dict({"where": inner, "flag": spaces.Discrete(3)}) if kind == "dict" else inner
        )

    def _obs(self) -> Any:
        where = np.array([[self.at, self.push]], dtype=np.float32)
        return (
            {"where": where, "flag": 1}
            if isinstance(self.observation_space, spaces.Dict)
            else where
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.asked = dict(options or {})
        self.push = self.asked.get("push", self.push)
        self.at = float(self.np_random.random())
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.at += float(action[0, 0]) + self.push
        info = {"won": self.at > 3}
        return self._obs(), self.at, self.at > 5, self.at < -5, info


class Stubborn(Drift):
    def reset(self, **given: Any) -> Any:
        self.push = 0.0
        return super().reset(**given)


class Classwide(Drift):
    table = np.zeros(2)


def push(env: Any, context: dict[str, float]) -> None:
    env.push = context["push"]


def far(env: Any, info: dict[str, Any]) -> bool:
    return bool(env.at > 4)


def drift(**changes: Any) -> envs.Setup:
    given: dict[str, Any] = {
        "environment": Drift,
        "name": "drift",
        "context": {"push": (-1.0, 1.0)},
        "target": {"mean": [0.5], "variance": {"push": 0.01}},
        "threshold": 1.0,
        "horizon": 12,
        "visible": False,
    }
    given |= changes
    return envs.from_gymnasium(given.pop("environment"), **given)


@pytest.mark.parametrize("apply", ["attributes", "options", "constructor", push])
def test_every_way_a_context_reaches_the_environment_is_the_same(apply: Any) -> None:
    setup = drift(apply=apply)
    contexts = np.array([[0.25], [-0.5], [1.0]])
    batch = envs.make_batch(setup, 3, 0, lambda i: contexts[i])
    obs = batch.reset()
    assert obs[:, 1] == pytest.approx(contexts[:, 0])
    for _ in range(30):
        before = obs[:, 0].copy()
        actions = np.full((3, 1), 0.1)
        obs, _, terminated, truncated, info = batch.step(actions)
        moved = info["final_obs"][:, 0] - before
        assert moved == pytest.approx(0.1 + contexts[:, 0], abs=1e-6)
        assert np.array_equal(info["clipped_context"], contexts)
        # The environment's own truncation counts, and comes before the horizon.
        assert np.array_equal(truncated, ~terminated & ((info["elapsed"] == 12) | (before < -4.6)))


def test_observations_of_any_shape_are_flattened() -> None:
    batch = envs.make_batch(drift(keywords={"kind": "dict"}), 2, 0)
    obs = batch.reset([[0.5], [-0.5]])
    assert batch.observation_space.shape == (5,)
    assert obs[:, :3].tolist() == [[0.0, 1.0, 0.0]] * 2
    assert obs[:, 4] == pytest.approx([0.5, -0.5])
    obs, *_ = batch.step([[0.0], [0.0]])
    assert obs.dtype == np.float64


@pytest.mark.parametrize(
    ("success", "expected"),
    [(None, False), ({"info": "won"}, True), ({"return": 10.0}, True), ({"return": 1e3}, False)],
)
def test_success_is_what_was_declared(success: Any, expected: bool) -> None:
    batch = envs.make_batch(drift(success=success), 1, 0)
    batch.reset([[1.0]])
    over = False
    while not over:
        *_, terminated, truncated, info = batch.step([[0.5]])
        over = terminated[0] or truncated[0]
    assert info["success"][0] == expected


def test_a_success_function_is_asked_at_the_end() -> None:
    setup = drift(success=far)
    assert "far says so" in setup.success
    batch = envs.make_batch(setup, 2, 0, lambda i: np.ones((len(i), 1)))
    batch.reset([[1.0], [-0.3]])
    seen = []
    for _ in range(12):
        *_, terminated, truncated, info = batch.step([[0.5], [0.0]])
        seen += [(int(i), bool(info["success"][i])) for i in np.flatnonzero(terminated | truncated)]
    assert (0, True) in seen
    assert (1, False) in seen


def test_worker_processes_do_the_same() -> None:
    contexts = np.linspace(-1, 1, 5)[:, None]
    here, there = (
        envs.make_batch(drift(success={"info": "won"}, processes=p), 5, 3, lambda i: contexts[i])
        for p in (0, 2)
    )
    try:
        assert np.array_equal(here.reset(), there.reset())
        rng = np.random.default_rng(0)
        for step in range(25):
            actions = here.actions("random", rng)
            ours, theirs = here.step(actions), there.step(actions)
            assert all(map(np.array_equal, ours[:4], theirs[:4]))
            assert np.array_equal(ours[4]["success"], theirs[4]["success"])
            if step == 12:
                here.reset(contexts[[3, 1]], indices=[3, 1])
                there.reset(contexts[[3, 1]], indices=[3, 1])
    finally:
        there.close()


def test_a_setup_survives_json_with_all_it_says() -> None:
    for spec in (pendulum.SETUP, cartpole.SETUP, hopper.SETUP, drift(keywords={"kind": "dict"})):
        again = envs.Setup.from_dict(json.loads(json.dumps(spec.to_dict())))
        assert again == spec
        assert hash(again) == hash(spec)


def test_the_physics_are_those_of_the_environment() -> None:
    """Hopper with a heavier torso, beside Gymnasium's own with its model changed by hand."""
    context = np.array([6.0, 1.3])
    batch = envs.make_batch(dataclasses.replace(hopper.SETUP, visible=False), 1, 7)
    theirs = gymnasium.make("Hopper-v5")
    model = theirs.unwrapped.model  # type: ignore[attr-defined]
    model.body_mass[1], model.geom_friction[4, 0] = context
    stream = np.random.default_rng(np.random.SeedSequence(7).spawn(1)[0])
    seed = int(stream.integers(2**31 - 1))
    obs = batch.reset(context[None])
    expected, _ = theirs.reset(seed=seed)
    assert np.array_equal(obs[0], expected)
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.uniform(-1, 1, 3).astype(np.float32)
        obs, reward, terminated, *_ = batch.step(action[None])
        expected, their_reward, their_end, _, _ = theirs.step(action)
        assert np.array_equal(obs[0], expected)
        assert (reward[0], terminated[0]) == (their_reward, their_end)
        if their_end:
            return


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"environment": "Pendulm-v1"}, "Pendulm"),
        ({"environment": "nowhere_at_all:Thing"}, "cannot be imported"),
        ({"environment": lambda: Drift()}, "cannot be imported by worker processes"),
        ({"context": {}}, "'context' is empty"),
        ({"context": {"push": 3}}, "its lowest and highest value"),
        ({"context": {"push": (1.0, -1.0)}}, "'lower' must be below 'upper'"),
        (
            {"context": {"psh": (-1.0, 1.0)}, "target": {"mean": [0], "variance": [1]}},
            "did you mean 'push'",
        ),
        (
            {"context": {"push[": (-1.0, 1.0)}, "target": {"mean": [0], "variance": [1]}},
            "is no attribute",
        ),
        (
            {
                "context": {"p": {"bounds": (0, 1), "at": "sizes[7]"}},
                "target": {"mean": [0], "variance": [1]},
            },
            "cannot be indexed",
        ),
        ({"environment": Stubborn}, "back to 0 when it is reset"),
        (
            {
                "environment": Classwide,
                "context": {"p": {"bounds": (0, 1), "at": "table[1]"}},
                "target": {"mean": [0], "variance": [1]},
            },
            "would leak",
        ),
        ({"apply": "atributes"}, "'apply' must be one of"),
        ({"apply": "nowhere_at_all:f"}, "cannot be imported"),
        (
            {
                "apply": "constructor",
                "context": {"psh": (0, 1)},
                "target": {"mean": [0], "variance": [1]},
            },
            "unexpected keyword",
        ),
        ({"target": {"mean": [0.5]}}, "needs 'mean' and 'variance'"),
        ({"target": {"mean": [0.5], "variance": [0.0]}}, "must be positive"),
        ({"target": {"mean": {"pull": 1}, "variance": [1.0]}}, "must name each of push"),
        ({"target": {"kind": "gauss"}}, "'kind' must be one of"),
        ({"target": {"kind": "uniform", "low": [0], "upper": [1]}}, "is given by lower, upper"),
        (
            {"target": {"kind": "sampler", "function": "a:b"}},
            "needs 'mean' and 'variance' beside it",
        ),
        ({"success": {"won": True}}, "'success' must be one of"),
        ({"success": {"return": "much"}}, "needs a number"),
        ({"horizon": None}, "give 'horizon'"),
        ({"horizon": 0}, "at least one step"),
        ({"gamma": 0.0}, "'gamma' must be in"),
        ({"keywords": {"speed": 1}}, "unexpected keyword"),
    ],
)
def test_mistakes_get_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(envs.SetupError, match=r".") as caught:
        probe(drift(**changes))
    assert sentence in str(caught.value)


class Odd(Drift):
    def __init__(self, which: str) -> None:
        super().__init__()
        if which == "binary":
            self.action_space = spaces.MultiBinary(3)  # type: ignore[assignment]
        elif which == "unbounded":
            self.action_space = spaces.Box(-np.inf, np.inf, (1,))
        else:
            self.observation_space = spaces.Sequence(spaces.Discrete(2))  # type: ignore[assignment]


@pytest.mark.parametrize("which", ["binary", "unbounded", "sequence"])
def test_spaces_that_cannot_be_adapted_are_named(which: str) -> None:
    sentence = "cannot be flattened" if which == "sequence" else "neither discrete nor"
    with pytest.raises(envs.SetupError, match=sentence):
        probe(drift(environment=Odd, keywords={"which": which}))
