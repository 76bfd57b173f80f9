"""CartPole-v1 under other pole lengths and forces: discrete actions, and a context by a function.

CartPole computes constants from the length when it is made, so setting `length` alone would leave
half of its physics with the old one.
"""

from typing import Any

from pacebench import envs


def set_pole(env: Any, context: dict[str, float]) -> None:
    """Sets what the length and the force decide."""
    env.length = context["length"]
    env.polemass_length = env.masspole * env.length
    env.force_mag = context["force"]


def balanced(env: Any, info: dict[str, Any]) -> bool:
    """The pole is still up, so the episode ended by its time limit."""
    return bool(abs(env.state[2]) < env.theta_threshold_radians)


SETUP = envs.from_gymnasium(
    "CartPole-v1",
    name="cartpole",
    context={"length": (0.1, 2.0), "force": (2.0, 20.0)},
    apply=set_pole,
    initial={"mean": [0.5, 10.0], "variance": [0.01, 1.0]},
    target={"mean": [0.2, 5.0], "variance": [0.0025, 0.25]},
    threshold=60.0,
    success=balanced,
    min_return=0.0,
    max_return=500.0,
    reference_return=500.0,
)
