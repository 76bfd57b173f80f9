"""One iteration of `ppo` is one iteration of Stable-Baselines3's PPO, number by number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from pacebench import envs
from pacebench.harness import learners
from pacebench.harness.learners.base import EnvStep
from pacebench.harness.learners.batched.agents import BatchedPPO
from pacebench.harness.learners.batched.normalise import Normaliser
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.learners.sb3_agents import PPOAgent, clipping_watched
from pacebench.harness.seeding import RunSeed
from pacebench.harness.study.specs import ScheduleCell
from pacebench.harness.training.scheduler import CurriculumScheduler
from pacebench.harness.training.training_envs import TrainingEnvs
from tests.harness.training.cells import curriculum_of

COPIES, STEPS = 8, 112


class _Silent(BaseCallback):
    def _on_step(self) -> bool:
        return True


@dataclass
class Recorded:
    """What Stable-Baselines3 saw and did in one iteration."""

    before: dict[str, NDArray[np.float32]]
    after: dict[str, NDArray[np.float32]]
    first_obs: NDArray[np.float64]
    steps: list[EnvStep]
    noise: NDArray[np.float32]
    orders: list[NDArray[np.int64]]
    buffer: dict[str, NDArray[np.float32]]
    logged: dict[str, float]


class _RecordingEnvs(TrainingEnvs):
    recorded: list[EnvStep]

    def step(self, actions: NDArray[np.floating]) -> EnvStep:
        step = super().step(actions)
        self.recorded.append(EnvStep(*map(_seen, step)))
        return step


def _seen(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a copy as Stable-Baselines3 is given it: rounded to float32."""
    return array.copy() if array.dtype == bool else array.astype(np.float32).astype(np.float64)


@dataclass
class _Replay:
    """The recorded steps of several seeds, as one batch of environments."""

    recordings: list[Recorded]
    broken: dict[int, str] = field(default_factory=dict)
    learned: None = None

    def __post_init__(self) -> None:
        self.obs = np.concatenate([r.first_obs for r in self.recordings])
        self.restarted = list(range(len(self.recordings)))
        self._steps = iter(range(STEPS))

    def step(self, actions: NDArray[np.floating]) -> EnvStep:
        t = next(self._steps)
        parts = zip(*(r.steps[t] for r in self.recordings), strict=True)
        return EnvStep(*(np.concatenate(part) for part in parts))


class _Scripted:
    """Stands in for a generator: gives out prepared numbers."""

    def __init__(self, *prepared: NDArray[Any]) -> None:
        self._prepared = iter(prepared)

    def standard_normal(self, shape: Any, dtype: Any) -> NDArray[Any]:
        noise = next(self._prepared)
        assert noise.shape == shape
        return noise

    def permutation(self, n: int) -> NDArray[np.int64]:
        order = next(self._prepared)
        assert len(order) == n
        return order


class _Walk:
    """Copies that walk on a line by one of three steps: `RolloutEnvs` with discrete actions."""

    observation_space = spaces.Box(-5.0, 5.0, (2,))
    action_space = spaces.Discrete(3)

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._x, self._age = rng, np.zeros(COPIES), np.zeros(COPIES)
        self.recorded: list[EnvStep] = []
        self.broken: dict[int, str] = {}
        self.learned = None
        self.copies, self.restarted, self.obs = COPIES, [0], self._observe()

    def restart(self, rows: list[int]) -> None:
        self.restarted = rows

    def _observe(self) -> NDArray[np.float64]:
        return np.stack([self._x, self._age / 20], axis=1)[None]

    def step(self, actions: NDArray[np.int64]) -> EnvStep:
        assert actions.dtype.kind == "i"
        assert actions.shape == (1, COPIES)
        self._x += 0.4 * (actions[0] - 1) + 0.1 * self._rng.standard_normal(COPIES)
        self._age += 1
        terminated = np.abs(self._x) > 1.5
        truncated = (self._age >= 20) & ~terminated
        reward, final = -np.abs(self._x), self._observe()
        over = terminated | truncated
        self._x[over], self._age[over] = self._rng.uniform(-1, 1, over.sum()), 0
        self.obs = self._observe()
        step = EnvStep(self.obs, reward[None], terminated[None], truncated[None], final)
        self.recorded.append(EnvStep(*map(_seen, step)))
        return step


