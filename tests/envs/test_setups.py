"""The catalogue's figures, the frozen spec and the registry."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from pacebench import envs

PI = math.pi
# name: target mean, target variance, initial mean, initial variance, V₋, visible, γ, steps
TABLE = {
    "point-mass-1": (
        (2.6, 0.7, 0.1),
        (9e-4, 4e-4, 1e-4),
        (0, 4, 2),
        (4, 3.5, 1),
        5,
        False,
        0.95,
        100,
    ),
    "point-mass-2": ((2.5, 0.7, 0.1), (1, 9e-4, 1e-4), (0, 4, 2), (4, 3.5, 1), 5, True, 0.95, 100),
    "lunar-lander": (
        (-10, 15, 1.5),
        (1, 9, 0.09),
        (-7, 10, 1),
        (4, 16, 0.16),
        1,
        False,
        0.99,
        1000,
    ),
    "ball-catching": (
        (0.34 * PI, 0.85, 2.37),
        (0.1 * PI, 0.15, 1),
        (0.68, 0.9, 0.85),
        (1e-3, 1e-3, 0.1),
        42.5,
        False,
        0.995,
        200,
    ),
    "point-mass-spdl": (
        (2.5, 0.5, 0),
        (1.6e-5, 1.40625e-5, 4e-6),
        (0, 4.25, 2),
        (4, 3.515625, 1),
        3.5,
        False,
        0.95,
        100,
    ),
    "ball-catching-spdl": (
        (0.34 * PI, 0.85, 2.37),
        (0.2 * PI, 0.15, 1),
        (0.68, 0.9, 0.85),
        (1e-3, 1e-3, 0.1),
        42.5,
        False,
        0.995,
        200,
    ),
    "point-mass-2d": ((0, 0.5), (9.0001, 1e-4), (0, 4.25), (4, 3.515625), 4, True, 0.95, 100),
    "sparse-maze": (
        (0, 0, 0.05),
        (74 / 3, 74 / 3, 1e-4),
        (0, 0, 10),
        (16, 16, 25),
        -52,
        True,
        0.995,
        200,
    ),
}
BOUNDS = {
    "point-mass": ((-4, 0.5, 0), (4, 8, 4)),
    "lunar-lander": ((-11.99, 0, 0), (-0.01, 20, 2)),
    "ball-catching": ((0.125 * PI, 0.6, 0.75), (0.5 * PI, 1.1, 4)),
    "sparse-maze": ((-9, -9, 0.05), (9, 9, 18)),
}


@pytest.mark.parametrize("name", TABLE)
def test_figures(name: str) -> None:
    s = envs.setup(name)
    target, target_variance, initial, initial_variance, threshold, visible, gamma, steps = TABLE[
        name
    ]
    assert s.target_mean == pytest.approx(target)
    assert s.target_variance == pytest.approx(target_variance)
    assert s.initial_mean == pytest.approx(initial)
    assert s.initial_variance == pytest.approx(initial_variance)
    assert (s.threshold, s.visible, s.gamma, s.horizon) == (threshold, visible, gamma, steps)
    lower, upper = BOUNDS[s.environment]
    assert (s.lower, s.upper) == (lower[: s.dim], upper[: s.dim])
    assert len(s.doc) > 40
    assert len(s.source) > 20
    assert s.success


def test_all_of_ours_are_in_the_table() -> None:
    assert {n for n in envs.names() if envs.origin(n) == "pacebench"} == set(TABLE)


def test_a_setup_survives_json_and_cannot_be_changed(name: str) -> None:
    s = envs.setup(name)
    assert envs.Setup.from_dict(json.loads(json.dumps(s.to_dict()))) == s
    with pytest.raises(dataclasses.FrozenInstanceError):
        s.gamma = 0.5  # type: ignore[misc]
    assert hash(s) == hash(envs.Setup.from_dict(s.to_dict()))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target_variance": (1.0, 0.0, 1.0)}, "'target_variance' must be positive"),
        ({"initial_mean": (1.0, 2.0)}, "'initial_mean' needs 3 finite numbers"),
        ({"target_mean": (1.0, math.nan, 0.0)}, "'target_mean' needs 3 finite numbers"),
        ({"lower": (5.0, 0.5, 0.0)}, "'lower' must be below 'upper'"),
        ({"gamma": 1.5}, "'gamma' must be in"),
        ({"horizon": 0}, "'horizon' must be at least one"),
        ({"threshold": math.inf}, "'threshold' must be finite"),
    ],
)
def test_figures_that_do_not_fit_are_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(envs.SetupError, match=sentence):
        dataclasses.replace(envs.setup("point-mass-1"), **change)  # type: ignore[arg-type]


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(envs.UnknownNameError, match="did you mean 'point-mass-2'"):
        envs.make_batch("pointmass-2", 1, 0)


def test_a_setup_of_ones_own() -> None:
    mine = dataclasses.replace(
        envs.setup("point-mass-1"), name="mine", target_mean=(1.0, 1.0, 1.0), anchors=None
    )
    envs.register(mine)
    try:
        assert "mine" in envs.names()
        assert envs.make_batch("mine", 2, 0).reset(np.ones((2, 3))).shape == (2, 4)
        with pytest.raises(ValueError, match="registered already"):
            envs.register(dataclasses.replace(mine, gamma=0.9))
    finally:
        envs.unregister("mine")
    assert "mine" not in envs.names()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ("nowhere_to_be_found:Batch", "cannot be imported"),
        ("pacebench.envs.point_mass:Nothing", "cannot be imported"),
        ("pacebench.envs.errors:SetupError", "is no envs.BatchEnv"),
    ],
)
def test_environments_that_are_none_are_refused(environment: str, sentence: str) -> None:
    wrong = dataclasses.replace(envs.setup("point-mass-1"), environment=environment)
    with pytest.raises(envs.SetupError, match=sentence):
        envs.make(wrong)


def test_bad_sizes_seeds_and_modes_are_refused() -> None:
    for n in (0, -1, 2.5, True, "3"):
        with pytest.raises(envs.SetupError, match="num_envs must be a positive integer"):
            envs.make_batch("point-mass-1", n, 0)  # type: ignore[arg-type]
    for seed in (-1, 1.5, None, "1", True):
        with pytest.raises(envs.SetupError, match="seed must be"):
            envs.make_batch("point-mass-1", 2, seed)  # type: ignore[arg-type]
    with pytest.raises(envs.SetupError, match="3 seeds were given for 2 copies"):
        envs.make_batch("point-mass-1", 2, [1, 2, 3])
    with pytest.raises(envs.SetupError, match="seed must be a non-negative"):
        envs.make_batch("point-mass-1", 2, [1, -2])
    with pytest.raises(envs.SetupError, match="render_mode"):
        envs.make("point-mass-1", render_mode="human")


def test_importing_envs_imports_no_physics_engine() -> None:
    heavy = ("mujoco", "Box2D", "pygame", "torch", "matplotlib", "pandas", "PIL")
    code = (
        "import sys; from pacebench import envs; envs.names()\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_point_mass_cannot_return_more_than_its_range() -> None:
    """The bound is the sum of its reasoning, and the best flight in the open stays below it."""
    setup = envs.setup("point-mass-1")
    assert setup.max_return is not None
    nearest = np.maximum(0.0, 6.0 - 8.0 * (np.arange(1, 101) / 10) ** 2)
    assert np.exp(-0.6 * nearest).sum() <= setup.max_return < 94
    batch = envs.make_batch(setup, 64, seed=0)
    batch.reset(np.tile([0.0, 8.0, 0.0], (64, 1)))
    total = np.zeros(64)
    for step in range(100):
        # Full force down for half the way, full force up for the other half, then hold.
        force = np.where(batch._position[-1, 1] > 0.0, -10.0, 10.0) if step < 13 else np.zeros(64)
        if step >= 13:
            pull = 40 * (np.array([[0.0], [-3.0]]) - batch._position[-1]) - 9 * batch._velocity[-1]
            actions = np.clip(pull, -10, 10).T
        else:
            actions = np.stack([np.zeros(64), force], axis=1)
        total += batch.step(actions)[1]
    assert 85 < total.mean() < total.max() < setup.max_return


def test_ball_catching_cannot_leave_its_range() -> None:
    setup = envs.setup("ball-catching")
    fastest = 2 * np.array([1.985, 2.02, 2.9, 1.57, 2.7])
    worst = 0.275 - 5e-3 * float((fastest**2).sum())
    assert setup.min_return is not None
    assert setup.max_return is not None
    assert setup.min_return <= setup.horizon * worst
    assert setup.max_return >= setup.horizon * 0.275 + 50 + 25


def test_targets_that_are_not_gaussian() -> None:
    rng = np.random.default_rng(0)
    two = envs.setup("point-mass-2d")
    drawn = two.sample("target", 4000, rng)
    left = drawn[:, 0] < 0
    assert 0.45 < left.mean() < 0.55
    for side, mean in ((left, -3.0), (~left, 3.0)):
        assert np.abs(drawn[side].mean(axis=0) - (mean, 0.5)).max() < 0.002
        assert drawn[side].std(axis=0) == pytest.approx([0.01, 0.01], rel=0.1)
    initial = two.sample("initial", 4000, rng)
    assert (initial >= two.lower).all()
    assert (initial <= two.upper).all()
    # The Gaussian that stands in for a mixture has its moments.
    assert two.target is not None
    mean, variance = two.target.moments()
    assert (mean, variance) == (pytest.approx(two.target_mean), pytest.approx(two.target_variance))
    goals = envs.setup("sparse-maze").sample("target", 4000, rng)
    far = np.abs(goals[:, :2]).max(axis=1)
    assert ((far >= 5) & (far <= 7)).all()
    assert (goals[:, 2] == 0.05).all()
    assert (goals[:, :2] ** 2).mean(axis=0) == pytest.approx([74 / 3] * 2, rel=0.05)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (envs.MixtureSpec(((0.0, 1.0),), ((1.0, 1.0),), (1.0,)), "'means' needs 3 finite numbers"),
        (envs.MixtureSpec(((0.0,) * 3,), ((1.0,) * 3,), (0.5,)), "must sum to 1"),
        (envs.MixtureSpec(((0.0,) * 3,), ((0.0,) * 3,), (1.0,)), "must be positive"),
        (envs.UniformSpec((1.0,) * 3, (0.0,) * 3), "must not exceed"),
        (envs.SamplerSpec("nowhere"), "must be module:function"),
    ],
)
def test_distributions_that_do_not_fit_are_refused(target: envs.ContextSpec, sentence: str) -> None:
    with pytest.raises(envs.SetupError, match=sentence):
        dataclasses.replace(envs.setup("point-mass-1"), target=target)


def test_methods_have_what_was_published_for_the_task() -> None:
    from pacebench.harness.study.expand import expand
    from pacebench.harness.study.models import Study

    bare = {"std_floor": None, "kl_threshold": None}
    names = ("spdl", "spgl", "acl", "plr", "currot", "alp-gmm", "goal-gan")
    study = Study.model_validate(
        {
            "name": "constants",
            "question": "Which constants?",
            "curricula": [*names, {"name": "spdl", "label": "bare", "options": bare}],
            "setups": ["point-mass-1", *(n for n in TABLE if envs.setup(n).options)],
            "seeds": {"count": 1},
            "budget": 100_000,
        }
    )
    found = {(run.label, run.cell.setup): run.cell.curriculum.options for run in expand(study)}
    # What SPDL's authors kept its standard deviations above, unless a study says otherwise.
    for setup, d in (("point-mass-spdl", 3), ("point-mass-2d", 2)):
        floor = found["spdl", setup]
        assert (floor["std_floor"], floor["kl_threshold"]) == ([0.2, 0.1875, 0.1][:d], 8000)
        assert found["bare", setup]["std_floor"] is None
    for setup in ("point-mass-1", "sparse-maze", "ball-catching-spdl"):
        assert found["spdl", setup]["std_floor"] is None
    assert "std_floor" not in found["spgl", "point-mass-spdl"]

    def told(name: str, *options: str) -> list[tuple[object, ...]]:
        """On Point Mass, on the maze, and in SPDL's Ball Catching."""
        setups = ("point-mass-2d", "sparse-maze", "ball-catching-spdl")
        return [tuple(found[name, setup][o] for o in options) for setup in setups]

    assert told("acl", "rate") == [(0.025,), (0.05,), (0.025,)]
    assert told("plr", "replay_rate", "beta", "rho")[:2] == [(0.85, 0.45, 0.15), (0.55, 0.15, 0.45)]
    assert told("currot", "metric_epsilon") == [(None,), (1.5,), (None,)]
    alp = [(100, 0.1, 500), (200, 0.2, 500), (200, 0.3, 2000)]
    assert told("alp-gmm", "fit_rate", "uniform", "history") == alp
    assert told("goal-gan", "rollouts", "old") == [(2, 0.2), (4, 0.2), (2, 0.3)]
