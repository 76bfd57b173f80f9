"""What every setup must hold to, ours and those of other packages.

Nothing is required that a correct environment may lack: ending by itself, saving its state, a
reference policy, a second action.
"""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from numpy.random import SeedSequence

from pacebench import envs
from pacebench.envs.arrays import Floats
from pacebench.envs.errors import PhysicsStateError
from pacebench.harness.verify.conformance import Requirement, outcomes, refused, requirement
from pacebench.harness.verify.suite import CheckOutcome, require
from pacebench.harness.verify.trajectories import (
    contexts_of,
    play_batch,
    play_single,
    random_actions,
    shortened,
)

SETUP_REQUIREMENTS: list[Requirement[envs.Setup]] = []
_N = 5


def verify_setup(
    name: str | envs.Setup, progress: Callable[[str], None] = lambda _: None
) -> list[CheckOutcome]:
    """Tries everything that a setup must hold to."""
    return outcomes(SETUP_REQUIREMENTS, envs.setup(name), progress)


_must = partial(requirement, found=SETUP_REQUIREMENTS)
_refused = partial(refused, envs.SetupError)


@_must("gymnasium")
def gymnasium_accepts_it(setup: envs.Setup) -> None:
    """Gymnasium's own checker accepts the single environment."""
    with warnings.catch_warnings():
        # It warns of unbounded observations and of actions that are not scaled to ±1.
        warnings.simplefilter("ignore")
        check_env(envs.make(setup), skip_render_check=True)


@_must("determinism")
def determinism(setup: envs.Setup) -> None:
    """The same seed and actions give the same trajectory, whatever global random state there is."""
    contexts, actions = contexts_of(setup, 4, 1), random_actions(setup, 100, 1, 2)[:, 0]
    before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    for seed in (5, 0):
        once, again = (play_single(setup, seed, contexts, actions) for _ in range(2))
        require(once.same_as(again), f"seed {seed} gave two different trajectories")
    after = np.random.get_state()[1], random.getstate()  # type: ignore[index]  # noqa: NPY002
    same = np.array_equal(before[0], after[0]) and before[1] == after[1]
    require(same, "a global random state was used")


@_must("batch-equals-single")
def batch_equals_single(setup: envs.Setup) -> None:
    """A copy of a batch equals the single environment bit for bit, through ends and restarts."""
    for horizon in dict.fromkeys((7, setup.horizon)):
        task = shortened(setup, horizon)
        steps = min(horizon + 30, 160)
        contexts = np.stack([contexts_of(task, 12, seed) for seed in range(_N)])
        actions = random_actions(task, steps, _N, 3, 0.3)
        batched = play_batch(task, 11, contexts, actions)
        for i, child in enumerate(SeedSequence(11).spawn(_N)):
            single = play_single(task, child, contexts[i], actions[:, i])
            require(batched[i].same_as(single), f"copy {i} differs from the single environment")


@_must("copies-independent")
def copies_independent(setup: envs.Setup) -> None:
    """What a copy does depends on its own stream, contexts and actions alone."""
    task = shortened(setup, min(25, setup.horizon))
    contexts = np.stack([contexts_of(task, 6, seed) for seed in range(_N)])
    actions = random_actions(task, 60, _N, 3)
    full = play_batch(task, 11, contexts, actions)
    children = SeedSequence(11).spawn(_N)
    part = play_batch(task, [children[3], children[1]], contexts[[3, 1]], actions[:, [3, 1]])
    require(part[0].same_as(full[3]) and part[1].same_as(full[1]), "copies depend on their number")
    by_number = play_batch(task, [8, 0], contexts[:2], actions[:, :2])
    for i, seed in enumerate((8, 0)):
        single = play_single(task, seed, contexts[i], actions[:, i])
        require(by_number[i].same_as(single), f"integer seed {seed} differs in a batch")
    sequence = SeedSequence(4)
    first, again = (envs.make_batch(setup, 2, sequence).reset(contexts[:2, 0]) for _ in range(2))
    unused = sequence.n_children_spawned == 0
    require(np.array_equal(first, again) and unused, "a seed sequence was used up")