def envs_of(setup_name: str, index: int) -> Any:
    """Returns environments that write down their steps."""
    rng = np.random.default_rng([7, index])
    if setup_name == "walk":
        return _Walk(rng)
    setup = envs.setup(setup_name)
    scheduler = CurriculumScheduler(curriculum_of("initial", setup), rng, ScheduleCell(), COPIES)
    training_envs = _RecordingEnvs(setup, [RunSeed(root=7, index=index)], [scheduler], COPIES)
    training_envs.recorded = []
    return training_envs


def record(setup_name: str, params: PPOParams, index: int) -> Recorded:
    """Runs one iteration of Stable-Baselines3 and writes everything down."""
    seed = RunSeed(root=7, index=index)
    rng = np.random.default_rng([8, index])
    training_envs = envs_of(setup_name, index)
    agent = PPOAgent(params, training_envs.observation_space, training_envs.action_space, [seed])
    training_envs.restart([0])
    first = _seen(training_envs.obs)
    agent.venv.envs = training_envs
    agent.restart()
    model = agent.model
    # Away from the initial point, where advantages hardly matter and the clip never binds.
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.1 * torch.from_numpy(
                rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
            )
        if setup_name != "walk":
            # Downwards, so that some pass the gate, some hit the wall, some dawdle to the horizon.
            model.policy.action_net.bias[1] -= 3.0
    before = agent.policy(0)
    model.set_logger(Logger(None, []))
    _, callback = model._setup_learn(STEPS * COPIES, _Silent(), reset_num_timesteps=False)
    with agent.streams.installed():
        model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
        names = ("observations", "actions", "log_probs", "advantages", "returns", "values")
        buffer = {n: np.array(getattr(model.rollout_buffer, n)) for n in names}
        with torch.no_grad():
            flat = torch.from_numpy(buffer["observations"].reshape(STEPS * COPIES, -1))
            told = model.policy.get_distribution(flat).distribution
            taken = torch.from_numpy(buffer["actions"].reshape(STEPS * COPIES, -1))
            if setup_name == "walk":
                # Noise that makes the action taken the largest by far.
                noise = torch.where(taken == torch.arange(3), 5.0, -5.0)
            else:
                noise = (taken - told.mean) / told.stddev
            noise = noise.numpy().reshape(STEPS, COPIES, -1)
        np.random.seed(index)  # noqa: NPY002 - the minibatch order of Stable-Baselines3
        with clipping_watched(agent.norms):
            model.train()
    orders_rng = np.random.RandomState(index)
    orders = [orders_rng.permutation(STEPS * COPIES) for _ in range(params.n_epochs)]
    return Recorded(
        before=before,
        after=agent.policy(0),
        first_obs=first,
        steps=training_envs.recorded,
        noise=noise,
        orders=orders,
        buffer=buffer,
        logged=agent.diagnostics(0),
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "all options": {
        "clip_range_vf": 0.2,
        "ent_coef": 0.01,
        "vf_coef": 0.7,
        "max_grad_norm": 0.3,
        "gae_lambda": 0.9,
        "activation": "relu",
        "net_arch": (48, 20, 16),
        "batch_size": 128,
    },
    "early stopping": {"target_kl": 0.002, "learning_rate": 3e-3},
    "a last minibatch that is smaller": {"batch_size": 100},
    "one minibatch": {"batch_size": STEPS * COPIES, "learning_rate": 3e-3},
    "unnormalised advantages": {"normalize_advantage": False},
    "normalised observations and rewards": {"norm_obs": True, "norm_reward": True},
}


