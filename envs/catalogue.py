"""The setups that pacebench ships, with every figure of their context distributions."""

from __future__ import annotations

import math
from dataclasses import replace

from pacebench.envs.distributions import MixtureSpec, SamplerSpec, UniformSpec
from pacebench.envs.registry import register, register_environment
from pacebench.envs.setup import Setup

_SPDL = "Klink et al., A Probabilistic Interpretation of Self-Paced Learning (JMLR 2021)"
_CURROT = "Klink et al., Curriculum Reinforcement Learning via Constrained Optimal Transport (2022)"

# SPDL's authors keep the standard deviations up while the target is far away. The published method
# is never run without this unless a study says so.
_SPDL_FLOOR = [0.2, 0.1875, 0.1]


def _floored(dimensions: int) -> dict[str, dict[str, object]]:
    floor = {"std_floor": _SPDL_FLOOR[:dimensions], "kl_threshold": 8000.0}
    return {name: dict(floor) for name in ("spdl", "spdl-sqp")}


_POINT_MASS = Setup(
    name="point-mass-1",
    environment="point-mass",
    context_names=("gate position", "gate width", "friction"),
    target_mean=(2.6, 0.7, 0.1),
    target_variance=(9e-4, 4e-4, 1e-4),
    initial_mean=(0.0, 4.0, 2.0),
    initial_variance=(4.0, 3.5, 1.0),
    lower=(-4.0, 0.5, 0.0),
    upper=(4.0, 8.0, 4.0),
    threshold=5.0,
    visible=False,
    gamma=0.95,
    horizon=100,
    doc="Steer a point mass through one narrow gate far off the straight line to the goal; the "
    "gate cannot be seen, and the target is almost a single context.",
    source=f"Point Mass of {_SPDL}; context distributions of the SPGL study, setup 1.",
    success="within 0.25 of the goal when the episode ends",
    # Rewards are positive. Force and twenty standard deviations of noise accelerate by less than
    # 16 m/s², so after t seconds the goal, 6 m away, is still 6 − 8 t² m away or more:
    # Σ exp(−0.6 max(0, 6 − 8 (k/10)²)) over k = 1 … 100 is 93.28.
    min_return=0.0,
    max_return=93.3,
)

_LUNAR_LANDER = Setup(
    name="lunar-lander",
    environment="lunar-lander",
    context_names=("gravity", "wind power", "turbulence power"),
    target_mean=(-10.0, 15.0, 1.5),
    target_variance=(1.0, 9.0, 0.09),
    initial_mean=(-7.0, 10.0, 1.0),
    initial_variance=(4.0, 16.0, 0.16),
    lower=(-11.99, 0.0, 0.0),
    upper=(-0.01, 20.0, 2.0),
    threshold=1.0,
    visible=False,
    gamma=0.99,
    horizon=1000,
    doc="Land on the pad with continuous engines under strong gravity, wind and turbulence; the "
    "context is hidden. Rewards reach hundreds: learners should normalise values.",
    source="Gymnasium LunarLander-v3 (continuous, wind), physics unmodified; context distributions "
    "of the SPGL study.",
    success="the body has come to rest (the +100 ending) with both legs on the ground, between the "
    "flags",
)

_BALL_CATCHING = Setup(
    name="ball-catching",
    environment="ball-catching",
    context_names=("angle", "radius", "distance"),
    target_mean=(0.34 * math.pi, 0.85, 2.37),
    target_variance=(0.1 * math.pi, 0.15, 1.0),
    initial_mean=(0.68, 0.9, 0.85),
    initial_variance=(1e-3, 1e-3, 0.1),
    lower=(0.125 * math.pi, 0.6, 0.75),
    upper=(0.5 * math.pi, 1.1, 4.0),
    threshold=42.5,
    visible=False,
    gamma=0.995,
    horizon=200,
    doc="Catch a thrown ball with the net of a Barrett WAM. The context says where and from how "
    "far the ball is thrown; it is hidden, but the ball is observed.",
    source=f"Ball Catching of {_SPDL}, rebuilt from primitives; context distributions of the SPGL "
    "study, with the initial radius at the net's initial position (0.9; from the published 0.65 "
    "holding still catches nothing).",
    success="the ball has touched the net before anything else",
    # 200 steps at full speed of all joints cost 0.249 each; holding still earns 0.275 each, and
    # the best catch 75.
    min_return=-49.8,
    max_return=130.0,
)