@_must("context-acts")
def context_acts(setup: envs.Setup) -> None:
    """Each dimension of the context changes what happens, not only what is observed of it."""
    hidden = replace(setup, visible=False)
    bases = [*contexts_of(setup, 2, 0, "target"), *contexts_of(setup, 2, 0)]
    for dimension, label in enumerate(setup.context_names):
        tells = any(_tells(hidden, base, dimension) for base in bases)
        require(tells, f"{label} changes nothing between its bounds")


def _tells(setup: envs.Setup, base: Floats, dimension: int) -> bool:
    pair = np.tile(base, (2, 1))
    pair[:, dimension] = setup.lower[dimension], setup.upper[dimension]
    for leader in pair:
        actions = _scripted_actions(setup, leader)
        low, high = (play_single(setup, 2, context[None], actions) for context in pair)
        if not low.same_as(high, but_for_contexts=True):
            return True
    return False


def _scripted_actions(setup: envs.Setup, context: Floats) -> Any:
    batch = envs.make_batch(setup, 1, [2], lambda _: context[None])
    batch.reset()
    policy = "reference" if batch.has_reference() else "random"
    rng, actions = np.random.default_rng(0), []
    for _ in range(min(setup.horizon, 100)):
        actions.append(batch.actions(policy, rng)[0])
        batch.step(actions[-1][None])
    return np.array(actions)


@_must("no-leaks")
def no_leaks(setup: envs.Setup) -> None:
    """The context of one instance or episode never reaches another."""
    pair = np.array([contexts_of(setup, 1, 0)[0], contexts_of(setup, 1, 0, "target")[0]])
    actions = random_actions(setup, 40, 2, 4)
    alone = [play_single(setup, i, pair[i : i + 1], actions[:, i]) for i in range(2)]
    both = [envs.make(setup) for _ in range(2)]
    for i, env in enumerate(both):
        env.reset(seed=i, options={"context": pair[i]})
    for t in range(len(actions)):
        for i, env in enumerate(both):
            obs, reward, terminated, truncated, _ = env.step(actions[t, i])
            same = np.array_equal(obs, alone[i].final_obs[t]) and reward == alone[i].steps[t][0]
            require(same, f"instance {i} is changed by the other at step {t}")
            if terminated or truncated:
                env.reset(options={"context": pair[i]})
    env = envs.make(setup)
    play_single(setup, 1, pair[:1], actions[:, 0], env)
    after = play_single(setup, 2, pair[1:], actions[:, 0], env)
    fresh = play_single(setup, 2, pair[1:], actions[:, 0])
    require(after.same_as(fresh), "an episode is changed by the one before")


@_must("clipping")
def clipping(setup: envs.Setup) -> None:
    """Contexts are clipped to their bounds, and recorded as drawn and as used."""
    width = np.subtract(setup.upper, setup.lower)
    outside, inside = np.add(setup.upper, width), np.array(setup.upper)
    actions = random_actions(setup, 30, 1, 4)[:, 0]
    _, info = envs.make(setup).reset(seed=1, options={"context": outside})
    found = info["context"], info["clipped_context"]
    require(np.array_equal(found, (outside, inside)), "contexts are not recorded")
    far, near = (play_single(setup, 1, c[None], actions) for c in (outside, inside))
    require(far.same_as(near, but_for_contexts=True), "a context beyond its bounds acts")


@_must("visibility")
def visibility(setup: envs.Setup) -> None:
    """A visible context ends the observation, scaled to ±1; a hidden one does not."""
    middle = 0.5 * np.add(setup.lower, setup.upper)
    batch = envs.make_batch(setup, 3, 0)
    k = batch.physics_space.shape[0]
    obs = batch.reset(np.array([setup.lower, middle, setup.upper]))
    width = k + (setup.dim if setup.visible else 0)
    require(obs.shape == (3, width), f"observations have shape {obs.shape}, not (3, {width})")
    if setup.visible:
        require(np.allclose(obs[:, k:], [[-1], [0], [1]]), "the visible context is not scaled")
        later, *_ = batch.step(random_actions(setup, 1, 3, 0)[0])
        require(np.array_equal(later[:, k:], obs[:, k:]), "the visible context changes")


