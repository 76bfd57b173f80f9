"""One slice of an evaluation: episodes played side by side, which leave when they are over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacebench import envs
from pacebench.envs.arrays import Floats, Indices
from pacebench.harness.learners.base import Agents, noise_width
from pacebench.harness.training.non_finite import zero_non_finite

# A matrix product may round the last rows of an odd number of rows differently: learners that do
# not see to it themselves are asked for whole blocks.
ROWS = 16


def play_slice(
    setup: envs.Setup,
    agents: Agents,
    rows: Sequence[int],
    contexts: Floats,
    seeds: Sequence[np.random.SeedSequence],
    streams: Sequence[np.random.Generator | None],
) -> tuple[dict[str, NDArray[Any]], dict[int, str]]:
    """Plays one episode in each context, all at once.

    Args:
        setup: The task.
        agents: The agents.
        rows: Which of them play, R positions.
        contexts: Contexts (R, m, d).
        seeds: What the m episodes of each agent draw from.
        streams: What the policy draws from in each of the R × m episodes; without, it acts
            deterministically.

    Returns:
        Columns of the evaluation by name, each (R, m); why an agent could not be evaluated, by its
        position.
    """
    m = contexts.shape[1]
    total = len(rows) * m
    env = envs.make_batch(setup, total, list(seeds) * len(rows))
    obs = env.reset(contexts.reshape(total, -1))
    width = noise_width(env.action_space)
    noise = _draw_noise(streams, setup.horizon, width)
    measured: dict[str, NDArray[Any]] = {
        "return": np.zeros(total),
        "discounted_return": np.zeros(total),
        "success": np.zeros(total, dtype=np.bool_),
        "length": np.zeros(total, dtype=np.int64),
    }
    broken: dict[int, str] = {}
    # The episode that each copy of the environment plays, and the agent that plays it.
    episode, owner = np.arange(total), np.repeat(np.asarray(rows), m)
    running = np.ones(total, dtype=np.bool_)

    def check(what: str, array: NDArray[Any]) -> None:
        for i in zero_non_finite(array):
            if running[i]:
                broken.setdefault(int(owner[i]), f"An evaluation met a non-finite {what}.")

    discount, t = 1.0, 0
    while running.any():
        now = np.flatnonzero(running)
        drawn = None if noise is None else noise[t, episode[now]]
        actions = np.zeros((env.num_envs, *env.action_space.shape), env.action_space.dtype)
        actions[now] = _act(agents, owner[now], obs[now], drawn, width)
        check("action", actions)
        obs, reward, terminated, truncated, info = env.step(actions)
        check("reward", reward)
        check("observation", obs)
        measured["return"][episode[now]] += reward[now]
        measured["discounted_return"][episode[now]] += discount * reward[now]
        discount, t = discount * setup.gamma, t + 1
        ended = now[(terminated | truncated)[now]]
        if len(ended):
            measured["success"][episode[ended]] = info["success"][ended]
            measured["length"][episode[ended]] = t
            running[ended] = False
            if env.dismiss(ended):
                obs, episode, owner = obs[running], episode[running], owner[running]
                running = running[running]
    env.close()
    shape = (len(rows), m)
    return {k: v.reshape(shape) for k, v in measured.items()}, broken


def _draw_noise(
    streams: Sequence[np.random.Generator | None], horizon: int, width: int
) -> Floats | None:
    """Returns standard normal numbers (horizon, episodes, width), zero without a stream."""
    if not any(streams):
        return None
    noise = np.zeros((horizon, len(streams), width))
    for i, rng in enumerate(streams):
        if rng is not None:
            noise[:, i] = rng.standard_normal((horizon, width))
    return noise


def _act(
    agents: Agents, owner: Indices, obs: Floats, noise: Floats | None, width: int
) -> NDArray[Any]:
    """Returns the actions of copies that belong to different agents, sorted by agent."""
    per_agent = np.bincount(owner, minlength=agents.count)
    place = np.arange(len(owner)) - (np.cumsum(per_agent) - per_agent)[owner]
    rows = -(-int(per_agent.max()) // ROWS) * ROWS
    stacked = np.zeros((agents.count, rows, obs.shape[1]))
    stacked[owner, place] = obs
    stacked_noise = np.zeros((agents.count, rows, width))
    if noise is not None:
        stacked_noise[owner, place] = noise
    actions: NDArray[Any] = agents.act(stacked, stacked_noise)[owner, place]
    return actions
