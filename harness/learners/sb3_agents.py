"""Stable-Baselines3's models behind our interface: one seed, its own global random state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize

from pacebench.envs.arrays import Floats
from pacebench.harness.learners import limits
from pacebench.harness.learners.base import Clock, Floats32, Learner, RolloutEnvs
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.learners.sb3 import SB3PPO, SB3SAC, SACParams
from pacebench.harness.learners.sb3_env import GlobalStreams, RolloutVecEnv
from pacebench.harness.seeding import RunRole, RunSeed

_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
_NORMALISATION = {"norm_obs", "norm_reward", "clip_obs", "clip_reward"}
_NETWORKS = {"net_arch", "activation", "ortho_init", "log_std_init"}


class SB3Agent:
    """One Stable-Baselines3 model; see `harness.learners.base.Agents`.

    Subclasses make `model` from `venv`, the model's environment.
    """

    count = 1
    learner: type[Learner]

    def __init__(
        self,
        params: Any,
        observation_space: spaces.Box,
        action_space: spaces.Box | spaces.Discrete,
        seeds: Sequence[RunSeed],
    ) -> None:
        if len(seeds) != 1:
            raise ValueError("Stable-Baselines3 trains one seed at a time.")
        self.params = params
        self.diverged: dict[int, str] = {}
        # Norms of the gradients in the last iteration, before any clipping.
        self.norms: list[torch.Tensor] = []
        self.venv = RolloutVecEnv(observation_space, action_space, params.n_envs)
        self.streams = GlobalStreams(seeds[0])
        with self.streams.installed():
            self.model = self._make_model(seeds[0])

    def _make_model(self, seed: RunSeed) -> Any:
        raise NotImplementedError

    def iterate(self, envs: RolloutEnvs, clock: Clock) -> None:
        """Lets the model learn for one rollout."""
        self.venv.envs = envs
        # The default one makes a folder in the temporary directory at every call of `learn`.
        self.model.set_logger(Logger(None, []))
        if envs.restarted:
            envs.restarted = []
            self.restart()
        self.norms.clear()
        with ExitStack() as phase, self.streams.installed(), clipping_watched(self.norms):
            try:
                self.model.learn(
                    self.learner.rollout_steps(self.params),
                    callback=_PhaseTimer(clock, phase),
                    reset_num_timesteps=False,
                    log_interval=None,
                )
            except ValueError as error:
                # PyTorch's distributions refuse parameters that are not finite; any other error
                # is a mistake, which must not be booked as the method's failure to learn.
                if "invalid values" not in str(error):
                    raise
                sentence = str(error).strip().splitlines()[0][:200]
                self.diverged[0] = f"Stable-Baselines3 refused to go on: {sentence}"
        for reason in (*envs.broken.values(), *self._explosions()):
            self.diverged.setdefault(0, reason)

    def restart(self) -> None:
        """Hands the model the observations of freshly started episodes."""
        env = self.model.env
        self.model._last_obs = env.reset()
        self.model._last_episode_starts = np.ones(env.num_envs, dtype=bool)
        if isinstance(env, VecNormalize):
            self.model._last_original_obs = env.get_original_obs()

    def _explosions(self) -> Iterator[str]:
        """Yields a sentence for each loss and parameter that is beyond its limit."""
        # Nothing is dumped, so the logger still has what the last update wrote.
        for name, value in self.model.logger.name_to_value.items():
            if name.startswith("train/") and name.endswith("loss"):
                what = f"The {name.removeprefix('train/').replace('_', ' ')}"
                if not np.isfinite(value):
                    yield f"{what} was not finite."
                elif abs(value) > limits.MAX_LOSS:
                    yield f"{what} grew beyond {limits.MAX_LOSS:g}."
        for tensor in self.model.policy.parameters():
            size = float(tensor.detach().abs().max())
            if not np.isfinite(size):
                yield "A parameter of the policy was not finite."
            elif size >= limits.MAX_PARAMETER:
                yield f"A parameter of the policy grew beyond {limits.MAX_PARAMETER:g}."

    def diagnostics(self, agent: int) -> dict[str, float]:
        """Returns what Stable-Baselines3 logged of its last update, and its mean gradient norm."""
        logged = self.model.logger.name_to_value
        told = {
            name: logged.get(f"train/{name}", np.nan)
            for name in ("approx_kl", "clip_fraction", "value_loss", "explained_variance")
        }
        # SAC has a critic of actions; its loss takes the place.
        told["value_loss"] = logged.get("train/critic_loss", told["value_loss"])
        told["entropy"] = -logged.get("train/entropy_loss", np.nan)
        told["gradient_norm"] = torch.stack(self.norms).mean() if self.norms else np.nan
        return {name: float(value) for name, value in told.items()}

    def policy(self, agent: int) -> dict[str, Floats32]:
        """Returns the policy's tensors under Stable-Baselines3's names."""
        tensors = self.model.policy.state_dict()
        return {name: tensor.numpy().astype(np.float32) for name, tensor in tensors.items()}

    def load_policy(self, agent: int, arrays: dict[str, Floats32]) -> None:
        """Takes the tensors that `policy` returned."""
        names = self.model.policy.state_dict()
        tensors = {name: torch.from_numpy(arrays[name].copy()) for name in names}
        self.model.policy.load_state_dict(tensors)

    def values(self, agent: int, obs: Floats) -> Floats:
        """Refuses: a learner without a critic of states."""
        raise NotImplementedError

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Refuses: a learner without checkpoints."""
        raise NotImplementedError

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Refuses: a learner without checkpoints."""
        raise NotImplementedError


class PPOAgent(SB3Agent):
    """Stable-Baselines3's PPO, with `VecNormalize` where the parameters ask for it."""

    learner = SB3PPO
    params: PPOParams

    def _make_model(self, seed: RunSeed) -> PPO:
        params = self.params
        self._normaliser: Any = None
        if params.norm_obs or params.norm_reward:
            options = params.model_dump(include=_NORMALISATION | {"gamma"})
            self._normaliser = VecNormalize(self.venv, **options)
        return PPO(
            "MlpPolicy",
            self._normaliser or self.venv,
            **params.model_dump(exclude=_NORMALISATION | _NETWORKS | {"n_envs"}),
            policy_kwargs={
                "net_arch": list(params.net_arch),
                "activation_fn": _ACTIVATIONS[params.activation],
                "ortho_init": params.ortho_init,
                "log_std_init": params.log_std_init,
            },
            device="cpu",
        )

    def act(self, obs: Floats, noise: Floats) -> NDArray[Any]:
        """Returns actions inside the action space: (1, M, action), or integers (1, M)."""
        space = self.model.action_space
        drawn = torch.from_numpy(noise[0].astype(np.float32))
        with torch.no_grad():
            told = self.model.policy.get_distribution(self._scale_obs(obs[0])).distribution
            if isinstance(space, spaces.Discrete):
                # Gumbel noise from normal noise; equal noise leaves the most probable action.
                gumbel = -torch.log(-torch.special.log_ndtr(drawn))
                chosen: NDArray[np.int64] = (told.logits + gumbel).argmax(dim=1).numpy()[None]
                chosen += space.start
                return chosen
            action = told.mean + told.stddev * drawn
        clipped: Floats = np.clip(action.numpy(), space.low, space.high).astype(np.float64)
        return clipped[None]

    def values(self, agent: int, obs: Floats) -> Floats:
        """Returns the critic's values (M,), on the scale of the environment's rewards."""
        with torch.no_grad():
            values = self.model.policy.predict_values(self._scale_obs(obs)).numpy()[:, 0]
        scaled: Floats = values.astype(np.float64)
        if self.params.norm_reward:
            scaled *= float(np.sqrt(self._normaliser.ret_rms.var + self._normaliser.epsilon))
        return scaled

    def policy(self, agent: int) -> dict[str, Floats32]:
        """Returns the policy's tensors, and the moments of observations where they are used."""
        named = super().policy(agent)
        if self.params.norm_obs:
            named["obs_mean"] = self._normaliser.obs_rms.mean.astype(np.float32)
            named["obs_var"] = self._normaliser.obs_rms.var.astype(np.float32)
        return named

    def load_policy(self, agent: int, arrays: dict[str, Floats32]) -> None:
        """Takes what `policy` returned."""
        super().load_policy(agent, arrays)
        if self.params.norm_obs:
            moments = self._normaliser.obs_rms
            moments.mean = arrays["obs_mean"].astype(np.float64)
            moments.var = arrays["obs_var"].astype(np.float64)

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns parameters, Adam's moments, generator states and normalisation moments."""
        stream, numpy_state = self.streams.state()
        arrays: dict[str, NDArray[Any]] = {"torch_stream": stream}
        for name, tensor in self.model.policy.state_dict().items():
            arrays[f"policy/{name}"] = tensor.numpy().copy()
        for index, entry in self.model.policy.optimizer.state_dict()["state"].items():
            for name, tensor in entry.items():
                arrays[f"adam/{index}/{name}"] = np.array(tensor.numpy())
        moments = {}
        for name in ("obs_rms", "ret_rms"):
            rms = getattr(self._normaliser, name, None)
            if rms is not None:
                moments[name] = [np.asarray(x).tolist() for x in (rms.mean, rms.var, rms.count)]
        # Where its episodes stand.
        arrays["last_obs"] = np.array(self.model._last_obs)
        arrays["last_starts"] = np.array(self.model._last_episode_starts)
        if self._normaliser is not None:
            arrays["returns"] = np.array(self._normaliser.returns)
        return arrays, {"numpy_stream": numpy_state, "moments": moments}

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Restores what `state` returned."""
        self.streams.load_state(arrays["torch_stream"], state["numpy_stream"])
        parameters: dict[str, torch.Tensor] = {}
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for key, array in arrays.items():
            kind, _, name = key.partition("/")
            tensor = torch.from_numpy(np.array(array))
            if kind == "policy":
                parameters[name] = tensor
            elif kind == "adam":
                index, _, moment = name.partition("/")
                moments.setdefault(int(index), {})[moment] = tensor
        self.model.policy.load_state_dict(parameters)
        for number, tensor in enumerate(self.model.policy.parameters()):
            shapes = {m.shape for name, m in moments.get(number, {}).items() if name != "step"}
            if shapes - {tensor.shape}:
                raise ValueError(f"Adam's moments of parameter {number} have another shape")
        self.model._last_obs = arrays["last_obs"]
        self.model._last_episode_starts = arrays["last_starts"]
        if self._normaliser is not None:
            self._normaliser.returns = arrays["returns"]
        optimiser = self.model.policy.optimizer
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
        for name, (mean, var, count) in state["moments"].items():
            rms = getattr(self._normaliser, name)
            rms.mean, rms.var, rms.count = np.array(mean), np.array(var), float(count)

    def _scale_obs(self, obs: Floats) -> torch.Tensor:
        """Returns observations as the networks see them."""
        scaled = obs if self._normaliser is None else self._normaliser.normalize_obs(obs)
        return torch.as_tensor(np.asarray(scaled, dtype=np.float32))


class SACAgent(SB3Agent):
    """Stable-Baselines3's SAC."""

    learner = SB3SAC
    params: SACParams

    def _make_model(self, seed: RunSeed) -> SAC:
        model = SAC(
            "MlpPolicy",
            self.venv,
            **self.params.model_dump(exclude={"n_envs", "look_every", "net_arch"}),
            policy_kwargs={"net_arch": list(self.params.net_arch)},
            device="cpu",
        )
        critic = list(model.critic.parameters())

        def note(*_: object) -> None:
            gradients = [p.grad for p in critic if p.grad is not None]
            self.norms.append(torch.nn.utils.get_total_norm(gradients))

        # SAC clips nothing: its critic's gradients are looked at before each step.
        model.critic.optimizer.register_step_pre_hook(note)
        # The first actions are drawn from the space, which has a generator of its own.
        model.action_space.seed(int(seed.sequence(RunRole.POLICY).generate_state(1)[0]))
        return model

    def act(self, obs: Floats, noise: Floats) -> Floats:
        """Returns actions (1, M, action), squashed into the action space."""
        with torch.no_grad():
            seen = torch.as_tensor(obs[0].astype(np.float32))
            mean, log_std, _ = self.model.policy.actor.get_action_dist_params(seen)
            draw = mean + log_std.exp() * torch.from_numpy(noise[0].astype(np.float32))
        action: Floats = self.model.policy.unscale_action(torch.tanh(draw).numpy())
        return action.astype(np.float64)[None]


@contextmanager
def clipping_watched(norms: list[torch.Tensor]) -> Iterator[None]:
    """Collects the norms that gradients have before they are clipped.

    Stable-Baselines3 logs none, and torch returns each from the function that clips; to compute
    them again would cost a tenth of the update.
    """
    clip = torch.nn.utils.clip_grad_norm_

    def watched(*args: Any, **options: Any) -> torch.Tensor:
        norms.append(clip(*args, **options))
        return norms[-1]

    torch.nn.utils.clip_grad_norm_ = watched
    try:
        yield
    finally:
        torch.nn.utils.clip_grad_norm_ = clip


class _PhaseTimer(BaseCallback):
    """Tells the clock which part of `learn` is rollout and which is policy update."""

    def __init__(self, clock: Clock, phase: ExitStack) -> None:
        super().__init__()
        self._clock, self._phase = clock, phase

    def _switch(self, name: str) -> None:
        self._phase.close()
        self._phase.enter_context(self._clock.phase(name))

    def _on_rollout_start(self) -> None:
        self._switch("rollout")

    def _on_rollout_end(self) -> None:
        self._switch("policy")

    def _on_step(self) -> bool:
        return True