@_must("observations")
def observations(setup: envs.Setup) -> None:
    """Observations stay in their space, and arrays have their types."""
    contexts = contexts_of(setup, 3, 0, "target")
    batch = envs.make_batch(setup, 3, 0, lambda i: contexts[i])
    require(batch.reset().dtype == np.float64, "observations are not float64")
    for actions in random_actions(setup, 100, 3, 5):
        obs, reward, terminated, truncated, info = batch.step(actions)
        require(obs.dtype == reward.dtype == np.float64, "observations or rewards: not float64")
        flags = terminated.dtype == truncated.dtype == info["success"].dtype == np.bool_
        require(flags, "ends or successes are not booleans")
        for row in (*obs, *info["final_obs"]):
            inside = batch.observation_space.contains(row)
            require(inside, f"{row} is not in {batch.observation_space}")


@_must("actions")
def actions_are_checked(setup: envs.Setup) -> None:
    """Actions beyond a box are clipped; those that are none are refused and change nothing."""
    contexts, steps = contexts_of(setup, 2, 0), random_actions(setup, 5, 2, 0)
    undisturbed, batch = (envs.make_batch(setup, 2, 0) for _ in range(2))
    undisturbed.reset(contexts)
    batch.reset(contexts)
    space, bad = batch.action_space, steps[0].copy()
    if isinstance(space, spaces.Discrete):
        bad[1], words = space.n, "must be integers"
    else:
        bad[1, 0], words = np.nan, "actions of copies 1 are not finite"
        beyond, within = (np.tile(space.high * by, (10, 1)) for by in (3, 1))
        far, near = (play_single(setup, 1, contexts, given) for given in (beyond, within))
        require(far.same_as(near), "actions beyond the box are not clipped to it")
    for given in steps:
        _refused(words, batch.step, bad)
        _refused("must have shape", batch.step, given[:1])
        same = np.array_equal(batch.step(given)[0], undisturbed.step(given)[0])
        require(same, "a refused action changed something")
        if batch._waiting.any() or undisturbed._waiting.any():
            return


@_must("contexts-checked")
def contexts_are_checked(setup: envs.Setup) -> None:
    """Contexts that are not finite or of another shape are refused."""
    batch, d = envs.make_batch(setup, 2, 0), setup.dim
    good = contexts_of(setup, 1, 0)[0]
    for bad in (np.nan, np.inf):
        _refused("not finite", batch.reset, np.array([good, [*good[:-1], bad]]))
    for wrong in (np.zeros((2, d + 1)), np.zeros((1, d)), np.zeros(d), 0.0):
        _refused("must have shape", batch.reset, wrong)
    _refused("must be numbers", batch.reset, [["a"] * d] * 2)
    _refused("reset needs contexts", batch.reset)
    unknown = partial(envs.make(setup).reset, seed=0, options={"contxt": good})
    _refused("unknown reset option", unknown)


@_must("order-of-calls")
def order_of_calls(setup: envs.Setup) -> None:
    """Steps before a reset or after an end are refused; some copies can be reset alone."""
    task = shortened(setup, 1)
    batch, actions = envs.make_batch(task, 3, 0), random_actions(setup, 1, 3, 0)[0]
    _refused("copies 0, 1, 2 must be reset", batch.step, actions)
    contexts = contexts_of(setup, 3, 0)
    batch.reset(contexts)
    batch.step(actions)
    batch.reset(contexts[[2, 0]], indices=[2, 0])
    _refused("copies 1 must be reset", batch.step, actions)
    batch.reset(contexts[[1]], indices=[1])
    *_, info = batch.step(actions)
    require(np.array_equal(info["context"], contexts), "contexts are given to other copies")
    for wrong in ([3], [-1], [0, 0], [0.5], [[0]]):
        _refused("indices", batch.reset, contexts[:1], wrong)


