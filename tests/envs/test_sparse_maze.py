"""Sparse Maze: nothing enters a wall, and the reference walks the ring."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench import envs
from pacebench.envs.sparse_maze.ring import inside, stopped_by_walls, walk


def test_no_walker_is_ever_inside_a_wall() -> None:
    """A random walk of 10⁶ steps, half of it along the diagonals that meet the corners."""
    n, steps = 500, 2000
    goal = np.tile([0.0, 0.0, 0.05], (n, 1))  # in the wall: no episode ends before its horizon
    batch = envs.make_batch("sparse-maze", n, 0, lambda i: goal[i])
    batch.reset()
    rng = np.random.default_rng(1)
    heading = rng.uniform(0, 2 * np.pi, n)
    visited = np.zeros(4)
    for step in range(steps):
        if step % 20 == 0:
            heading = rng.uniform(0, 2 * np.pi, n)
            heading[::2] = rng.choice(np.pi / 4 * np.arange(8), (n + 1) // 2)
        *_, info = batch.step(1.5 * np.column_stack([np.cos(heading), np.sin(heading)]))
        position = info["final_obs"][:, :2]
        assert inside(position).all()
        visited += np.histogram(np.arctan2(*position.T), bins=4, range=(-np.pi, np.pi))[0]
    assert (visited > 1000).all(), "the walk did not get around"


def test_moves_by_hand() -> None:
    env = envs.make("sparse-maze")
    env.reset(seed=0, options={"context": [6.0, -6.0, 0.5]})

    def put(x: float, y: float) -> None:
        env.batch._position[0] = x, y

    put(-6.0, -6.0)
    obs, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.0]))
    assert obs[:2] == pytest.approx([-5.7, -6.0])
    assert (reward, terminated, truncated) == (-1.0, False, False)
    # A diagonal of the box is longer than one, and is shortened to it.
    obs, *_ = env.step(np.array([1.0, -1.0]))
    assert obs[:2] == pytest.approx([-5.7 + 0.3 / 2**0.5, -6.0 - 0.3 / 2**0.5])
    # The outer wall, the inner wall, and its corner met along the diagonal.
    for start, action, expected in (
        ((-6.9, -6.0), (-1.0, 0.0), (-7.0, -6.0)),
        ((-5.1, 0.0), (1.0, 0.0), (-5.0, 0.0)),
        ((-5.1, -5.1), (1.0, 1.0), (-5.0, -5.0)),
        ((-5.0, 4.9), (0.0, 1.0), (-5.0, 5.2)),
    ):
        put(*start)
        obs, *_ = env.step(np.array(action))
        assert obs[:2] == pytest.approx(expected)
    # Reaching the goal costs nothing and ends the episode; being at the tolerance is not enough.
    put(5.2, -6.0)
    obs, reward, terminated, _, info = env.step(np.array([1.0, 0.0]))
    assert (reward, terminated, info["success"]) == (-1.0, False, False)
    obs, reward, terminated, _, info = env.step(np.array([0.1, 0.0]))
    assert (reward, terminated, info["success"]) == (0.0, True, True)


def test_the_start_is_in_its_corner() -> None:
    batch = envs.make_batch("sparse-maze", 400, 0)
    starts = batch.reset(np.tile([0.0, 0.0, 1.0], (400, 1)))[:, :2]
    assert ((starts >= -7) & (starts <= -5)).all()
    assert starts.mean(axis=0) == pytest.approx([-6, -6], abs=0.15)


def test_the_reference_walks_the_ring_on_the_shortest_way() -> None:
    """From the start to the opposite corner it takes two sides, in as few steps as they allow."""
    setup = envs.setup("sparse-maze")
    goals = np.array([[6.0, 6.0, 0.05], [-6.0, 6.9, 0.05], [6.9, -5.1, 0.05], [5.0, 5.0, 0.05]])
    batch = envs.make_batch(setup, 4, 0)
    batch.reset(goals)
    start = batch._position.copy()
    steps, running, quadrants = np.zeros(4), np.ones(4, bool), [set() for _ in goals]
    while running.any():
        _, _, terminated, truncated, _ = batch.step(batch.actions("reference"))
        for i in np.flatnonzero(running):
            quadrants[i].add(tuple(np.sign(batch._position[i])))
        steps[running] += 1
        assert not truncated[running].any()
        running &= ~terminated
        if (~running).any():
            batch.reset(goals[~running], indices=np.flatnonzero(~running))
    assert len(quadrants[0]) == 3, "it went through the wall or the long way round"
    for i, goal in enumerate(goals[:, :2]):
        # The length of the way around the corner of the wall, never cut by it.
        corners = [np.array([-5.0, 5.0]), np.array([5.0, -5.0])]
        ways = [np.linalg.norm(c - start[i]) + np.linalg.norm(goal - c) for c in corners]
        shortest = min(ways) if i in (0, 3) else np.linalg.norm(goal - start[i])
        assert shortest / 0.3 - 1 <= steps[i] <= shortest / 0.3 + 5


def test_a_goal_in_a_wall_is_approached_as_far_as_the_corridor_goes() -> None:
    position = np.array([[-6.0, -6.0], [-6.0, 0.0]])
    aims = walk(position, np.array([[-9.0, -9.0], [-1.0, 0.5]]))
    assert aims[0] == pytest.approx([-7.0, -7.0])
    assert aims[1] == pytest.approx([-5.0, 0.5])
    moved = stopped_by_walls(position, position + 0.1)
    assert inside(moved).all()
