"""Point Mass against closed forms, against hand-computed crossings and against plain Python."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacebench import envs
from pacebench.envs.rollout import play
from tests.envs.conftest import contexts_of, random_actions, shortened

DT = 0.01
GATE_AWAY = np.array([0.0, 8.0, 0.0])


class ScriptedNoise:
    """Stands where a copy's generator stands and hands out noise that the test has chosen."""

    def __init__(self, rows: np.ndarray | None = None) -> None:
        self._rows = np.zeros((400, 20)) if rows is None else rows
        self._next = 0

    def standard_normal(self, out: np.ndarray) -> None:
        out[:] = self._rows[self._next : self._next + len(out)]
        self._next += len(out)


def quiet_batch(context: Any, rows: np.ndarray | None = None, **changes: Any) -> envs.BatchEnv:
    """One mass without noise, or with the given noise (steps, substeps × axes)."""
    batch = envs.make_batch(replace(envs.setup("point-mass-1"), **changes), 1, 0)
    batch.set_stream(0, ScriptedNoise(rows))  # type: ignore[arg-type]
    batch.reset(np.asarray(context, dtype=float)[None])
    return batch


def place(
    batch: envs.BatchEnv, position: tuple[float, float], velocity: tuple[float, float]
) -> None:
    batch._position[-1][:, 0] = position
    batch._velocity[-1][:, 0] = velocity


@pytest.mark.parametrize("friction", [0.0, 0.7, 4.0])
def test_free_flight_follows_the_closed_form(friction: float) -> None:
    """Linear recursion: v_k = ρᵏ v₀ + (1 − ρᵏ) u/c, and positions are the sums of velocities."""
    force = np.array([0.8, -0.3])
    batch = quiet_batch([0.0, 8.0, friction])
    steps = 9
    for _ in range(steps):
        obs, *_ = batch.step(force[None])
    k, rho = 10 * steps, 1.0 - DT * friction
    gain = DT * 1.5 * force
    if friction == 0.0:
        velocity = gain * k
        moved = DT * gain * k * (k - 1) / 2
    else:
        velocity = gain * (1 - rho**k) / (1 - rho)
        moved = DT * gain / (1 - rho) * (k - (1 - rho**k) / (1 - rho))
    expected = [moved[0], velocity[0], 3.0 + moved[1], velocity[1]]
    assert obs[0] == pytest.approx(expected, abs=1e-12)


def test_reward_and_success_depend_on_the_distance_to_the_goal() -> None:
    for distance, success in ((0.2499, True), (0.2501, False)):
        batch = quiet_batch(GATE_AWAY)
        place(batch, (distance, -3.0), (0.0, 0.0))
        _, reward, _, _, info = batch.step([[0.0, 0.0]])
        assert reward[0] == pytest.approx(math.exp(-0.6 * distance), rel=1e-14)
        assert info["success"][0] == success


# From (1, 0.05) at (2, −10) per second the first substep ends at (1.02, −0.05): it reaches the wall
# half-way, at x = 1.01.
@pytest.mark.parametrize(("width", "crash"), [(2.0199, True), (2.0201, False)])
def test_hand_computed_crossing(width: float, crash: bool) -> None:
    batch = quiet_batch([0.0, width, 0.0])
    place(batch, (1.0, 0.05), (2.0, -10.0))
    obs, reward, terminated, truncated, info = batch.step([[0.0, 0.0]])
    assert terminated[0] == crash
    assert not truncated[0]
    if crash:
        assert obs[0] == pytest.approx([1.01, 0.0, 0.0, 0.0], abs=1e-15)
        assert reward[0] == pytest.approx(math.exp(-0.6 * math.hypot(1.01, 3.0)), rel=1e-14)
    else:
        assert obs[0] == pytest.approx([1.2, 2.0, -0.95, -10.0], abs=1e-12)
    assert not info["success"][0]


def test_crossing_from_below_and_in_a_later_substep() -> None:
    """From (−2, −0.35) at (−1, 10): the fourth substep crosses half-way, at x = −2.035."""
    batch = quiet_batch([2.0, 1.0, 0.0])
    place(batch, (-2.0, -0.35), (-1.0, 10.0))
    obs, _, terminated, *_ = batch.step([[0.0, 0.0]])
    assert terminated[0]
    assert obs[0] == pytest.approx([-2.035, 0.0, 0.0, 0.0], abs=1e-12)