@_must("context-source")
def context_source(setup: envs.Setup) -> None:
    """The source of contexts is asked once per step with ends, for these copies in order."""
    task, calls = shortened(setup, 6), []
    context = contexts_of(setup, 1, 0)

    def source(indices: Any) -> Floats:
        calls.append(indices.tolist())
        return np.tile(context, (len(indices), 1))

    batch = envs.make_batch(task, 4, 0, source)
    batch.reset()
    require(calls == [[0, 1, 2, 3]], "the source is not asked for all copies at a reset")
    batch.reset(np.tile(context, (2, 1)), indices=[3, 1])
    require(len(calls) == 1, "the source is asked though contexts are given")
    for actions in random_actions(task, 24, 4, 0, 0.1):
        before = len(calls)
        _, _, terminated, truncated, info = batch.step(actions)
        over = np.flatnonzero(terminated | truncated).tolist()
        require(calls[before:] == ([over] if over else []), f"asked {calls[before:]} for {over}")
        require((batch.elapsed[over] == 0).all(), "an ended episode goes on")
        late = (info["elapsed"] == 6) & ~terminated
        require(np.array_equal(truncated, late), "truncated before or after the horizon")


@_must("arrays-kept")
def arrays_kept(setup: envs.Setup) -> None:
    """What a step returned does not change later, and may be written to."""
    task = shortened(setup, 4)
    contexts = contexts_of(task, 2, 0)
    tame, wild = (envs.make_batch(task, 2, 0, lambda i: contexts[i]) for _ in range(2))
    tame.reset()
    wild.reset()[:] = 99.0
    kept = []
    for actions in random_actions(task, 12, 2, 0):
        *arrays, info = tame.step(actions)
        arrays += list(info.values())
        kept.append((arrays, [array.copy() for array in arrays]))
        obs, reward, _, _, scribbled = wild.step(actions)
        same = np.array_equal(obs, arrays[0]) and np.array_equal(reward, arrays[1])
        require(same, "writing to what a step returned changed the next one")
        obs[:], reward[:], scribbled["final_obs"][:] = 99.0, 99.0, 99.0
    for arrays, copies in kept:
        require(all(map(np.array_equal, arrays, copies)), "what a step returned changed later")


@_must("dismissal")
def dismissal(setup: envs.Setup) -> None:
    """Copies whose episodes are over can be dismissed, and change nothing for the others."""
    contexts, actions = contexts_of(setup, 6, 0), random_actions(setup, 20, 6, 0, 0.1)
    whole, part = (envs.make_batch(setup, 6, 0, lambda i: contexts[i % 6]) for _ in range(2))
    whole.reset()
    part.reset()
    left = np.arange(6)
    for step, given in enumerate(actions):
        expected = whole.step(given)
        found = part.step(given[left])
        here = np.isin(left, (0, 4)) if step >= 5 else np.ones(6, dtype=np.bool_)
        for ours, theirs in zip(expected[:4], found[:4], strict=True):
            same = np.array_equal(ours[left[here]], theirs[here])
            require(same, f"a copy that stays is changed at step {step}")
        if (expected[2] | expected[3])[[0, 4]].any():
            return
        if step == 4 and part.dismiss(np.array([1, 2, 3, 5])):
            left = np.array([0, 4])


@_must("spaces-apart")
def spaces_apart(setup: envs.Setup) -> None:
    """Seeding the spaces of one environment leaves those of others alone."""
    one, other = envs.make(setup).action_space, envs.make(setup).action_space
    other.seed(1)
    expected = other.sample()
    other.seed(1)
    one.seed(2)
    one.sample()
    require(np.array_equal(other.sample(), expected), "two instances share a space")


@_must("ends")
def ends_on_the_last_step(setup: envs.Setup) -> None:
    """An episode that ends by itself on its last possible step is terminated, not truncated."""
    contexts = contexts_of(setup, 3, 0)
    actions = random_actions(setup, 200, 1, 3)[:, 0]
    for context in (*contexts, np.array(setup.lower), np.array(setup.upper)):
        whole = play_single(setup, 3, context[None], actions)
        ends = [i + 1 for i, step in enumerate(whole.steps) if step[1]]
        if not ends or not 1 < ends[0] < setup.horizon:
            continue  # it need not end by itself
        end = ends[0]
        for horizon, expected in ((end, (True, False)), (end - 1, (False, True))):
            cut = play_single(shortened(setup, horizon), 3, context[None], actions[:end])
            require(cut.steps[horizon - 1][1:3] == expected, f"wrong end at a horizon of {horizon}")
        return


