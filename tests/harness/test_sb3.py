"""Our curricula inside a plain Stable-Baselines3 script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

from pacebench import curricula, envs
from pacebench.harness.errors import UserError
from pacebench.harness.sb3 import CurriculumCallback, CurriculumWrapper
from tests.harness.training.cells import curriculum_of

SETUP = envs.setup("point-mass-2")


def make_env(curriculum: curricula.Curriculum) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("pacebench/PointMass-v0", setup="point-mass-2")
    return CurriculumWrapper(env, curriculum)


def train(curriculum: curricula.Curriculum, steps: int = 4000, **options: Any) -> tuple[Any, Any]:
    env = make_vec_env(lambda: make_env(curriculum), n_envs=4, seed=0)
    model = PPO("MlpPolicy", env, gamma=0.95, n_steps=128, n_epochs=1, seed=0, device="cpu")
    callback = CurriculumCallback(curriculum, episodes=6, **options)
    model.learn(steps, callback=callback)
    return callback, env


def test_five_lines_move_the_distribution() -> None:
    # Returns are positive: with the threshold at 0 every update is a convergence step.
    curriculum = curriculum_of("spgl", SETUP, threshold=0.0)
    before = curriculum.target.kl(curriculum.distribution)
    callback, env = train(curriculum)
    assert len(callback.records) >= 3
    assert curriculum.updates == len(callback.records)
    assert curriculum.target.kl(curriculum.distribution) < before
    assert all(record.mean_value > 0 for record in callback.records)
    # The environments draw from where the curriculum has arrived.
    for inner in env.envs:
        assert inner.get_wrapper_attr("curriculum_state")() == curriculum.state_dict()


def test_a_time_limit_outside_of_the_wrapper_is_named() -> None:
    curriculum = curriculum_of("linear", SETUP)

    def limited() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.TimeLimit(make_env(curriculum), 5)

    model = PPO("MlpPolicy", make_vec_env(limited, n_envs=2), n_steps=16, device="cpu")
    with pytest.raises(UserError, match="put TimeLimit"):
        model.learn(64, callback=CurriculumCallback(curriculum))


def test_the_script_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?CurriculumCallback.*?)```", readme, re.DOTALL)
    shorter = script.replace("20_480", "4_096")
    assert shorter != script
    exec(compile(shorter, "README.md", "exec"), {})
    mean = np.array(capsys.readouterr().out.strip().strip("[]").split(), dtype=float)
    assert mean.shape == (3,)


def test_values_are_the_discounted_returns_of_the_cohort(monkeypatch: pytest.MonkeyPatch) -> None:
    curriculum = curriculum_of("linear", SETUP)
    given: list[tuple[Any, Any, int]] = []
    update = curriculum.update

    def watched(episodes: curricula.Episodes) -> Any:
        given.append((episodes.contexts.copy(), np.array(episodes.values), curriculum.updates))
        return update(episodes)

    drawn: dict[int, set[tuple[float, ...]]] = {}
    sample = type(curriculum).sample

    def noted(self: curricula.Curriculum, n: int, rng: Any) -> Any:
        contexts = sample(self, n, rng)
        drawn.setdefault(self.updates, set()).update(map(tuple, contexts))
        return contexts

    monkeypatch.setattr(curriculum, "update", watched)
    monkeypatch.setattr(type(curriculum), "sample", noted)
    train(curriculum)
    assert len(given) >= 3
    for contexts, values, version in given:
        assert {tuple(c) for c in contexts} <= drawn[version], "contexts of an old distribution"
        assert np.all((values > 0) & (values < 1 / (1 - SETUP.gamma)))


def test_the_schedule_is_kept() -> None:
    curriculum = curriculum_of("linear", SETUP)
    callback, _ = train(curriculum, steps=5 * 512, warm_up=4)
    assert len(callback.records) == 1


def test_a_wrapped_environment_is_reproducible_and_obeys_a_given_context() -> None:
    curriculum = curriculum_of("initial", SETUP)
    one, other = make_env(curriculum), make_env(curriculum)
    contexts = [[e.reset(seed=3)[1]["context"], e.reset()[1]["context"]] for e in (one, other)]
    np.testing.assert_array_equal(contexts[0], contexts[1])
    assert not np.array_equal(contexts[0][0], contexts[0][1])
    _, info = one.reset(options={"context": [1.0, 2.0, 0.5]})
    np.testing.assert_array_equal(info["context"], [1.0, 2.0, 0.5])


def test_off_policy_and_normalised_environments_work() -> None:
    curriculum = curriculum_of("linear", SETUP)
    env = VecNormalize(make_vec_env(lambda: make_env(curriculum), n_envs=4, seed=0))
    model = SAC(
        "MlpPolicy", env, learning_starts=600, train_freq=50, gradient_steps=1, device="cpu", seed=0
    )
    callback = CurriculumCallback(curriculum, episodes=5)
    model.learn(1600, callback=callback)
    assert callback.records


def test_environments_in_other_processes_follow() -> None:
    curriculum = curriculum_of("linear", SETUP)
    env = SubprocVecEnv([lambda: make_env(curriculum)] * 2, start_method="fork")
    try:
        model = PPO("MlpPolicy", env, n_steps=256, n_epochs=1, seed=0, device="cpu")
        model.learn(512, callback=CurriculumCallback(curriculum, episodes=2))
        assert curriculum.updates >= 1
        for state in env.env_method("curriculum_state"):
            assert state == curriculum.state_dict()
    finally:
        env.close()


def test_mistakes_are_named() -> None:
    curriculum = curriculum_of("initial", SETUP)
    with pytest.raises(UserError, match="gamma"):
        CurriculumWrapper(gymnasium.make("Pendulum-v1"), curriculum)
    with pytest.raises(UserError, match="episodes"):
        CurriculumCallback(curriculum, episodes=0)
    env = make_vec_env(lambda: gymnasium.make("pacebench/PointMass-v0"), n_envs=1)
    model = PPO("MlpPolicy", env, n_steps=128, device="cpu")
    with pytest.raises(UserError, match="CurriculumWrapper"):
        model.learn(256, callback=CurriculumCallback(curriculum))
