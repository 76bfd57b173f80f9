"""Lunar Lander is Gymnasium's, with the context on the instance and nothing on the module."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.envs.box2d import lunar_lander as module

from pacebench import envs
from tests.envs.conftest import contexts_of, random_actions

CONTEXT = np.array([-9.3, 12.0, 1.2])


def test_physics_are_those_of_gymnasium() -> None:
    theirs = gymnasium.make(
        "LunarLander-v3",
        continuous=True,
        enable_wind=True,
        gravity=CONTEXT[0],
        wind_power=CONTEXT[1],
        turbulence_power=CONTEXT[2],
    )
    ours = envs.make("lunar-lander")
    obs, _ = ours.reset(seed=12, options={"context": CONTEXT})
    expected, _ = theirs.reset(seed=12)
    assert np.array_equal(obs, expected)
    for action in random_actions("lunar-lander", 400, 1, 0)[:, 0]:
        obs, reward, terminated, truncated, _ = ours.step(action)
        expected, expected_reward, their_end, their_cut, _ = theirs.step(action)
        assert np.array_equal(obs, expected)
        assert reward == expected_reward
        assert (terminated, truncated) == (their_end, their_cut)
        if terminated:
            return
    raise AssertionError("the episode should have ended")


def test_the_context_is_in_the_world_of_each_copy() -> None:
    batch = envs.make_batch("lunar-lander", 3, 0)
    contexts = contexts_of(batch.setup, 3, 0, "target")
    for _ in range(2):
        batch.reset(contexts)
        for lander, context in zip(batch._landers, batch.clipped_context, strict=True):
            assert np.isclose(lander.world.gravity[1], context[0])
            assert (lander.wind_power, lander.turbulence_power) == tuple(context[1:])
        contexts = contexts[::-1]


def test_gymnasium_is_left_as_it_was() -> None:
    def constants() -> dict[str, object]:
        plain = (int, float, str, tuple, list)
        return {k: v for k, v in vars(module).items() if isinstance(v, plain)}

    def gymnasiums_own() -> np.ndarray:
        env = gymnasium.make("LunarLander-v3", continuous=True)
        env.reset(seed=1)
        return np.array([env.step(np.array([0.3, 0.1]))[0] for _ in range(50)])

    before, own = constants(), gymnasiums_own()
    batch = envs.make_batch("lunar-lander", 4, 0, lambda i: np.tile(CONTEXT, (len(i), 1)))
    batch.reset()
    for actions in random_actions("lunar-lander", 100, 4, 0):
        batch.step(actions)
    assert constants() == before
    assert np.array_equal(gymnasiums_own(), own)


def test_success_is_a_landing_between_the_flags() -> None:
    """The heuristic produces all endings: on the pad, beside it, crashed, flown away."""
    setup = envs.setup("lunar-lander")
    rng = np.random.default_rng(0)
    copies = 24
    batch = envs.make_batch(
        setup, copies, 0, lambda i: rng.normal(setup.target_mean, 1.0, (len(i), 3))
    )
    batch.reset()
    endings = {"pad": 0, "beside": 0, "crash": 0}
    for _ in range(700):
        _, reward, terminated, _, info = batch.step(batch.actions("reference"))
        for i in np.flatnonzero(terminated):
            at_rest, x = reward[i] == 100, info["final_obs"][i, 0]
            assert at_rest or reward[i] == -100
            expected = bool(at_rest and abs(x) <= 0.2)
            assert info["success"][i] == expected
            endings["crash" if not at_rest else "pad" if expected else "beside"] += 1
    assert min(endings.values()) >= 2, endings
