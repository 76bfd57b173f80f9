"""What every registered setup must hold to; a new one is tested by being registered."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.random import SeedSequence

from pacebench import envs
from tests.envs.conftest import (
    contexts_of,
    play_batch,
    play_single,
    random_actions,
    shortened,
)

N = 5


def test_gymnasium_accepts_the_environment(name: str) -> None:
    with warnings.catch_warnings():
        # Gymnasium warns of unbounded observations and of actions that are not scaled to ±1; both
        # are what these tasks are.
        warnings.simplefilter("ignore")
        check_env(envs.make(name), skip_render_check=True)


def test_gymnasium_makes_it_by_its_id(name: str) -> None:
    ids = {
        "point-mass": "pacebench/PointMass-v0",
        "lunar-lander": "pacebench/LunarLander-v0",
        "ball-catching": "pacebench/BallCatching-v0",
    }
    environment = envs.setup(name).environment
    if environment not in ids:
        pytest.skip(f"{environment} comes from outside and has no Gymnasium id of ours")
    env = gymnasium.make(ids[environment], setup=name)
    context = envs.setup(name).initial_mean
    obs, info = env.reset(seed=3, options={"context": context})
    expected, _ = envs.make(name).reset(seed=3, options={"context": context})
    assert np.array_equal(obs, expected)
    assert np.array_equal(info["context"], context)
    others = [other for key, other in ids.items() if key != environment]
    with pytest.raises(envs.SetupError, match="use the Gymnasium id of that environment"):
        gymnasium.make(others[0], setup=name)


def test_same_seed_and_actions_give_the_same_trajectory(name: str) -> None:
    setup = envs.setup(name)
    contexts, actions = contexts_of(setup, 4, 1), random_actions(name, 150, 1, 2)[:, 0]
    once = play_single(name, 5, contexts, actions)
    assert once.same_as(play_single(name, 5, contexts, actions))
    assert not once.same_as(play_single(name, 6, contexts, actions))


def test_seed_zero_is_a_seed(name: str) -> None:
    contexts, actions = contexts_of(envs.setup(name), 2, 1), random_actions(name, 20, 1, 2)[:, 0]
    assert play_single(name, 0, contexts, actions).same_as(play_single(name, 0, contexts, actions))


@pytest.mark.parametrize("horizon", [7, None])
def test_batch_equals_single_environments_bit_for_bit(name: str, horizon: int | None) -> None:
    """Through auto-resets, terminal observations and truncations (every 7 steps, or the real)."""
    setup = envs.setup(name) if horizon is None else shortened(name, horizon)
    steps = min(setup.horizon + 50, 260)
    contexts = np.stack([contexts_of(setup, 12, seed) for seed in range(N)])
    actions = 0.3 * random_actions(name, steps, N, 3)
    batched = play_batch(setup, 11, contexts, actions)
    resets = 0
    for i, child in enumerate(SeedSequence(11).spawn(N)):
        single = play_single(setup, child, contexts[i], actions[:, i])
        assert batched[i].same_as(single), f"copy {i} differs from the single environment"
        resets += sum(terminated or truncated for _, terminated, truncated, *_ in single.steps)
    assert resets >= 3, "too few episodes ended for the test to have seen auto-resets"


def test_copies_do_not_depend_on_their_number(name: str) -> None:
    setup = shortened(name, 25)
    contexts = np.stack([contexts_of(setup, 6, seed) for seed in range(N)])
    actions = random_actions(name, 60, N, 3)
    full = play_batch(setup, 11, contexts, actions)
    children = SeedSequence(11).spawn(N)
    part = play_batch(setup, [children[3], children[1]], contexts[[3, 1]], actions[:, [3, 1]])
    assert part[0].same_as(full[3])
    assert part[1].same_as(full[1])


def test_integer_seeds_per_copy_are_those_of_single_environments(name: str) -> None:
    contexts = np.stack([contexts_of(envs.setup(name), 3, seed) for seed in range(2)])
    actions = random_actions(name, 30, 2, 3)
    batched = play_batch(name, [8, 0], contexts, actions)
    for i, seed in enumerate((8, 0)):
        assert batched[i].same_as(play_single(name, seed, contexts[i], actions[:, i]))


def test_a_seed_sequence_is_not_used_up(name: str) -> None:
    seed = SeedSequence(4)
    contexts = contexts_of(envs.setup(name), 2, 0)
    first = envs.make_batch(name, 2, seed).reset(contexts)
    again = envs.make_batch(name, 2, seed).reset(contexts)
    assert np.array_equal(first, again)
    assert seed.n_children_spawned == 0


def test_every_context_dimension_reaches_the_physics(name: str) -> None:
    """The physics, not just the observed context: same seed, same actions, other trajectory."""
    setup = replace(envs.setup(name), visible=False)
    for dimension, label in enumerate(setup.context_names):
        pair = np.tile(setup.target_mean, (2, 1))
        pair[:, dimension] = setup.lower[dimension], setup.upper[dimension]
        seen = []
        for leader in range(2):
            actions = _recorded_actions(setup, pair[leader])
            low, high = (play_single(setup, 2, c[None], actions) for c in pair)
            seen.append(low.final_obs[-1].tolist() == high.final_obs[-1].tolist())
        assert not all(seen), f"{label} changes nothing"


def _recorded_actions(setup: envs.Setup, context: np.ndarray) -> np.ndarray:
    batch = envs.make_batch(setup, 1, [2], lambda _: context[None])
    batch.reset()
    actions = []
    for _ in range(min(setup.horizon, 100)):
        actions.append(batch.actions("reference")[0])
        batch.step(actions[-1][None])
    return np.array(actions)


def test_contexts_do_not_leak_between_instances(name: str) -> None:
    setup = envs.setup(name)
    contexts = np.array([setup.initial_mean, setup.target_mean])
    actions = random_actions(name, 60, 2, 4)
    alone = [play_single(name, i, contexts[i : i + 1], actions[:, i]) for i in range(2)]
    # The same, but with both instances alive and stepped in turn.
    pair = [envs.make(name) for _ in range(2)]
    for i, env in enumerate(pair):
        env.reset(seed=i, options={"context": contexts[i]})
    for t in range(60):
        for i, env in enumerate(pair):
            obs, reward, terminated, truncated, _ = env.step(actions[t, i])
            assert np.array_equal(obs, alone[i].final_obs[t])
            assert reward == alone[i].steps[t][0]
            if terminated or truncated:
                env.reset(options={"context": contexts[i]})


def test_contexts_do_not_leak_between_episodes(name: str) -> None:
    setup = envs.setup(name)
    first, second = np.array([setup.target_mean]), np.array([setup.initial_mean])
    actions = random_actions(name, 60, 1, 4)[:, 0]
    env = envs.make(name)
    play_single(name, 1, first, actions, env)
    after = play_single(name, 2, second, actions, env)
    assert after.same_as(play_single(name, 2, second, actions))


def test_contexts_are_clipped_and_both_are_recorded(name: str) -> None:
    setup = envs.setup(name)
    width = np.subtract(setup.upper, setup.lower)
    outside, inside = np.add(setup.upper, width), np.array(setup.upper)
    actions = random_actions(name, 30, 1, 4)[:, 0]
    env = envs.make(name)
    _, info = env.reset(seed=1, options={"context": outside})
    assert np.array_equal(info["context"], outside)
    assert np.array_equal(info["clipped_context"], inside)
    far = play_single(name, 1, outside[None], actions)
    near = play_single(name, 1, inside[None], actions)
    d = setup.dim
    assert [s[:5] for s in far.steps] == [s[:5] for s in near.steps]
    assert np.array_equal(far.final_obs, near.final_obs)
    assert all(s[5 : 5 + d] == tuple(outside) and s[5 + d :] == tuple(inside) for s in far.steps)


def test_visible_contexts_are_observed_scaled_and_hidden_ones_are_not(name: str) -> None:
    setup = envs.setup(name)
    middle = 0.5 * np.add(setup.lower, setup.upper)
    rows = np.array([setup.lower, middle, setup.upper])
    physics = envs.environment(name).physics_space.shape[0]
    batch = envs.make_batch(name, 3, 0)
    obs = batch.reset(rows)
    assert obs.shape == (3, physics + (setup.dim if setup.visible else 0))
    if setup.visible:
        assert np.allclose(obs[:, physics:], [[-1] * setup.dim, [0] * setup.dim, [1] * setup.dim])
        later, *_ = batch.step(random_actions(name, 1, 3, 0)[0])
        assert np.array_equal(later[:, physics:], obs[:, physics:])


def test_observations_stay_in_their_space(name: str) -> None:
    setup = envs.setup(name)
    contexts = contexts_of(setup, 3, 0, "target")
    batch = envs.make_batch(name, 3, 0, lambda i: contexts[i])
    assert batch.reset().dtype == np.float64
    for actions in random_actions(name, 150, 3, 5):
        obs, reward, terminated, truncated, info = batch.step(actions)
        assert obs.dtype == reward.dtype == np.float64
        assert terminated.dtype == truncated.dtype == info["success"].dtype == np.bool_
        for row in (*obs, *info["final_obs"]):
            assert batch.observation_space.contains(row)


def test_actions_are_clipped_to_their_space(name: str) -> None:
    contexts = contexts_of(envs.setup(name), 1, 0)
    box = envs.environment(name).action_box
    beyond = np.tile(box.high * 3, (10, 1))
    within = np.tile(box.high, (10, 1))
    assert play_single(name, 1, contexts, beyond).same_as(play_single(name, 1, contexts, within))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_contexts_that_are_not_finite_are_refused(name: str, bad: float) -> None:
    setup = envs.setup(name)
    context = np.array(setup.target_mean)
    context[-1] = bad
    with pytest.raises(envs.SetupError, match="not finite"):
        envs.make(name).reset(seed=0, options={"context": context})
    with pytest.raises(envs.SetupError, match=r"contexts 1 of .* are not finite"):
        envs.make_batch(name, 2, 0).reset([setup.target_mean, context])


def test_contexts_of_the_wrong_shape_are_refused(name: str) -> None:
    setup = envs.setup(name)
    batch = envs.make_batch(name, 2, 0)
    for wrong in (np.zeros((2, setup.dim + 1)), np.zeros((1, setup.dim)), np.zeros(setup.dim), 0.0):
        with pytest.raises(envs.SetupError, match="must have shape"):
            batch.reset(wrong)
    with pytest.raises(envs.SetupError, match="must be numbers"):
        batch.reset([["a"] * setup.dim] * 2)
    for wrong in (np.zeros(setup.dim + 1), np.zeros((1, setup.dim)), 0.0):
        with pytest.raises(envs.SetupError, match="must have shape"):
            envs.make(name).reset(seed=0, options={"context": wrong})
    with pytest.raises(envs.SetupError, match="unknown reset option 'contxt'"):
        envs.make(name).reset(seed=0, options={"contxt": setup.target_mean})
    with pytest.raises(envs.SetupError, match="reset needs contexts"):
        batch.reset()


def test_bad_actions_are_refused_and_change_nothing(name: str) -> None:
    setup = envs.setup(name)
    contexts = contexts_of(setup, 2, 0)
    actions = random_actions(name, 5, 2, 0)
    reference, batch = (envs.make_batch(name, 2, 0) for _ in range(2))
    reference.reset(contexts)
    batch.reset(contexts)
    nan = actions[0].copy()
    nan[1, 0] = np.nan
    for step in actions:
        with pytest.raises(envs.SetupError, match="actions of copies 1 are not finite"):
            batch.step(nan)
        with pytest.raises(envs.SetupError, match="must have shape"):
            batch.step(step[:1])
        with pytest.raises(envs.SetupError, match="must have shape"):
            batch.step(step[:, :1])
        expected, *_ = reference.step(step)
        obs, *_ = batch.step(step)
        assert np.array_equal(obs, expected)


def test_steps_before_reset_and_after_the_end_are_refused(name: str) -> None:
    setup = shortened(name, 1)
    batch = envs.make_batch(setup, 3, 0)
    actions = random_actions(name, 1, 3, 0)[0]
    with pytest.raises(envs.SetupError, match="copies 0, 1, 2 must be reset"):
        batch.step(actions)
    contexts = contexts_of(setup, 3, 0)
    batch.reset(contexts)
    batch.step(actions)
    batch.reset(contexts[[2, 0]], indices=[2, 0])
    with pytest.raises(envs.SetupError, match="copies 1 must be reset"):
        batch.step(actions)
    batch.reset(contexts[[1]], indices=[1])
    *_, info = batch.step(actions)
    assert np.array_equal(info["context"], contexts)
    for wrong in ([3], [-1], [0, 0], [0.5], [[0]]):
        with pytest.raises(envs.SetupError, match="indices"):
            batch.reset(contexts[:1], indices=wrong)


def test_partial_reset_leaves_the_others_alone(name: str) -> None:
    setup = envs.setup(name)
    contexts = contexts_of(setup, 2, 0)
    actions = 0.1 * random_actions(name, 10, 2, 0)
    whole, part = (envs.make_batch(name, 2, 0) for _ in range(2))
    whole.reset(contexts)
    part.reset(contexts)
    for t in range(10):
        if t == 4:
            returned = part.reset(contexts[[0]], indices=[0])
            assert returned.shape == (1, *part.observation_space.shape)
        expected, *_ = whole.step(actions[t])
        obs, *_, info = part.step(actions[t])
        assert np.array_equal(obs[1], expected[1])
    assert info["elapsed"].tolist() == [6, 10]


def test_the_context_source_is_asked_once_per_step_in_ascending_order(name: str) -> None:
    setup = shortened(name, 6)
    calls: list[list[int]] = []

    def source(indices: np.ndarray) -> np.ndarray:
        calls.append(indices.tolist())
        return np.tile(setup.initial_mean, (len(indices), 1))

    batch = envs.make_batch(setup, 4, 0, source)
    batch.reset()
    assert calls == [[0, 1, 2, 3]]
    batch.reset(np.tile(setup.initial_mean, (2, 1)), indices=[3, 1])
    assert len(calls) == 1, "given contexts, the source is not asked"
    for actions in 0.1 * random_actions(name, 30, 4, 0):
        before = len(calls)
        _, _, terminated, truncated, info = batch.step(actions)
        over = np.flatnonzero(terminated | truncated).tolist()
        assert calls[before:] == ([over] if over else [])
        assert (info["elapsed"][over] <= 6).all()
        assert (batch.elapsed[over] == 0).all()
    assert len(calls) >= 5


def test_what_a_step_returned_does_not_change_later(name: str) -> None:
    setup = shortened(name, 4)
    contexts = np.random.default_rng(0).normal(setup.initial_mean, 0.01, (40, 2, setup.dim))
    draws = iter(contexts)
    batch = envs.make_batch(setup, 2, 0, lambda i: next(draws)[i])
    kept, copies = [], []
    batch.reset()
    for actions in random_actions(name, 12, 2, 0):
        obs, reward, terminated, truncated, info = batch.step(actions)
        arrays = [obs, reward, terminated, truncated, *info.values()]
        kept.append(arrays)
        copies.append([a.copy() for a in arrays])
        # What a learner does to its observations must not reach the environment.
        obs_again = obs.copy()
        obs_again += 1.0
    for arrays, saved in zip(kept, copies, strict=True):
        for array, expected in zip(arrays, saved, strict=True):
            assert np.array_equal(array, expected)


def test_normalising_observations_in_place_is_harmless(name: str) -> None:
    contexts = contexts_of(envs.setup(name), 2, 0)
    actions = 0.1 * random_actions(name, 8, 2, 0)
    tame, wild = (envs.make_batch(name, 2, 0) for _ in range(2))
    tame.reset(contexts)
    wild.reset(contexts)[:] = 99.0
    for step in actions:
        expected, expected_reward, *_ = tame.step(step)
        obs, reward, _, _, info = wild.step(step)
        assert np.array_equal(obs, expected)
        assert np.array_equal(reward, expected_reward)
        obs[:], reward[:], info["final_obs"][:] = 99.0, 99.0, 99.0


def test_no_global_random_state_is_used(name: str) -> None:
    contexts, actions = contexts_of(envs.setup(name), 3, 1), random_actions(name, 40, 1, 2)[:, 0]
    np.random.seed(1)  # noqa: NPY002 - the state that must not matter
    random.seed(1)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    first = play_single(name, 5, contexts, actions)
    assert np.array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert random.getstate() == before[1]
    np.random.seed(2)  # noqa: NPY002
    assert first.same_as(play_single(name, 5, contexts, actions))


def test_seeding_the_spaces_of_one_environment_leaves_others_alone(name: str) -> None:
    one, other = envs.make(name), envs.make(name)
    for space, elsewhere in (
        (one.action_space, other.action_space),
        (one.observation_space, other.observation_space),
    ):
        elsewhere.seed(1)
        expected = elsewhere.sample()
        elsewhere.seed(1)
        space.seed(2)
        space.sample()
        assert np.array_equal(elsewhere.sample(), expected)


def test_truncation_happens_at_the_horizon_and_only_there(name: str) -> None:
    setup = shortened(name, 3)
    batch = envs.make_batch(setup, 2, 0)
    batch.reset(np.tile(setup.initial_mean, (2, 1)))
    flags = []
    for _ in range(3):
        _, _, terminated, truncated, info = batch.step(batch.actions("hold"))
        assert not terminated.any()
        flags.append((truncated.tolist(), info["elapsed"].tolist()))
    assert flags == [([False] * 2, [1, 1]), ([False] * 2, [2, 2]), ([True] * 2, [3, 3])]


def test_an_episode_that_ends_on_its_last_step_is_terminated_not_truncated(name: str) -> None:
    setup = envs.setup(name)
    contexts = np.array([setup.lower])
    action = envs.environment(name).action_box.low
    actions = np.tile(np.where(np.arange(len(action)) == 0, 0.0, action), (setup.horizon, 1))
    whole = play_single(setup, 3, contexts, actions)
    ends = [i + 1 for i, step in enumerate(whole.steps) if step[1]]
    assert ends, "no episode terminated, the test needs other actions"
    assert 1 < ends[0] < setup.horizon
    end = ends[0]
    for horizon, expected in (
        (end + 1, (True, False)),
        (end, (True, False)),
        (end - 1, (False, True)),
    ):
        cut = play_single(replace(setup, horizon=horizon), 3, contexts, actions[:end])
        last = cut.steps[min(end, horizon) - 1]
        assert last[1:3] == expected
        assert last[0] == whole.steps[min(end, horizon) - 1][0]


def test_pickled_and_copied_environments_go_on_alike(name: str) -> None:
    contexts, actions = contexts_of(envs.setup(name), 2, 1), random_actions(name, 20, 1, 2)[:, 0]
    for twice in (lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy):
        env = envs.make(name)
        env.reset(seed=5, options={"context": contexts[0]})
        env.step(actions[0])
        twin = twice(env)
        assert twin.setup == env.setup
        if envs.setup(name).environment != "lunar-lander":
            # In the middle of an episode; landers must be reset, as Gymnasium's own.
            for action in actions[:3]:
                assert np.array_equal(env.step(action)[0], twin.step(action)[0])
        # From the stream where the original stands: the next episode is the same.
        assert np.array_equal(*(e.reset(options={"context": contexts[1]})[0] for e in (env, twin)))
        for action in actions[:5]:
            assert np.array_equal(env.step(action)[0], twin.step(action)[0])
        fresh = play_single(name, 5, contexts, actions)
        assert play_single(name, 5, contexts, actions, twin).same_as(fresh)


def test_a_saved_state_continues_bit_for_bit_or_says_that_it_cannot(name: str) -> None:
    setup = shortened(name, 30)
    contexts = contexts_of(setup, 3, 0)
    actions = random_actions(name, 60, 3, 1)
    batch = envs.make_batch(setup, 3, 0, lambda i: contexts[i])
    batch.reset()
    for step in actions[:17]:
        batch.step(step)
    if setup.environment == "lunar-lander":
        with pytest.raises(envs.SetupError, match="cannot save"):
            batch.get_state()
        return
    state = batch.get_state()
    state = pickle.loads(pickle.dumps(state))
    other = envs.make_batch(setup, 3, 99, lambda i: contexts[i])
    other.set_state(state)
    for step in actions[17:]:
        for ours, theirs in zip(batch.step(step)[:4], other.step(step)[:4], strict=True):
            assert np.array_equal(ours, theirs)
    with pytest.raises(envs.SetupError, match="same setup and size"):
        envs.make_batch(setup, 2, 0).set_state(state)


def test_without_a_context_one_is_drawn_from_the_target(name: str) -> None:
    setup = envs.setup(name)
    env = envs.make(name)
    drawn = np.array([env.reset(seed=i)[1]["context"] for i in range(40)])
    assert len(np.unique(drawn[:, 0])) == 40
    z = (drawn.mean(axis=0) - setup.target_mean) / np.sqrt(np.array(setup.target_variance) / 40)
    assert (np.abs(z) < 4.5).all()


def test_scripted_policies_act_within_the_action_space(name: str) -> None:
    batch = envs.make_batch(name, 3, 0)
    batch.reset(contexts_of(envs.setup(name), 3, 0, "target"))
    for policy in ("random", "hold", "reference"):
        actions = batch.actions(policy, np.random.default_rng(0))
        assert actions.shape == (3, *batch.action_space.shape)
        assert (actions >= batch.action_space.low - 1e-12).all()
        assert (actions <= batch.action_space.high + 1e-12).all()
    with pytest.raises(envs.SetupError, match="no policy is called 'rndom'"):
        batch.actions("rndom")
    with pytest.raises(envs.SetupError, match="needs a generator"):
        batch.actions("random")


def test_anchors_are_measured_and_in_order(name: str) -> None:
    setup = envs.setup(name)
    anchors = setup.anchors
    assert anchors is not None, f"run: pacebench anchors {name} --write"
    assert anchors.episodes >= 1000
    assert name in anchors.command
    distance = anchors.reference.mean_return - anchors.baseline.mean_return
    assert distance > 10 * max(anchors.reference.return_se, anchors.baseline.return_se)
    assert anchors.normalise(anchors.baseline.mean_return) == 0.0
    assert anchors.normalise(anchors.reference.mean_return) == 1.0
    # A threshold that not even the reference policy reaches would hold every curriculum back.
    assert anchors.reference.discounted_return > setup.threshold