CASES = [("default", 1), ("default", 3), ("default", 10)] + [
    (variant, 3) for variant in VARIANTS if variant != "default"
]


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize(
    ("setup", "variant", "count"),
    [(setup, *case) for setup in ("point-mass-1", "point-mass-2") for case in CASES]
    + [("walk", variant, count) for variant, count in CASES if count == 3],
)
def test_one_iteration_equals_stable_baselines3(setup: str, count: int, variant: str) -> None:
    chosen = {"n_epochs": 2, "log_std_init": 1.0, "gamma": 0.95, **VARIANTS[variant]}
    params = PPOParams(n_envs=COPIES, n_steps=STEPS, **chosen)
    recordings = [record(setup, params, k) for k in range(count)]
    ends = [np.concatenate([s.truncated for s in r.steps]) for r in recordings]
    crashes = [np.concatenate([s.terminated for s in r.steps]) for r in recordings]
    assert any(e.any() for e in ends), "truncations must be present"
    assert any(c.any() for c in crashes), "terminations must be present"

    space = envs_of(setup, 0)
    seeds = [RunSeed(root=7, index=k) for k in range(count)]
    agents = BatchedPPO(params, space.observation_space, space.action_space, seeds)
    for k, recorded in enumerate(recordings):
        agents.load_policy(k, recorded.before | _unit_moments(params, recorded))
    agents.normaliser = Normaliser(params, count, agents._rollout.observation)
    agents._noise_rngs = [_Scripted(r.noise) for r in recordings]  # type: ignore[misc]
    agents._order_rngs = [_Scripted(*r.orders) for r in recordings]  # type: ignore[misc]

    last = agents.collect(_Replay(recordings))  # type: ignore[arg-type]
    agents.estimate(last)
    d, a = agents._rollout.observation, agents._rollout.action
    for k, recorded in enumerate(recordings):
        ours = np.moveaxis(agents._packed[k], 1, 0)
        columns = dict(zip(("log_probs", "advantages", "returns", "values"), range(4), strict=True))
        # Stable-Baselines3 takes the moments of a batch in float32, we in float64; the first
        # observations, all alike, have hardly any variance to divide by.
        np.testing.assert_allclose(
            ours[..., :d], recorded.buffer["observations"], rtol=1e-5, atol=5e-5
        )
        for name, i in columns.items():
            np.testing.assert_allclose(
                ours[..., d + a + i], recorded.buffer[name], rtol=1e-4, atol=2e-5, err_msg=name
            )
    agents.updater.update(agents._rollout, agents._order_rngs, agents._alive)
    for k, recorded in enumerate(recordings):
        ours_now = agents.policy(k)
        for name, theirs in recorded.after.items():
            if name.startswith("obs_"):
                continue
            assert np.abs(theirs - recorded.before[name]).max() > 1e-5, f"{name} did not move"
            np.testing.assert_allclose(ours_now[name], theirs, rtol=0, atol=1e-5, err_msg=name)
        told = agents.diagnostics(k)
        assert told["gradient_norm"] > 0
        if variant == "one minibatch":
            # Diagnostics look at one minibatch of each epoch; here there is no other. Of the KL,
            # Stable-Baselines3 logs the last epoch alone.
            assert told["approx_kl"] == pytest.approx(recorded.logged["approx_kl"] / 2, rel=1e-3)
            for name in (
                *("clip_fraction", "entropy", "value_loss"),
                *("explained_variance", "gradient_norm"),
            ):
                assert told[name] == pytest.approx(recorded.logged[name], rel=1e-3), name
            assert told["clip_fraction"] > 0


def _unit_moments(params: PPOParams, recorded: Recorded) -> dict[str, NDArray[np.float32]]:
    if not params.norm_obs:
        return {}
    shape = recorded.first_obs.shape[-1:]
    return {"obs_mean": np.zeros(shape, np.float32), "obs_var": np.ones(shape, np.float32)}


@pytest.mark.parametrize("kind", ["ppo", "sb3-ppo"])
def test_discrete_actions_are_drawn_by_their_probabilities(kind: str) -> None:
    """Without noise the most probable one, with noise each as often as the policy says."""
    params = learners.PPOParams(n_envs=COPIES, n_steps=STEPS).model_dump()
    agents = learners.get(kind).build(
        params, _Walk.observation_space, spaces.Discrete(3, start=2), [RunSeed(root=0, index=0)]
    )
    policy = agents.policy(0)
    policy["action_net.bias"][:] = np.log([0.2, 0.5, 0.3])
    policy["action_net.weight"][:] = 0.0
    assert "log_std" not in policy
    agents.load_policy(0, policy)
    obs = np.zeros((1, 20_000, 2))
    assert set(agents.act(obs, np.zeros((1, 20_000, 3)))[0].tolist()) == {3}
    drawn = agents.act(obs, np.random.default_rng(0).standard_normal((1, 20_000, 3)))[0]
    shares = np.bincount(drawn, minlength=5) / 20_000
    np.testing.assert_allclose(shares, [0, 0, 0.2, 0.5, 0.3], atol=0.015)


def test_parameters_have_stable_baselines3_names_and_defaults() -> None:
    import inspect

    from stable_baselines3 import PPO, SAC

    for model, params in ((PPO, learners.PPOParams), (SAC, learners.SACParams)):
        theirs = inspect.signature(model).parameters
        shared = set(params.model_fields) & set(theirs)
        assert len(shared) >= 10
        for name in shared - {"n_steps", "buffer_size"}:
            assert params.model_fields[name].default == theirs[name].default, name
