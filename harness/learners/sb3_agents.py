"""Stable-Baselines3's models behind our interface: one seed, its own global random state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

from pacebench.harness.learners import limits
from pacebench.harness.learners.base import RolloutEnvs
from pacebench.harness.learners.clock import Clock
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.learners.sb3 import SACParams
from pacebench.harness.learners.sb3_env import SpacesVecEnv, TrainingVecEnv
from pacebench.harness.learners.sb3_streams import GlobalStreams
from pacebench.harness.seeding import RunRole, RunSeed

Floats = NDArray[np.float64]

_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class SB3Agent:
    """One Stable-Baselines3 model; see `harness.learners.base.Agents`."""

    count = 1

    def __init__(self, seeds: Sequence[RunSeed], steps: int) -> None:
        if len(seeds) != 1:
            raise ValueError("Stable-Baselines3 trains one seed at a time.")
        self.diverged: dict[int, str] = {}
        self._streams = GlobalStreams(seeds[0])
        self._steps = steps
        self.model: Any = None
        self._envs: RolloutEnvs | None = None

    def iterate(self, envs: RolloutEnvs, clock: Clock) -> None:
        """Lets the model learn for one rollout."""
        if self._envs is not envs:
            self._envs = envs
            self._attach(TrainingVecEnv(envs))
        if envs.restarted:
            envs.restarted = []
            self._restart()
        timer = _Phases(clock)
        with self._streams.installed():
            try:
                self.model.learn(
                    self._steps, callback=timer, reset_num_timesteps=False, log_interval=None
                )
            except ValueError as error:
                # PyTorch's distributions refuse parameters that are not finite; any other error
                # is a mistake, which must not be booked as the method's failure to learn.
                if "invalid values" not in str(error):
                    raise
                self.diverged[0] = f"Stable-Baselines3 refused to go on: {_sentence(error)}"
            finally:
                timer.close()
        reasons = [*envs.broken.values(), *self._explosions()]
        if reasons:
            self.diverged.setdefault(0, reasons[0])

    def _explosions(self) -> Iterator[str]:
        """Yields what has left the range in which anything is learned."""
        # Nothing is dumped, so the logger still has what the last update wrote.
        for name, value in self.model.logger.name_to_value.items():
            if name.startswith("train/") and name.endswith("loss"):
                what = f"The {name.removeprefix('train/').replace('_', ' ')}"
                if not np.isfinite(value):
                    yield f"{what} was not finite."
                elif abs(value) > limits.LOSS:
                    yield f"{what} grew beyond {limits.LOSS:g}."
        for tensor in self.model.policy.parameters():
            size = float(tensor.detach().abs().max())
            if not np.isfinite(size):
                yield "A parameter of the policy was not finite."
            elif size >= limits.PARAMETER:
                yield f"A parameter of the policy grew beyond {limits.PARAMETER:g}."

    def _attach(self, venv: TrainingVecEnv) -> None:
        self.model.set_env(venv)

    def _restart(self) -> None:
        """Hands the model the observations of freshly started episodes."""
        env = self.model.env
        self.model._last_obs = env.reset()
        self.model._last_episode_starts = np.ones(env.num_envs, dtype=bool)
        if isinstance(env, VecNormalize):
            self.model._last_original_obs = env.get_original_obs()

    def policy(self, agent: int) -> dict[str, NDArray[np.float32]]:
        """Returns the policy's tensors under Stable-Baselines3's names."""
        named = {k: v.detach().numpy().copy() for k, v in self.model.policy.state_dict().items()}
        return {k: v.astype(np.float32) for k, v in named.items()}

    def load_policy(self, agent: int, arrays: dict[str, NDArray[np.float32]]) -> None:
        """Takes the tensors that `policy` returned."""
        tensors = {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}
        own = set(self.model.policy.state_dict())
        self.model.policy.load_state_dict({k: v for k, v in tensors.items() if k in own})

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Refuses: a learner without checkpoints."""
        raise NotImplementedError

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Refuses: a learner without checkpoints."""
        raise NotImplementedError

    def values(self, agent: int, obs: Floats) -> Floats:
        """Refuses: a learner without a critic of states."""
        raise NotImplementedError


class PPOAgent(SB3Agent):
    """Stable-Baselines3's PPO, with `VecNormalize` where the parameters ask for it."""

    def __init__(
        self,
        params: PPOParams,
        observation_space: spaces.Box,
        action_space: spaces.Box,
        seeds: Sequence[RunSeed],
    ) -> None:
        super().__init__(seeds, params.n_steps * params.n_envs)
        self.params = params
        venv: Any = SpacesVecEnv(observation_space, action_space, params.n_envs)
        if params.norm_obs or params.norm_reward:
            venv = self._normalised(venv)
        with self._streams.installed():
            self.model = PPO(
                "MlpPolicy",
                venv,
                learning_rate=params.learning_rate,
                n_steps=params.n_steps,
                batch_size=params.batch_size,
                n_epochs=params.n_epochs,
                gamma=params.gamma,
                gae_lambda=params.gae_lambda,
                clip_range=params.clip_range,
                clip_range_vf=params.clip_range_vf,
                normalize_advantage=params.normalize_advantage,
                ent_coef=params.ent_coef,
                vf_coef=params.vf_coef,
                max_grad_norm=params.max_grad_norm,
                target_kl=params.target_kl,
                policy_kwargs={
                    "net_arch": list(params.net_arch),
                    "activation_fn": _ACTIVATIONS[params.activation],
                    "ortho_init": params.ortho_init,
                    "log_std_init": params.log_std_init,
                },
                device="cpu",
            )

    def _normalised(self, venv: Any) -> Any:
        p = self.params
        return VecNormalize(
            venv,
            norm_obs=p.norm_obs,
            norm_reward=p.norm_reward,
            clip_obs=p.clip_obs,
            clip_reward=p.clip_reward,
            gamma=p.gamma,
        )

    @property
    def _normalise(self) -> Any:
        env = self.model.env
        return env if isinstance(env, VecNormalize) else None

    def _attach(self, venv: TrainingVecEnv) -> None:
        old = self._normalise
        if old is None:
            self.model.set_env(venv)
            return
        new = self._normalised(venv)
        new.obs_rms, new.ret_rms = getattr(old, "obs_rms", None), old.ret_rms
        self.model.set_env(new)

    def act(self, obs: Floats, noise: Floats) -> Floats:
        """Returns actions (1, M, action), clipped to the action space."""
        with torch.no_grad():
            normal = self.model.policy.get_distribution(self._seen(obs[0])).distribution
            action = normal.mean + normal.stddev * torch.from_numpy(noise[0].astype(np.float32))
        space = self.model.action_space
        clipped: Floats = np.clip(action.numpy(), space.low, space.high).astype(np.float64)
        return clipped[None]

    def values(self, agent: int, obs: Floats) -> Floats:
        """Returns the critic's values (M,), on the scale of the environment's rewards."""
        with torch.no_grad():
            values = self.model.policy.predict_values(self._seen(obs)).numpy()[:, 0]
        env = self._normalise
        scaled: Floats = values.astype(np.float64)
        if env is not None and env.norm_reward:
            scaled = scaled * float(np.sqrt(env.ret_rms.var + env.epsilon))
        return scaled

    def policy(self, agent: int) -> dict[str, NDArray[np.float32]]:
        """Returns the policy's tensors, and the moments of observations where they are used."""
        named = super().policy(agent)
        if self.params.norm_obs:
            named["obs_mean"] = self._normalise.obs_rms.mean.astype(np.float32)
            named["obs_var"] = self._normalise.obs_rms.var.astype(np.float32)
        return named

    def load_policy(self, agent: int, arrays: dict[str, NDArray[np.float32]]) -> None:
        """Takes what `policy` returned."""
        super().load_policy(agent, arrays)
        if self.params.norm_obs:
            moments = self._normalise.obs_rms
            moments.mean = arrays["obs_mean"].astype(np.float64)
            moments.var = arrays["obs_var"].astype(np.float64)

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns parameters, Adam's moments, generator states and normalisation moments."""
        stream, numpy_state = self._streams.state()
        arrays: dict[str, NDArray[Any]] = {"torch_stream": stream}
        for name, tensor in self.model.policy.state_dict().items():
            arrays[f"policy/{name}"] = tensor.numpy().copy()
        for index, entry in self.model.policy.optimizer.state_dict()["state"].items():
            for name, tensor in entry.items():
                arrays[f"adam/{index}/{name}"] = np.array(tensor.numpy())
        env = self._normalise
        moments = {}
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(env, name, None)
            if rms is not None:
                moments[name] = [np.asarray(x).tolist() for x in (rms.mean, rms.var, rms.count)]
        return arrays, {"numpy_stream": numpy_state, "moments": moments}

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Restores what `state` returned."""
        self._streams.load_state(arrays["torch_stream"], state["numpy_stream"])
        tensors = {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}
        prefix = "policy/"
        self.model.policy.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        optimiser = self.model.policy.optimizer
        saved = optimiser.state_dict()
        saved["state"] = {}
        for key, tensor in tensors.items():
            if key.startswith("adam/"):
                _, index, name = key.split("/")
                saved["state"].setdefault(int(index), {})[name] = tensor
        optimiser.load_state_dict(saved)
        for name, (mean, var, count) in state["moments"].items():
            rms = getattr(self._normalise, name)
            rms.mean, rms.var, rms.count = np.array(mean), np.array(var), float(count)

    def _seen(self, obs: Floats) -> torch.Tensor:
        env = self._normalise
        seen = obs if env is None else env.normalize_obs(obs)
        return torch.as_tensor(np.asarray(seen, dtype=np.float32))


class SACAgent(SB3Agent):
    """Stable-Baselines3's SAC."""

    def __init__(
        self,
        params: SACParams,
        observation_space: spaces.Box,
        action_space: spaces.Box,
        seeds: Sequence[RunSeed],
    ) -> None:
        super().__init__(seeds, params.look_every * params.n_envs)
        venv = SpacesVecEnv(observation_space, action_space, params.n_envs)
        with self._streams.installed():
            self.model = SAC(
                "MlpPolicy",
                venv,
                **params.model_dump(exclude={"n_envs", "look_every", "net_arch"}),
                policy_kwargs={"net_arch": list(params.net_arch)},
                device="cpu",
            )
        # The first actions are drawn from the space, which has a generator of its own.
        self.model.action_space.seed(int(seeds[0].sequence(RunRole.POLICY).generate_state(1)[0]))

    def act(self, obs: Floats, noise: Floats) -> Floats:
        """Returns actions (1, M, action), squashed into the action space."""
        actor = self.model.policy.actor
        with torch.no_grad():
            seen = torch.as_tensor(obs[0].astype(np.float32))
            mean, log_std, _ = actor.get_action_dist_params(seen)
            draw = mean + log_std.exp() * torch.from_numpy(noise[0].astype(np.float32))
        action: Floats = self.model.policy.unscale_action(torch.tanh(draw).numpy())
        return action.astype(np.float64)[None]


class _Phases(BaseCallback):
    """Tells the clock which part of `learn` is rollout and which is policy update."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._phase: Any = clock.phase("rollout")
        self._phase.__enter__()

    def _switch(self, name: str) -> None:
        self._phase.__exit__(None, None, None)
        self._phase = self._clock.phase(name)
        self._phase.__enter__()

    def _on_rollout_start(self) -> None:
        self._switch("rollout")

    def _on_rollout_end(self) -> None:
        self._switch("policy")

    def _on_step(self) -> bool:
        return True

    def close(self) -> None:
        self._phase.__exit__(None, None, None)


def _sentence(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200]
