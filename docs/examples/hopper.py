"""Hopper-v5 with another mass of the torso and friction of the foot, set in MuJoCo's model."""

from pacebench import envs

SETUP = envs.from_gymnasium(
    "Hopper-v5",
    name="hopper",
    context={
        "torso mass": {"bounds": (2.0, 8.0), "at": "model.body_mass[1]"},
        # The floor's friction is 1, and MuJoCo takes the larger of the two.
        "foot friction": {"bounds": (1.0, 3.0), "at": "model.geom_friction[4, 0]"},
    },
    initial={"mean": [3.7, 2.0], "variance": [0.04, 0.01]},
    target={"mean": [6.0, 1.3], "variance": [0.25, 0.01]},
    threshold=100.0,
    success={"return": 1000.0},
    reference_return=3000.0,
)