def test_first_crossing_inside_second_outside_in_one_step() -> None:
    """Down through the gate in the first substep; a kick sends it up again beside the gate."""
    rows = np.zeros((400, 20))
    # Substep 3 (index 2), y axis: v_y jumps from −10 to +10.
    rows[0, 2 * 2 + 1] = 20.0 / (DT * 0.05)
    batch = quiet_batch([0.0, 0.5, 0.0], rows)
    place(batch, (0.0, 0.05), (10.0, -10.0))
    obs, _, terminated, *_ = batch.step([[0.0, 0.0]])
    # y: 0.05 → −0.05 (gate, x = 0.05) → −0.15 → −0.25 → −0.15 → −0.05 → 0.05 (x = 0.55).
    assert terminated[0]
    assert obs[0] == pytest.approx([0.55, 0.0, 0.0, 0.0], abs=1e-12)


def test_a_mass_that_comes_to_rest_exactly_on_the_wall_has_reached_it() -> None:
    batch = quiet_batch([3.0, 0.5, 0.0])
    place(batch, (0.0, 0.125), (0.0, -12.5))
    obs, _, terminated, *_ = batch.step([[0.0, 0.0]])
    assert terminated[0]
    assert obs[0, 2] == 0.0


def test_the_arena_holds_the_mass() -> None:
    batch = quiet_batch(GATE_AWAY)
    for _ in range(30):
        obs, _, terminated, *_ = batch.step([[10.0, 10.0]])
        assert (np.abs(obs[0, [0, 2]]) <= 4.0).all()
    assert obs[0, [0, 2]].tolist() == [4.0, 4.0]
    assert not terminated[0]


def test_crash_on_the_last_step_is_a_termination() -> None:
    for horizon, flags in ((1, (False, True)), (2, (True, False)), (3, (True, False))):
        batch = quiet_batch([3.0, 0.5, 0.0], horizon=horizon)
        place(batch, (0.0, 0.5), (0.0, -3.0))
        for _ in range(min(horizon, 2)):
            _, _, terminated, truncated, info = batch.step([[0.0, 0.0]])
        assert (terminated[0], truncated[0]) == flags
        assert info["elapsed"][0] == min(horizon, 2)


def test_success_at_truncation() -> None:
    setup = envs.setup("point-mass-2")
    contexts = contexts_of(setup, 20, 0, "target")
    played = play("point-mass-2", "reference", contexts, np.random.SeedSequence(0))
    assert played.successes.all()
    assert not played.terminated.any()
    assert (played.lengths == 100).all()


def test_noise_has_the_stated_law() -> None:
    """Free of force and friction, velocity sums the noise and position sums the velocity."""
    n, steps = 1500, 3
    batch = envs.make_batch(shortened("point-mass-1", 50), n, 0)
    batch.reset(np.tile(GATE_AWAY, (n, 1)))
    for _ in range(steps):
        obs, *_ = batch.step(np.zeros((n, 2)))
    k = 10 * steps
    velocity_var = k * (0.05 * DT) ** 2
    position_var = (0.05 * DT) ** 2 * DT**2 * sum(j * j for j in range(k))
    deviation = obs - [0.0, 0.0, 3.0, 0.0]
    covariance = deviation.T @ deviation / n
    # Five standard errors of a variance estimated from n normals.
    tolerance = 5 * math.sqrt(2 / n)
    expected = [position_var, velocity_var, position_var, velocity_var]
    assert np.diag(covariance) == pytest.approx(expected, rel=tolerance)
    correlation = covariance / np.sqrt(np.outer(expected, expected))
    assert abs(correlation[1, 3]) < 5 / math.sqrt(n)
    assert abs(correlation[0, 2]) < 5 / math.sqrt(n)


def plain_step(
    state: list[float], force: np.ndarray, noise: np.ndarray, context: np.ndarray
) -> tuple[list[float], bool]:
    """The step as one would write it for one mass, without NumPy."""
    x, vx, y, vy = state
    gate, width, friction = map(float, context)
    for k in range(10):
        ax = 1.5 * force[0] - friction * vx + 0.05 * noise[2 * k]
        ay = 1.5 * force[1] - friction * vy + 0.05 * noise[2 * k + 1]
        nx = min(max(x + DT * vx, -4.0), 4.0)
        ny = min(max(y + DT * vy, -4.0), 4.0)
        if (y > 0.0 >= ny) or (y < 0.0 <= ny):
            hit = x + y / (y - ny) * (nx - x)
            if abs(hit - gate) > width / 2:
                return [hit, 0.0, 0.0, 0.0], True
        x, y, vx, vy = nx, ny, vx + DT * ax, vy + DT * ay
    return [x, vx, y, vy], False


