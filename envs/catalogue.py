"""The setups that pacebench ships, with every figure of their context distributions."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

from pacebench.envs.registry import register, register_environment
from pacebench.envs.setup import Anchors, Setup

ANCHORS_FILE = Path(__file__).with_name("anchors.json")

_SPDL = "Klink et al., A Probabilistic Interpretation of Self-Paced Learning (JMLR 2021)"

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
        threshold=3.5,
        doc="The point mass as SPDL posed it: one narrow frictionless gate, hidden.",
        source=f"{_SPDL}: target, its variances and V₋; initial distribution of the SPGL study.",
    ),
    replace(
        _BALL_CATCHING,
        name="ball-catching-spdl",
        target_variance=(0.2 * math.pi, 0.15, 1.0),
        doc="Ball catching with the wider range of throwing angles that SPDL used; hidden.",
        source=f"{_SPDL}: variance of the angle; otherwise as ball-catching.",
    ),
)

ENVIRONMENTS = {
    "point-mass": "pacebench.envs.point_mass:PointMassBatch",
    "lunar-lander": "pacebench.envs.lunar_lander:LunarLanderBatch",
    "ball-catching": "pacebench.envs.ball_catching:BallCatchingBatch",
}


def load_anchors() -> dict[str, Anchors]:
    """Returns the measured anchors per setup; empty before the first measurement."""
    if not ANCHORS_FILE.exists():
        return {}
    stored = json.loads(ANCHORS_FILE.read_text(encoding="utf-8"))
    return {name: Anchors.from_dict(anchors) for name, anchors in stored.items()}


def register_all() -> None:
    """Registers the environments and the setups, with their anchors."""
    for name, location in ENVIRONMENTS.items():
        register_environment(name, location)
    anchors = load_anchors()
    for spec in SETUPS:
        register(replace(spec, anchors=anchors.get(spec.name)))
