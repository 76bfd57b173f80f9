"""Pendulum-v1 under other gravities, masses and lengths; all three are attributes it reads."""

from pacebench import envs

SETUP = envs.from_gymnasium(
    "Pendulum-v1",
    name="pendulum",
    context={"g": (5.0, 15.0), "m": (0.5, 1.5), "l": (0.5, 1.5)},
    initial={"mean": {"g": 7.0, "m": 0.7, "l": 0.7}, "variance": {"g": 1.0, "m": 0.01, "l": 0.01}},
    target={"mean": {"g": 11.0, "m": 1.1, "l": 1.1}, "variance": {"g": 0.1, "m": 0.01, "l": 0.01}},
    threshold=-40.0,
    gamma=0.95,
    success={"return": -400.0},
    # 200 steps at an angle of π, a speed of 8 and a torque of 2 cost 16.2736 each.
    min_return=-3254.8,
    max_return=0.0,
    reference_return=-250.0,
)
