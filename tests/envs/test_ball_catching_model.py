"""The model of Ball Catching: frames, servos, contacts, and physics that forget what was before."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.rollout import Rollout

from pacebench.envs.ball_catching.model import (
    BALL_POSITION,
    BALL_VELOCITY,
    DESIRED_ANGLES,
    FREE_JOINTS,
    INITIAL_POSE,
    JOINT_ANGLES,
    STATE_SIZE,
    SUBSTEPS,
    Simulator,
    load_model,
)
from pacebench.envs.ball_catching.throw import catch_point, flight_time, initial_state

FREE = np.array(FREE_JOINTS)


def at_rest(ball: object = (3.0, 0.0, 1.5), velocity: object = (0.0, 0.0, 0.0)) -> np.ndarray:
    """The initial pose without noise, and a ball somewhere."""
    state = np.zeros(STATE_SIZE)
    state[JOINT_ANGLES] = state[DESIRED_ANGLES] = INITIAL_POSE
    state[BALL_POSITION], state[BALL_VELOCITY] = ball, velocity
    return state


def net_at_rest() -> np.ndarray:
    return np.array(posed(INITIAL_POSE).body("net").xpos)


def posed(angles: object) -> mujoco.MjData:
    data = mujoco.MjData(load_model())
    data.qpos[:7] = angles
    data.qpos[7:] = 50.0
    mujoco.mj_forward(load_model(), data)
    return data


def test_the_net_is_where_holding_still_catches() -> None:
    data = posed(INITIAL_POSE)
    x, y, z = data.body("net").xpos
    assert (x, y, z) == pytest.approx((0.0, -0.696, 1.330), abs=1e-3)
    angle, radius = np.arctan2(z - 0.75, -y), np.hypot(y, z - 0.75)
    assert (angle, radius) == pytest.approx((0.695, 0.906), abs=1e-3)
    normal = data.body("net").xmat.reshape(3, 3)[:, 2]
    assert normal == pytest.approx([-1.0, 0.0, 0.0], abs=1e-9), "the way a ball from +x flies"


def test_frames_are_those_of_the_published_kinematics() -> None:
    """Denavit and Hartenberg's table of the 7-DoF WAM gives the net's pose at any angles."""
    offset = [0, 0, 0.045, -0.045, 0, 0, 0]
    twist = np.pi / 2 * np.array([-1, 1, -1, 1, -1, 1, 0])
    length = [0, 0, 0.55, 0, 0.3, 0, 0.06]
    rng = np.random.default_rng(0)
    low, high = load_model().jnt_range[:7].T
    for _ in range(20):
        angles = rng.uniform(low, high)
        frame = np.array([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0.6 + 0.16 + 0.184], [0, 0, 0, 1]])
        for a, t, d, q in zip(offset, twist, length, angles, strict=True):
            frame = frame @ np.array(
                [
                    [np.cos(q), -np.sin(q) * np.cos(t), np.sin(q) * np.sin(t), a * np.cos(q)],
                    [np.sin(q), np.cos(q) * np.cos(t), -np.cos(q) * np.sin(t), a * np.sin(q)],
                    [0, np.sin(t), np.cos(t), d],
                    [0, 0, 0, 1],
                ]
            )
        net = posed(angles).body("net")
        assert net.xpos == pytest.approx((frame @ [0, 0, 0.09, 1])[:3], abs=1e-9)
        assert net.xmat.reshape(3, 3)[:, 2] == pytest.approx(-frame[:3, 1], abs=1e-9)


def test_masses_and_inertias_are_the_table_s() -> None:
    model = load_model()
    expected = {
        "base": (27.5544, (0.4325, 0.3187, 0.2195)),
        "shoulder_yaw": (10.7677, (0.5074, 0.4630, 0.1133)),
        "shoulder_pitch": (3.87494, (0.0214, 0.0167, 0.0126)),
        "upper_arm": (1.80228, (0.0666, 0.0634, 0.0062)),
        "forearm": (2.40017, (0.0197, 0.0152, 0.0075)),
        "wrist_yaw": (0.12376, (0.0112, 0.0112, 7.6e-5)),
        "wrist_pitch": (0.417974, (5.55e-4, 4.63e-4, 2.34e-4)),
        "palm": (0.0686475, (7.4e-5, 3.8e-5, 3.8e-5)),
        "net": (0.11, (1.98e-4, 9.9e-5, 9.9e-5)),
        "ball": (0.1, (1.6e-5, 1.6e-5, 1.6e-5)),
    }
    for name, (mass, moments) in expected.items():
        body = model.body(name)
        assert body.mass[0] == pytest.approx(mass)
        # MuJoCo sorts principal moments; which axis each belongs to is tested by the next test.
        assert sorted(body.inertia) == pytest.approx(sorted(moments)), name


def test_long_links_are_easiest_to_turn_about_their_own_axis() -> None:
    model = load_model()
    along = {"upper_arm": 2, "forearm": 1, "wrist_yaw": 2, "wrist_pitch": 1}
    for name, axis in along.items():
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.body(name).iquat)
        rotation = rotation.reshape(3, 3)
        tensor = rotation @ np.diag(model.body(name).inertia) @ rotation.T
        assert np.argmin(np.diag(tensor)) == axis, name


def test_the_ball_flies_freely() -> None:
    """Against the closed form of the integrator: g h²/2 more per substep than the parabola."""
    start, velocity = np.array([3.0, 0.2, 1.5]), np.array([-1.5, 0.3, 2.0])
    simulator = Simulator(1)
    state = at_rest(start, velocity)[None]
    for k in range(1, 31):
        state = simulator.advance(state, np.zeros((1, 5))).state
        t = k * SUBSTEPS * 0.002
        fallen = 0.5 * 9.81 * t * (t + 0.002)
        assert state[0, BALL_POSITION] == pytest.approx(start + velocity * t - [0, 0, fallen])
        assert state[0, BALL_VELOCITY] == pytest.approx(velocity - [0, 0, 9.81 * t])


def test_a_throw_passes_its_catch_point_in_time() -> None:
    rng = np.random.default_rng(1)
    for context in rng.uniform([0.4, 0.6, 0.75], [1.57, 1.1, 4.0], (20, 3)):
        state, time = initial_state(context, rng), flight_time(context)
        start, velocity = state[BALL_POSITION], state[BALL_VELOCITY]
        assert start[0] == context[2]
        assert -0.75 <= start[1] <= -0.65
        assert 0.8 <= start[2] <= 1.8
        arrived = start + velocity * time - [0, 0, 0.5 * 9.81 * time**2]
        assert arrived == pytest.approx(catch_point(context))
        assert (catch_point(context)[1:] - [0, 0.75]) @ [-1, 0] == pytest.approx(
            context[1] * np.cos(context[0])
        )


def test_servos_integrate_velocities_and_push_towards_the_integral() -> None:
    model = load_model()
    kp = np.array([200, 300, 100, 100, 20, 20, 5])
    kd = np.array([7, 15, 5, 2.5, 0.423, 0.423, 0.0705])
    limit = np.array([150, 125, 40, 60, 5, 5, 2])
    rng = np.random.default_rng(2)
    data = mujoco.MjData(model)
    saturated = 0
    for scale in (0.01, 3.0):
        for _ in range(20):
            data.qpos[:7], data.qvel[:7] = rng.normal(size=(2, 7))
            data.act[:] = data.qpos[:7] + scale * rng.normal(size=7)
            data.ctrl[:] = rng.normal(size=7)
            mujoco.mj_forward(model, data)
            # actearly: the position desired at the end of the substep.
            wanted = kp * (data.act + 0.002 * data.ctrl - data.qpos[:7]) - kd * data.qvel[:7]
            assert data.actuator_force == pytest.approx(np.clip(wanted, -limit, limit))
            saturated += int((np.abs(wanted) > limit).sum())
    assert saturated > 20


def test_desired_angles_follow_commands_and_held_joints_stay() -> None:
    simulator, rng = Simulator(4), np.random.default_rng(3)
    state = np.tile(at_rest((90.0, 0.0, 90.0)), (4, 1))
    desired = state[:, DESIRED_ANGLES].copy()
    strongest = 2 * np.array([1.985, 2.02, 2.9, 1.57, 2.7])
    for _ in range(100):
        velocities = rng.uniform(-strongest, strongest, (4, 5))
        state = simulator.advance(state, velocities).state
        desired[:, FREE] += velocities * 0.01
        assert state[:, DESIRED_ANGLES] == pytest.approx(desired)
    assert np.abs(state[:, JOINT_ANGLES][:, [0, 2]]).max() < 0.1
    assert (state[:, DESIRED_ANGLES][:, [0, 2]] == 0).all()


@pytest.mark.parametrize("free", range(5))
def test_a_moving_joint_reaches_what_is_desired(free: int) -> None:
    """Half a radian in half a second, then half a second of rest; gravity leaves a small sag."""
    simulator, state = Simulator(1), at_rest((90.0, 0.0, 90.0))[None]
    velocity = np.where(np.arange(5) == free, 1.0, 0.0)[None]
    for k in range(100):
        state = simulator.advance(state, velocity if k < 50 else 0 * velocity).state
    joint = JOINT_ANGLES.start + FREE[free]
    assert state[0, joint] == pytest.approx(INITIAL_POSE[FREE[free]] + 0.5, abs=0.12)


def test_extreme_commands_keep_the_simulation_finite() -> None:
    strongest = 2 * np.array([1.985, 2.02, 2.9, 1.57, 2.7])
    signs = np.array(np.meshgrid(*[(-1, 1)] * 5)).reshape(5, -1).T
    simulator = Simulator(len(signs))
    state = np.tile(at_rest((90.0, 0.0, 90.0)), (len(signs), 1))
    for k in range(200):
        flip = 1 if k // 10 % 2 else -1
        state = simulator.advance(state, flip * signs * strongest).state
        assert np.isfinite(state).all()
        assert np.abs(state[:, JOINT_ANGLES]).max() < 6
        assert state[:, 0] == pytest.approx(0.01 * (k + 1)), "MuJoCo resets what diverges"


def test_the_arm_does_not_collide_with_itself() -> None:
    model, folded = load_model(), posed([0, 1.9, 0, 2.8, 0, 0, 0])
    net, base = model.geom("net").id, model.geom("base").id
    gap = mujoco.mj_geomDistance(model, folded, net, base, 1.0, np.zeros(6))
    assert gap < -0.1, "the net is inside the base"
    assert folded.ncon == 0


def test_the_ball_touches_every_shape() -> None:
    model, data = load_model(), posed(INITIAL_POSE)
    names = [model.geom(i).name for i in range(model.ngeom) if model.geom(i).name != "ball"]
    assert len(names) >= 13
    simulator = Simulator(1)
    for name in names:
        place = [0.9, 0.0, 0.01] if name == "floor" else data.geom(name).xpos
        outcome = simulator.advance(at_rest(place)[None], np.zeros((1, 5)))
        assert outcome.touched[0], name
        assert outcome.state[0, 0] == pytest.approx(0.002), "stops after the substep of the touch"
        nowhere = simulator.advance(at_rest()[None], np.zeros((1, 5)))
        assert not nowhere.touched[0]
        assert nowhere.state[0, 0] == pytest.approx(0.01)


def test_only_the_net_catches_and_it_wins_over_a_simultaneous_touch() -> None:
    net = net_at_rest()
    forearm = np.array([0.0, -np.sin(1.9), np.cos(1.9)])
    simulator = Simulator(1)
    # 0.09 m back along the forearm is the palm's plate, 0.075 m the socket: both end the flight;
    # at 0.065 m the ball touches the socket and the net's rim at once.
    for back, caught in ((0.0, True), (0.05, True), (0.065, True), (0.1, False), (0.2, False)):
        outcome = simulator.advance(at_rest(net - back * forearm)[None], np.zeros((1, 5)))
        assert outcome.touched[0]
        assert outcome.caught[0] == caught, back
    data = mujoco.MjData(load_model())
    row = at_rest(net - 0.065 * forearm)
    mujoco.mj_setState(load_model(), data, row, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    mujoco.mj_forward(load_model(), data)
    touching = {load_model().geom(i).name for c in data.contact for i in c.geom} - {"ball"}
    assert "net" in touching
    assert len(touching) > 1, "the case is one of several touches at once"


@pytest.mark.parametrize(
    ("side", "expected"), [(+1, 1.0), (-1, -1.0)], ids=["head-on", "from behind"]
)
def test_alignment_is_one_head_on_and_minus_one_from_behind(side: int, expected: float) -> None:
    net = net_at_rest()
    state = at_rest(net + side * np.array([0.05, 0, 0]), [-side * 3.0, 0, 0])[None]
    simulator = Simulator(1)
    for _ in range(3):
        outcome = simulator.advance(state, np.zeros((1, 5)))
        state = outcome.state
        if outcome.touched[0]:
            break
    assert outcome.caught[0]
    assert outcome.alignment[0] == pytest.approx(expected, abs=0.01)


def test_a_fast_ball_does_not_pass_through_the_net() -> None:
    """The fastest throw moves 1.2 cm per substep, the net and the ball are 6 cm thick together."""
    fastest = max(
        np.linalg.norm(initial_state(np.array([a, r, d]), np.random.default_rng(s))[BALL_VELOCITY])
        for a in (0.4, 1.57)
        for r in (0.6, 1.1)
        for d in (0.75, 4.0)
        for s in range(20)
    )
    assert fastest * 0.002 < 2 * 0.01 + 2 * 0.02


def test_physics_do_not_depend_on_copies_threads_or_the_past() -> None:
    rng = np.random.default_rng(4)
    contexts = rng.uniform([0.6, 0.85, 0.75], [0.8, 0.95, 1.2], (12, 3))
    first = np.array([initial_state(c, rng) for c in contexts])
    actions = rng.uniform(-4, 4, (70, 12, 5))

    def run(simulator: Simulator, rows: list[int]) -> tuple[np.ndarray, int]:
        state, history, touches = first[rows], [], 0
        for step in actions[:, rows]:
            outcome = simulator.advance(state, step)
            state = outcome.state
            touches += int(outcome.touched.sum())
            history.append(np.column_stack([*outcome]))
        return np.array(history), touches

    everything = list(range(12))
    alone = Simulator(12)
    expected, touches = run(alone, everything)
    assert touches > 10, "contacts are where a solver's warm start would show"
    assert np.array_equal(run(alone, everything)[0], expected), "the past matters"
    assert np.array_equal(run(Simulator(12, nthread=2), everything)[0], expected)
    assert np.array_equal(run(Simulator(3), [7, 2, 11])[0], expected[:, [7, 2, 11]])
    for i in range(12):
        assert np.array_equal(run(Simulator(1), [i])[0], expected[:, [i]])


def test_five_substeps_equal_plain_stepping() -> None:
    """The rollout is MuJoCo's own step, five times, cold-started once."""
    model, data, rng = load_model(), mujoco.MjData(load_model()), np.random.default_rng(5)
    state = initial_state(np.array([1.0, 0.9, 3.0]), rng)
    simulator = Simulator(1)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    for _ in range(40):
        action = rng.uniform(-4, 4, 5)
        mujoco.mj_resetData(model, data)
        mujoco.mj_setState(model, data, state, full)
        data.ctrl[FREE] = action
        for _ in range(SUBSTEPS):
            mujoco.mj_step(model, data)
        expected = np.empty(STATE_SIZE)
        mujoco.mj_getState(model, data, expected, full)
        outcome = simulator.advance(state[None], action[None])
        assert not outcome.touched[0]
        state = outcome.state[0]
        assert np.array_equal(state, expected)


def test_rollout_checks_accept_what_the_simulator_hands_over() -> None:
    """The simulator skips MuJoCo's checks for speed; with them, the same comes out."""
    rng = np.random.default_rng(6)
    state = np.array([initial_state(np.array([0.7, 0.9, 1.0]), rng) for _ in range(3)])
    control = np.zeros((3, SUBSTEPS, 7))
    control[:, :, FREE] = actions = rng.uniform(-1, 1, (3, 1, 5))
    states, _ = Rollout(nthread=0).rollout(
        load_model(), mujoco.MjData(load_model()), state, control
    )
    assert np.array_equal(Simulator(3).advance(state, actions[:, 0]).state, states[:, -1])
