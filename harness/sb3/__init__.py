"""Our curricula inside your own Stable-Baselines3 script.

    curriculum = curricula.make("spgl", target=target, initial=initial, threshold=5.0)
    env = make_vec_env(lambda: CurriculumWrapper(make_my_env(), curriculum, gamma=0.95), n_envs=16)
    model = PPO("MlpPolicy", env, gamma=0.95)
    model.learn(400_000, callback=CurriculumCallback(curriculum))
    print(evaluate_on_target(model, make_my_env(), curriculum).mean)

The environment must take its context as `reset(options={"context": c})`; ours do
(`gymnasium.make("pacebench/PointMass-v0", setup="point-mass-2")`). Any algorithm and any vectorised
environment of Stable-Baselines3 will do, subprocesses and `VecNormalize` included. The state of the
curriculum travels with the model: `model.save` keeps it, and training goes on from it after `load`.
"""

from __future__ import annotations

from pacebench.harness.sb3.callback import CurriculumCallback
from pacebench.harness.sb3.evaluate import TargetScores, evaluate_on_target
from pacebench.harness.sb3.wrapper import CurriculumWrapper

__all__ = ["CurriculumCallback", "CurriculumWrapper", "TargetScores", "evaluate_on_target"]