@_must("copies-and-states")
def copies_and_states(setup: envs.Setup) -> None:
    """Pickles and copies go on alike; a saved state, where there is one, continues bit for bit."""
    contexts, actions = contexts_of(setup, 2, 1), random_actions(setup, 40, 1, 2)[:, 0]
    for pickled in (True, False):
        env = envs.make(setup)
        env.reset(seed=5, options={"context": contexts[0]})
        twin = pickle.loads(pickle.dumps(env)) if pickled else copy.deepcopy(env)
        one, two = (e.reset(options={"context": contexts[1]})[0] for e in (env, twin))
        require(np.array_equal(one, two), "a copy begins the next episode otherwise")
        fresh = play_single(setup, 5, contexts, actions)
        require(play_single(setup, 5, contexts, actions, twin).same_as(fresh), "a copy differs")
    task = shortened(setup, min(30, setup.horizon))
    rows = contexts_of(task, 3, 0)
    batch, other = (envs.make_batch(task, 3, seed, lambda i: rows[i]) for seed in (0, 99))
    batch.reset()
    steps = random_actions(task, 40, 3, 1)
    for step in steps[:17]:
        batch.step(step)
    try:
        state = pickle.loads(pickle.dumps(batch.get_state()))
    except PhysicsStateError:
        return
    other.set_state(state)
    for step in steps[17:]:
        same = all(map(np.array_equal, batch.step(step)[:4], other.step(step)[:4]))
        require(same, "a restored batch goes on otherwise")


@_must("target-drawn")
def target_drawn(setup: envs.Setup) -> None:
    """Without a context one is drawn from the target."""
    env = envs.make(setup)
    drawn = np.array([env.reset(seed=i)[1]["context"] for i in range(40)])
    require(len(np.unique(drawn, axis=0)) == 40, "the same context is drawn again")
    reference = contexts_of(setup, 4000, 0, "target")
    error = reference.std(axis=0) / np.sqrt(40) + 1e-12
    off = np.abs(drawn.mean(axis=0) - reference.mean(axis=0)) / error
    require((off < 4.5).all(), f"their mean is {off.max():.1f} standard errors off")


@_must("policies")
def policies_act(setup: envs.Setup) -> None:
    """Scripted policies act within the action space, and unknown ones are refused."""
    batch = envs.make_batch(setup, 3, 0)
    batch.reset(contexts_of(setup, 3, 0, "target"))
    for policy in batch.policies:
        for action in batch.actions(policy, np.random.default_rng(0)):
            if isinstance(batch.action_space, spaces.Discrete):
                inside = 0 <= action < batch.action_space.n
            else:
                low, high = batch.action_space.low, batch.action_space.high
                inside = bool(((action >= low - 1e-12) & (action <= high + 1e-12)).all())
            require(inside, f"{policy} acts outside of {batch.action_space}: {action}")
    _refused("no policy is called", batch.actions, "rndom")
    _refused("needs a generator", batch.actions, "random")


@requirement("anchors", SETUP_REQUIREMENTS, lambda setup: setup.anchors is not None)
def anchors_in_order(setup: envs.Setup) -> None:
    """The anchors are apart by far more than their errors, and the reference reaches V₋."""
    assert setup.anchors is not None
    low, high = setup.anchors.baseline, setup.anchors.reference
    apart = high.mean_return - low.mean_return
    error = max(high.return_se or 0.0, low.return_se or 0.0)
    said = f"baseline {low.mean_return:g} and reference {high.mean_return:g} are too near"
    require(apart > 10 * error, said)
    if high.discounted_return is not None:
        # A threshold that the reference does not reach would hold every curriculum back.
        said = f"the reference reaches {high.discounted_return:g}, V₋ is {setup.threshold:g}"
        require(high.discounted_return > setup.threshold, said)