@given(seed=st.integers(0, 2**32), spread=st.sampled_from([2.0, 10.0]))
def test_batch_agrees_with_plain_python(seed: int, spread: float) -> None:
    n, steps = 6, 60
    rng = np.random.default_rng(seed)
    setup = envs.setup("point-mass-1")
    contexts = rng.uniform(setup.lower, setup.upper, (n, 3))
    noise = rng.standard_normal((n, 400, 20))
    batch = envs.make_batch(setup, n, 0)
    for i in range(n):
        batch.set_stream(i, ScriptedNoise(noise[i]))  # type: ignore[arg-type]
    batch.reset(contexts)
    # Slowly changing forces: white noise would hardly move the mass.
    forces = rng.uniform(-spread, spread, (steps // 15, n, 2)).repeat(15, axis=0)
    forces[:, :, 1] -= 1.0
    forces = forces.clip(-10, 10)
    states: list[Any] = [[0.0, 0.0, 3.0, 0.0] for _ in range(n)]
    alive = np.ones(n, dtype=bool)
    for t in range(steps):
        obs, reward, terminated, *_ = batch.step(forces[t])
        for i in np.flatnonzero(alive):
            states[i], crashed = plain_step(states[i], forces[t, i], noise[i, t], contexts[i])
            assert terminated[i] == crashed
            assert obs[i] == pytest.approx(states[i], abs=1e-10)
            distance = math.hypot(states[i][0], states[i][2] + 3.0)
            assert reward[i] == pytest.approx(math.exp(-0.6 * distance), rel=1e-10)
        alive &= ~terminated
        over = np.flatnonzero(terminated)
        if len(over):
            # Not compared any further; they go on in quiet.
            for i in over:
                batch.set_stream(i, ScriptedNoise())  # type: ignore[arg-type]
            batch.reset(contexts[over], indices=over)


@pytest.mark.parametrize("gate", [3.0, -3.0])
def test_two_dimensions_are_a_frictionless_mass_by_hand(
    gate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise and friction a substep adds 0.015 F to v, after 0.01 v was added to p."""
    monkeypatch.setattr("pacebench.envs.point_mass.batch.NOISE", 0.0)
    env = envs.make("point-mass-2d")
    env.reset(seed=0, options={"context": [gate, 0.5]})
    x, y, vx, vy = 0.0, 3.0, 0.0, 0.0
    side = np.sign(gate)
    for step in range(6):
        force = (10.0 * side if step < 3 else -10.0 * side, 0.0)
        obs, reward, terminated, *_ = env.step(np.array(force))
        for _ in range(10):
            x, y = x + 0.01 * vx, y + 0.01 * vy
            vx, vy = vx + 0.015 * force[0], vy + 0.015 * force[1]
        assert obs[:4] == pytest.approx([x, vx, y, vy], abs=1e-12)
        assert obs[4:] == pytest.approx([gate / 4, -1.0])
        assert reward == pytest.approx(np.exp(-0.6 * np.hypot(x, y + 3)))
        assert not terminated
    # 30 substeps one way and 30 the other: the velocity rises to 30 · 0.15 and falls again.
    assert x == pytest.approx(side * 0.01 * 0.15 * 30 * 30)
    assert vx == pytest.approx(0.0, abs=1e-9)
    # Straight down it meets the wall, whose gate is 0.5 wide around ±3.
    env.reset(seed=0, options={"context": [gate, 0.5]})
    for _ in range(20):
        obs, _, terminated, *_ = env.step(np.array([0.0, -10.0]))
        if terminated:
            break
    assert terminated
    assert obs[:4] == pytest.approx([0.0, 0.0, 0.0, 0.0], abs=1e-12)


def test_two_dimensions_equal_three_without_friction() -> None:
    two, three = envs.make_batch("point-mass-2d", 3, 5), envs.make_batch("point-mass-2", 3, 5)
    contexts = np.array([[3.0, 0.5], [-3.0, 2.0], [0.0, 8.0]])
    two.reset(contexts)
    three.reset(np.column_stack([contexts, np.zeros(3)]))
    for actions in random_actions("point-mass-2d", 30, 3, 0, 0.2):
        assert np.array_equal(two.actions("reference"), three.actions("reference"))
        ours, theirs = two.step(actions), three.step(actions)
        assert np.array_equal(ours[0][:, :4], theirs[0][:, :4])
        if (ours[2] | ours[3]).any():
            return
