"""A PPO in JAX with the sizes of `ppo` on `point-mass-2`, physics included: the peer for its speed.

Everything of one iteration is one jitted program, vmapped over the seeds: rollout with automatic
resets, the value of the last observation at truncations, GAE, epochs of shuffled minibatches with
normalised advantages, clipped surrogate, gradients clipped by their norm, Adam. Contexts are drawn
from the setup's initial distribution. All random numbers of a rollout are drawn at once, by XLA's
own generator, and orders by sorting uniform numbers: small draws inside the loop over steps, and
JAX's default generator, cost as much again as everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pacebench import envs
from pacebench.envs.point_mass.arena import (
    ARENA,
    DRIVE,
    GOAL,
    MAX_FORCE,
    START,
    SUBSTEPS,
    TIME_STEP,
)
from pacebench.envs.point_mass.batch import NOISE, REWARD_RATE
from pacebench.harness.learners.ppo import PPOParams

Pytree = Any
SETUP = envs.setup("point-mass-2")
MEAN = jnp.asarray(SETUP.initial_mean, jnp.float32)
STD = jnp.sqrt(jnp.asarray(SETUP.initial_variance, jnp.float32))
LOWER, UPPER = jnp.asarray(SETUP.lower, jnp.float32), jnp.asarray(SETUP.upper, jnp.float32)


def fresh(noise: jax.Array) -> Pytree:
    """One copy at the start of an episode: state (x, ẋ, y, ẏ), context, elapsed steps."""
    context = jnp.clip(MEAN + STD * noise, LOWER, UPPER)
    return jnp.array([START[0], 0.0, START[1], 0.0], jnp.float32), context, 0


def observe(copy: Pytree) -> jax.Array:
    """The state, and the visible context scaled to [−1, 1]."""
    state, context, _ = copy
    return jnp.concatenate([state, 2 * (context - LOWER) / (UPPER - LOWER) - 1])


def physics(copy: Pytree, action: jax.Array, noise: jax.Array) -> tuple[Pytree, Pytree]:
    """One control step: Euler substeps, and the wall with its gate."""
    state, context, elapsed = copy
    force = jnp.clip(action, -MAX_FORCE, MAX_FORCE)

    def substep(carry: Pytree, drawn: jax.Array) -> tuple[Pytree, None]:
        position, velocity, stopped = carry
        after = jnp.clip(position + TIME_STEP * velocity, -ARENA, ARENA)
        faster = velocity + TIME_STEP * (DRIVE * force - context[2] * velocity + NOISE * drawn)
        reached = (position[1] * after[1] <= 0) & (position[1] != 0)
        share = position[1] / jnp.where(reached, position[1] - after[1], 1.0)
        crossing = position[0] + share * (after[0] - position[0])
        hit = reached & (jnp.abs(crossing - context[0]) > 0.5 * context[1]) & ~stopped
        after = jnp.where(hit, jnp.stack([crossing, 0.0]), after)
        keep = stopped | hit
        position = jnp.where(stopped, position, after)
        return (position, jnp.where(keep, 0.0, faster), keep), None

    start = (state[0::2], state[1::2], jnp.array(False))
    (position, velocity, terminated), _ = jax.lax.scan(substep, start, noise, unroll=SUBSTEPS)
    reward = jnp.exp(-REWARD_RATE * jnp.linalg.norm(position - jnp.asarray(GOAL, jnp.float32)))
    state = jnp.stack([position[0], velocity[0], position[1], velocity[1]])
    truncated = (elapsed + 1 >= SETUP.horizon) & ~terminated
    return (state, context, elapsed + 1), (reward, terminated, truncated)


def step(
    copy: Pytree, action: jax.Array, noise: jax.Array, context: jax.Array
) -> tuple[Pytree, Pytree]:
    """One control step; a finished copy begins anew."""
    after, (reward, terminated, truncated) = physics(copy, action, noise)
    over = terminated | truncated
    following = jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh(context), after)
    return following, (reward, terminated, truncated, observe(after))


def network(layers: Pytree, x: jax.Array) -> jax.Array:
    """A perceptron with tanh units."""
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def initialise(key: jax.Array, p: PPOParams) -> Pytree:
    """Orthogonal networks of actor and critic, and the log standard deviation."""

    def layers(key: jax.Array, out: int, gain: float) -> Pytree:
        widths = (7, *p.net_arch, out)
        gains = [2**0.5] * len(p.net_arch) + [gain]
        return [
            (jax.nn.initializers.orthogonal(g)(k, (a, b), jnp.float32), jnp.zeros(b))
            for k, g, a, b in zip(
                jax.random.split(key, len(gains)), gains, widths[:-1], widths[1:], strict=True
            )
        ]

    actor, critic = jax.random.split(key)
    return {
        "actor": layers(actor, 2, 0.01),
        "critic": layers(critic, 1, 1.0),
        "log_std": jnp.full(2, p.log_std_init, jnp.float32),
    }


def log_prob(params: Pytree, mean: jax.Array, action: jax.Array) -> jax.Array:
    """Returns log π(a|s) of a Gaussian."""
    z = (action - mean) * jnp.exp(-params["log_std"])
    return jnp.sum(-0.5 * z * z - params["log_std"] - 0.5 * np.log(2 * np.pi), axis=-1)


def make(p: PPOParams) -> tuple[Callable[..., Pytree], Callable[..., Pytree]]:
    """Returns `init(key)` and `iterate(state)`, both jitted and vmapped over seeds."""

    def init(key: jax.Array) -> Pytree:
        params_key, env_key, key = jax.random.split(key, 3)
        params = initialise(params_key, p)
        zeros = jax.tree.map(jnp.zeros_like, params)
        copies = jax.vmap(fresh)(jax.random.normal(env_key, (p.n_envs, 3)))
        return params, (zeros, zeros, 0), copies, key

    def loss(params: Pytree, batch: Pytree) -> jax.Array:
        obs, action, old, advantage, target = batch
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        ratio = jnp.exp(log_prob(params, network(params["actor"], obs), action) - old)
        clipped = jnp.clip(ratio, 1 - p.clip_range, 1 + p.clip_range)
        gain = jnp.minimum(advantage * ratio, advantage * clipped).mean()
        error = network(params["critic"], obs)[:, 0] - target
        return -gain + p.vf_coef * jnp.mean(error * error)

    def adam(params: Pytree, moments: Pytree, grads: Pytree) -> tuple[Pytree, Pytree]:
        first, second, count = moments
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(p.max_grad_norm / (norm + 1e-6), 1.0), grads)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        rate = p.learning_rate / (1 - 0.9**count)
        root = 1 / jnp.sqrt(1 - 0.999**count)
        params = jax.tree.map(
            lambda x, m, v: x - rate * m / (root * jnp.sqrt(v) + 1e-5), params, first, second
        )
        return params, (first, second, count)

    def iterate(state: Pytree) -> Pytree:
        params, moments, copies, key = state
        key, order_key, rollout_key = jax.random.split(key, 3)

        def act(copies: Pytree, drawn: Pytree) -> tuple[Pytree, Pytree]:
            noise, of_physics, contexts = drawn
            obs = jax.vmap(observe)(copies)
            action = network(params["actor"], obs) + jnp.exp(params["log_std"]) * noise
            copies, out = jax.vmap(step)(copies, action, of_physics, contexts)
            return copies, (obs, action, *out)

        drawn = jax.random.normal(rollout_key, (p.n_steps, p.n_envs, 2 + 2 * SUBSTEPS + 3))
        of_physics = drawn[..., 2:-3].reshape(p.n_steps, p.n_envs, SUBSTEPS, 2)
        copies, found = jax.lax.scan(act, copies, (drawn[..., :2], of_physics, drawn[..., -3:]))
        obs, action, reward, terminated, truncated, final = found
        values = network(params["critic"], obs)[..., 0]
        last = network(params["critic"], jax.vmap(observe)(copies))[:, 0]
        # Most steps truncate nothing, but a program of fixed shapes evaluates them all.
        cut = p.gamma * network(params["critic"], final)[..., 0]
        rewards = reward + jnp.where(truncated, cut, 0.0)
        discount = p.gamma * (1.0 - (terminated | truncated))

        def backwards(carry: Pytree, now: Pytree) -> tuple[Pytree, jax.Array]:
            running, following = carry
            r, v, d = now
            running = r + d * following - v + d * p.gae_lambda * running
            return (running, v), running

        start = (jnp.zeros(p.n_envs), last)
        _, gained = jax.lax.scan(backwards, start, (rewards, values, discount), reverse=True)
        old = log_prob(params, network(params["actor"], obs), action)
        flat = jax.tree.map(
            lambda x: x.reshape(p.n_steps * p.n_envs, *x.shape[2:]),
            (obs, action, old, gained, gained + values),
        )

        def epoch(carry: Pytree, key: jax.Array) -> tuple[Pytree, None]:
            order = jnp.argsort(jax.random.uniform(key, p.n_steps * p.n_envs))
            batches = jax.tree.map(lambda x: x[order].reshape(-1, p.batch_size, *x.shape[1:]), flat)

            def minibatch(carry: Pytree, batch: Pytree) -> tuple[Pytree, None]:
                params, moments = carry
                return adam(params, moments, jax.grad(loss)(params, batch)), None

            return jax.lax.scan(minibatch, carry, batches)[0], None

        keys = jax.random.split(order_key, p.n_epochs)
        (params, moments), _ = jax.lax.scan(epoch, (params, moments), keys)
        return (params, moments, copies, key), rewards.mean()

    return jax.jit(jax.vmap(init)), jax.jit(jax.vmap(iterate), donate_argnums=0)
