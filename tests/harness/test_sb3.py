"""Our curricula inside a plain Stable-Baselines3 script."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common import utils
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

from pacebench import curricula, envs
from pacebench.harness.errors import UserError
from pacebench.harness.sb3 import CurriculumCallback, CurriculumWrapper, evaluate_on_target
from tests.harness.training.cells import curriculum_of

SETUP = envs.setup("point-mass-2")


@pytest.fixture(autouse=True)
def without_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps models from making a folder in the temporary directory at every call of `learn`."""
    monkeypatch.setattr(utils, "configure_logger", lambda *_: Logger(None, []))


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


def test_the_curriculum_travels_with_the_model(tmp_path: Path) -> None:
    curriculum = curriculum_of("spgl", SETUP, threshold=0.0)
    callback, env = train(curriculum, steps=2000)
    assert callback.records
    callback.model.save(tmp_path / "model")
    env.close()

    fresh = curriculum_of("spgl", SETUP, threshold=0.0)
    again = make_vec_env(lambda: make_env(fresh), n_envs=4, seed=1)
    model = PPO.load(tmp_path / "model", env=again, device="cpu")
    follower = CurriculumCallback(fresh, episodes=10**6)
    model.learn(512, callback=follower, reset_num_timesteps=False)
    assert fresh.state_dict() == curriculum.state_dict()
    assert again.envs[0].get_wrapper_attr("curriculum_state")() == curriculum.state_dict()
    with pytest.raises(UserError, match=r"another curriculum: .* pass resume=False"):
        model.learn(512, callback=CurriculumCallback(curriculum_of("linear", SETUP)))
    anew = curriculum_of("spgl", SETUP, threshold=0.0)
    model.learn(512, callback=CurriculumCallback(anew, episodes=10**6, resume=False))
    assert anew.updates == 0

    copied = pickle.loads(pickle.dumps(callback))
    assert copied.curriculum.state_dict() == curriculum.state_dict()
    assert copied.records == callback.records


class Ignorant(gymnasium.Env[Any, Any]):
    """Takes a context and does nothing with it, or only after some steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reacts_after: float = np.inf) -> None:
        self.after, self.given = reacts_after, np.zeros(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.given, self.steps = options["context"], 0
        return self.np_random.random(1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        reward = float(self.given[0]) if self.steps > self.after else 0.0
        return self.np_random.random(1), reward, False, self.steps >= 30, {}


def test_an_environment_that_ignores_its_context_is_refused() -> None:
    curriculum = curriculum_of("initial", SETUP)
    with pytest.raises(UserError, match=r"ignores its context.*options=.*check=False"):
        CurriculumWrapper(Ignorant(), curriculum, gamma=0.9).reset()
    CurriculumWrapper(Ignorant(), curriculum, gamma=0.9, check=False).reset()
    # Hidden contexts show themselves later, and asking for them leaves no trace.
    late = [CurriculumWrapper(Ignorant(20), curriculum, gamma=0.9) for _ in range(2)]
    assert late[0].reset(seed=4)[0] == late[1].reset(seed=4)[0]
    fresh = [CurriculumWrapper(Ignorant(20), curriculum, gamma=0.9).reset()[0] for _ in range(2)]
    assert fresh[0] != fresh[1], "without a seed every copy has a stream of its own"
    for name in envs.names():
        setup = envs.setup(name)
        env = envs.make(name)
        CurriculumWrapper(env, curriculum_of("initial", setup)).reset(seed=0)
        env.close()


def test_contexts_are_clipped_for_the_environment_alone() -> None:
    curriculum = curriculum_of("initial", SETUP)
    inner = Ignorant(0)
    env = CurriculumWrapper(inner, curriculum, gamma=0.9, bounds=([0, 0, 0], [1, 1, 1]))
    env.reset(options={"context": [5.0, -3.0, 0.5]})
    np.testing.assert_array_equal(inner.given, [1.0, 0.0, 0.5])
    for _ in range(30):
        *_, info = env.step(0)
    np.testing.assert_array_equal(info["curriculum_episode"][0], [5.0, -3.0, 0.5])
    by_curriculum = CurriculumWrapper(inner, curriculum, gamma=0.9)
    by_curriculum.reset(options={"context": [99.0, 99.0, 99.0]})
    np.testing.assert_array_equal(inner.given, SETUP.upper)


def test_one_thread_while_it_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    curriculum = curriculum_of("initial", SETUP)
    during: list[int] = []
    monkeypatch.setattr(curriculum, "state_dict", lambda: during.append(torch.get_num_threads()))
    monkeypatch.setattr(CurriculumCallback, "_send_curriculum", lambda _: None)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for variable, threads in (("", 1), ("2", 2)):
            during.clear()
            if variable:
                monkeypatch.setenv("OMP_NUM_THREADS", variable)
            else:
                monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
            train(curriculum, steps=512)
            assert set(during) == {threads}
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_target_is_what_a_model_is_evaluated_on() -> None:
    curriculum = curriculum_of("initial", SETUP)
    env = make_vec_env(lambda: make_env(curriculum), n_envs=1, seed=0)
    model = PPO("MlpPolicy", VecNormalize(env), n_steps=32, seed=0, device="cpu")
    one, other = (
        evaluate_on_target(model, make_env(curriculum), curriculum, episodes=5, seed=3)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.returns, other.returns)
    expected = curriculum.target.sample(5, np.random.default_rng(3))
    np.testing.assert_array_equal(one.contexts, expected)
    assert one.mean == one.returns.mean() > 0
    assert (one.lengths > 0).all()