_SPARSE_MAZE = Setup(
    name="sparse-maze",
    environment="sparse-maze",
    context_names=("goal x", "goal y", "tolerance"),
    # The moments of the target, and a tolerance that is almost always clipped to the smallest.
    target_mean=(0.0, 0.0, 0.05),
    target_variance=(74 / 3, 74 / 3, 1e-4),
    target=SamplerSpec("pacebench.envs.sparse_maze.ring:feasible_goals"),
    initial_mean=(0.0, 0.0, 10.0),
    initial_variance=(16.0, 16.0, 25.0),
    lower=(-9.0, -9.0, 0.05),
    upper=(9.0, 9.0, 18.0),
    threshold=-52.0,
    visible=True,
    gamma=0.995,
    horizon=200,
    doc="Walk a square corridor to a goal anywhere in it, by steps that all cost the same: nothing "
    "tells a walker that it comes nearer. The goal and its tolerance are observed.",
    source=f"Sparse goal reaching of {_CURROT}, and its code: options of the methods. Its authors "
    "demand a success rate of 0.8 (δ); V₋ is the discounted return of reaching 0.8 of the target "
    "goals as fast as the reference does.",
    success="nearer to the goal than the tolerance",
    # Each of at most 200 steps costs 1, or nothing.
    min_return=-200.0,
    max_return=0.0,
    options={
        "acl": {"rate": 0.05},
        "plr": {"replay_rate": 0.55, "beta": 0.15, "rho": 0.45},
        "currot": {"metric_epsilon": 1.5},
        "alp-gmm": {"fit_rate": 200, "uniform": 0.2},
        "goal-gan": {"rollouts": 4},
    },
)

SETUPS = (
    _POINT_MASS,
    replace(
        _POINT_MASS,
        name="point-mass-2",
        target_mean=(2.5, 0.7, 0.1),
        target_variance=(1.0, 9e-4, 1e-4),
        visible=True,
        doc="Steer a point mass through a narrow gate that may be anywhere along the wall; the "
        "gate and the friction are observed.",
        source=f"Point Mass of {_SPDL}; context distributions of the SPGL study, setup 2.",
    ),
    _LUNAR_LANDER,
    _BALL_CATCHING,
    replace(
        _POINT_MASS,
        name="point-mass-spdl",
        target_mean=(2.5, 0.5, 0.0),
        target_variance=(4e-3**2, 3.75e-3**2, 2e-3**2),
        initial_mean=(0.0, 4.25, 2.0),
        initial_variance=(4.0, 1.875**2, 1.0),
        threshold=3.5,
        doc="The point mass as SPDL posed it: one narrow frictionless gate, hidden.",
        source=f"{_SPDL} and its code: both distributions, V₋, and the floor of SPDL's standard "
        "deviations.",
        options=_floored(3),
    ),
    replace(
        _BALL_CATCHING,
        name="ball-catching-spdl",
        target_variance=(0.2 * math.pi, 0.15, 1.0),
        doc="Ball catching with the wider range of throwing angles that SPDL used; hidden.",
        source=f"{_SPDL} and its code: variance of the angle, and options of ALP-GMM and GoalGAN; "
        "otherwise as ball-catching. SPDL itself had no floor there.",
        options={
            "alp-gmm": {"fit_rate": 200, "uniform": 0.3, "history": 2000},
            "goal-gan": {"old": 0.3},
        },
    ),
    replace(
        _POINT_MASS,
        name="point-mass-2d",
        context_names=("gate position", "gate width"),
        target_mean=(0.0, 0.5),
        target_variance=(9.0001, 1e-4),
        target=MixtureSpec(((3.0, 0.5), (-3.0, 0.5)), ((1e-4, 1e-4),) * 2, (0.5, 0.5)),
        initial_mean=(0.0, 4.25),
        initial_variance=(4.0, 1.875**2),
        initial=UniformSpec((-4.0, 0.5), (4.0, 8.0)),
        lower=(-4.0, 0.5),
        upper=(4.0, 8.0),
        threshold=4.0,
        visible=True,
        doc="Steer a frictionless point mass through a narrow gate that is far to the left or far "
        "to the right; the gate is observed. The target has two modes.",
        source=f"Point mass of {_CURROT}; methods that need a Gaussian begin with its authors' "
        "and aim at the target's mean and variance. SPDL has the floor that it had there.",
        options=_floored(2),
    ),
    _SPARSE_MAZE,
)

ENVIRONMENTS = {
    "point-mass": "pacebench.envs.point_mass:PointMassBatch",
    "lunar-lander": "pacebench.envs.lunar_lander:LunarLanderBatch",
    "ball-catching": "pacebench.envs.ball_catching:BallCatchingBatch",
    "sparse-maze": "pacebench.envs.sparse_maze:SparseMazeBatch",
}


def register_all() -> None:
    """Registers the environments and the setups; `anchors.json` beside this has their anchors."""
    for name, location in ENVIRONMENTS.items():
        register_environment(name, location)
    for spec in SETUPS:
        register(spec)
