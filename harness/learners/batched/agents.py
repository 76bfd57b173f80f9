"""The agents of learner `ppo`: rollouts and updates of S seeds in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pacebench.envs.arrays import Bools, Floats
from pacebench.harness.learners import limits
from pacebench.harness.learners.base import Clock, Floats32, RolloutEnvs, noise_width
from pacebench.harness.learners.batched.gae import advantages
from pacebench.harness.learners.batched.heads import head_of
from pacebench.harness.learners.batched.network import Layout, StackedPolicy
from pacebench.harness.learners.batched.normalise import Normaliser
from pacebench.harness.learners.batched.update import Rollout, Updater
from pacebench.harness.learners.ppo import PPOParams
from pacebench.harness.seeding import RunRole, RunSeed


class BatchedPPO:
    """S agents in one stack of networks; see `harness.learners.base.Agents`."""

    def __init__(
        self,
        params: PPOParams,
        observation_space: spaces.Box,
        action_space: spaces.Box | spaces.Discrete,
        seeds: Sequence[RunSeed],
    ) -> None:
        self.params, self.count = params, len(seeds)
        self.diverged: dict[int, str] = {}
        d, width = int(observation_space.shape[0]), noise_width(action_space)
        layout = Layout(d, width, params.net_arch, isinstance(action_space, spaces.Discrete))
        self._policy = StackedPolicy(layout, self.count, params.activation)
        self._head = head_of(action_space, self._policy, params.ent_coef)
        for k, seed in enumerate(seeds):
            self._policy.initialise(
                k, seed.sequence(RunRole.INIT), params.ortho_init, params.log_std_init
            )
        self.updater = Updater(self._policy, self._head, params)
        self._noise_rngs = [seed.generator(RunRole.POLICY) for seed in seeds]
        self._order_rngs = [seed.generator(RunRole.MINIBATCH) for seed in seeds]
        self.normaliser = Normaliser(params, self.count, d)
        self._alive = np.ones(self.count, dtype=np.bool_)
        n, steps, a = params.n_envs, params.n_steps, self._head.columns
        # Copy-major like Stable-Baselines3's flattened buffer: transition i is copy i // n_steps.
        self._packed = np.zeros((self.count, n, steps, d + a + 4), np.float32)
        self._rollout = Rollout(self._packed.reshape(self.count, n * steps, -1), d, a)
        self._noise = np.zeros((steps, self.count, n, width), np.float32)
        self._rewards = np.zeros((steps, self.count, n), np.float32)
        self._done = np.zeros((steps, self.count, n), dtype=np.bool_)
        self._learned = np.ones((self.count, n, steps), dtype=np.bool_)

    def iterate(self, envs: RolloutEnvs, clock: Clock) -> None:
        """Collects `n_steps` in every copy and updates the policies once."""
        with clock.phase("rollout"):
            last = self.collect(envs)
            self.estimate(last)
        for k, reason in envs.broken.items():
            self._mark_diverged(k, reason)
        with clock.phase("policy"):
            norms = self.updater.update(self._rollout, self._order_rngs, self._alive)
        self._check_norms(norms)

    def collect(self, envs: RolloutEnvs) -> Floats32:
        """Fills the buffers from the environment.

        Returns:
            The observations after the last step, as the networks see them.
        """
        d, a = self._rollout.observation, self._rollout.action
        for k, rng in enumerate(self._noise_rngs):
            self._noise[:, k] = rng.standard_normal(self._noise[:, k].shape, dtype=np.float32)
        if envs.restarted:
            self.normaliser.restart(envs.restarted, envs.obs[envs.restarted])
            envs.restarted = []
        selective = envs.learned is not None
        self._rollout.learned = self._learned.reshape(self.count, -1) if selective else None
        self._head.begin(self._noise)
        scale_obs = self.normaliser.scale_obs
        obs = scale_obs(envs.obs)
        # Time, copies (S, n) and last observations (S, n, observation) of truncated episodes.
        self._truncations: list[tuple[int, Bools, Floats32]] = []
        for t in range(self.params.n_steps):
            scores = self._head.scores(self._policy.actor(obs), t)
            if not np.isfinite(scores).all():
                # The environment would refuse them.
                for k in np.flatnonzero(~np.isfinite(scores).all(axis=(1, 2))).tolist():
                    self._mark_diverged(k, "An action of the policy was not finite.")
                    scores[k] = 0.0
            action = self._head.choose(scores)
            now = self._packed[:, :, t]
            now[..., :d] = obs
            now[..., d : d + a] = action
            if envs.learned is not None:
                self._learned[:, :, t] = envs.learned
            step = envs.step(self._head.for_env(action))
            self.normaliser.observe(step.obs)
            obs = scale_obs(step.obs)
            done = np.logical_or(step.terminated, step.truncated, out=self._done[t])
            self._rewards[t] = self.normaliser.scale_reward(step.reward, done)
            if step.truncated.any():
                self._truncations.append((t, step.truncated, scale_obs(step.final_obs)))
        return obs

    def estimate(self, last: Floats32) -> None:
        """Completes the rollout with log-probabilities, advantages and returns."""
        d, a = self._rollout.observation, self._rollout.action
        p, shape = self.params, self._packed.shape[:3]
        packed = self._rollout.packed
        # Time first, as the recursion over time wants it: (T, S, n).
        values = np.moveaxis(self._policy.critic(packed[..., :d]).reshape(shape), 2, 0).copy()
        last_values = self._policy.critic(last).copy()
        self._bootstrap()
        gained = advantages(self._rewards, values, last_values, self._done, p.gamma, p.gae_lambda)
        log_prob = self._head.rollout_log_prob()
        for i, column in enumerate((log_prob, gained, gained + values, values)):
            self._packed[..., d + a + i] = np.moveaxis(column, 0, 2)

    def _bootstrap(self) -> None:
        """Adds γ V(last observation) to the last reward of truncated episodes."""
        gamma = np.float32(self.params.gamma)
        for k in range(self.count):
            # Agents have different numbers of truncations. Evaluated agent by agent, no agent's
            # shapes, and so no agent's rounding, depend on another's.
            ends = [(t, cut[k], final[k]) for t, cut, final in self._truncations if cut[k].any()]
            if not ends:
                continue
            values = self._policy.critic_of(k, np.concatenate([f[c] for _, c, f in ends]))
            start = 0
            for t, cut, _ in ends:
                stop = start + int(cut.sum())
                self._rewards[t, k, cut] += gamma * values[start:stop]
                start = stop

    def act(self, obs: Floats, noise: Floats) -> NDArray[Any]:
        """Returns actions (S, M, …) inside the action space."""
        return self._head.act(self._policy.actor_by_row(self.normaliser.scale_obs(obs)), noise)

    def diagnostics(self, agent: int) -> dict[str, float]:
        """Returns what is known of the agent's last update."""
        told = {name: float(column[agent]) for name, column in self.updater.told().items()}
        returns, values = (
            self._rollout.packed[agent, :, self._rollout.returns + i] for i in range(2)
        )
        # An agent about to be taken out may have numbers whose squares overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            spread, rest = float(returns.var()), float((returns - values).var())
        told["explained_variance"] = 1.0 - rest / spread if spread else float("nan")
        return told

    def values(self, agent: int, obs: Floats) -> Floats:
        """Returns the critic's values (M,), on the scale of the environment's rewards."""
        scaled = self.normaliser.scale_obs(obs[None], slice(agent, agent + 1))[0]
        values = self._policy.critic_of(agent, scaled).astype(np.float64)
        return values * self.normaliser.reward_scale(agent)

    def policy(self, agent: int) -> dict[str, Floats32]:
        """Returns the agent's parameters under the names of Stable-Baselines3's policy."""
        arrays = {k: np.array(v, order="C") for k, v in self._policy.named(agent).items()}
        if self.normaliser.obs is not None:
            arrays["obs_mean"] = self.normaliser.obs.mean[agent].astype(np.float32)
            arrays["obs_var"] = self.normaliser.obs.var[agent].astype(np.float32)
        return arrays

    def load_policy(self, agent: int, arrays: dict[str, Floats32]) -> None:
        """Takes the parameters that `policy`, or a Stable-Baselines3 policy, returned."""
        for name, view in self._policy.named(agent).items():
            view[...] = arrays[name]
        if self.normaliser.obs is not None:
            self.normaliser.obs.mean[agent] = arrays["obs_mean"]
            self.normaliser.obs.var[agent] = arrays["obs_var"]

    def state(self, agent: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns parameters, Adam's moments, generator states and normalisation moments."""
        first, second = (moment[agent].numpy().copy() for moment in self.updater.moments)
        arrays = {
            "params": self._policy.params[agent].numpy().copy(),
            "adam_first": first,
            "adam_second": second,
        }
        state = {
            "adam_steps": float(self.updater.steps[agent]),
            "noise_rng": self._noise_rngs[agent].bit_generator.state,
            "order_rng": self._order_rngs[agent].bit_generator.state,
            "moments": self.normaliser.state(agent),
        }
        return arrays, state

    def load_state(
        self, agent: int, arrays: dict[str, NDArray[Any]], state: dict[str, Any]
    ) -> None:
        """Restores what `state` returned."""
        self._policy.params[agent].numpy()[:] = arrays["params"]
        for moment, name in zip(self.updater.moments, ("adam_first", "adam_second"), strict=True):
            moment[agent].numpy()[:] = arrays[name]
        self.updater.steps[agent] = state["adam_steps"]
        self._noise_rngs[agent].bit_generator.state = state["noise_rng"]
        self._order_rngs[agent].bit_generator.state = state["order_rng"]
        self.normaliser.load(agent, state["moments"])

    def _check_norms(self, norms: Floats32) -> None:
        """Takes out agents whose gradients or parameters have exploded."""
        sizes = np.abs(self._policy.params.numpy()).max(axis=1)
        gradient, parameter = limits.MAX_GRADIENT_NORM, limits.MAX_PARAMETER
        for k in np.flatnonzero(self._alive).tolist():
            if not np.isfinite(norms[k]):
                self._mark_diverged(k, "The gradient of the loss was not finite.")
            elif norms[k] > gradient:
                self._mark_diverged(k, f"The gradient of the loss grew beyond {gradient:g}.")
            elif not sizes[k] < parameter:
                self._mark_diverged(k, f"A parameter of the policy grew beyond {parameter:g}.")

    def _mark_diverged(self, agent: int, reason: str) -> None:
        """Takes an agent out; its zeroed networks keep all numbers of its rows finite."""
        self.diverged.setdefault(agent, reason)
        self._alive[agent] = False
        self._policy.params[agent].zero_()
        self._noise[:, agent] = 0.0
