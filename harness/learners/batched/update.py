"""The PPO update of S agents: Stable-Baselines3's `PPO.train()`, with its gradients by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pacebench.envs.arrays import Bools
from pacebench.harness.learners import limits
from pacebench.harness.learners.base import Floats32
from pacebench.harness.learners.batched.heads import ActionHead
from pacebench.harness.learners.batched.network import StackedPolicy
from pacebench.harness.learners.ppo import PPOParams

_ZERO = np.float32(0.0)
WATCHED = ("approx_kl", "clip_fraction", "value_loss", "entropy", "gradient_norm")


@dataclass
class Rollout:
    """The transitions of one iteration, packed so that one gather shuffles them all.

    Attributes:
        packed: (S, N, observation + action + 4): observation, action, old log-probability,
            advantage, return, old value.
        action: How many numbers an action takes.
        learned: Which transitions (S, N) are learned from; None if all are.
    """

    packed: Floats32
    observation: int
    action: int
    learned: Bools | None = None

    @property
    def returns(self) -> int:
        """The column of the returns; old values are in the next."""
        return self.observation + self.action + 2


class Updater:
    """Minimises the clipped surrogate over the minibatches of a rollout, agent by agent.

    Agents share nothing but the program: advantages are normalised, gradients clipped, early
    stopping decided and Adam's moments kept per agent.
    """

    def __init__(self, policy: StackedPolicy, head: ActionHead, params: PPOParams) -> None:
        self.policy, self.head, self.params = policy, head, params
        self.moments = (torch.zeros_like(policy.params), torch.zeros_like(policy.params))
        # One row per agent, so that each keeps its own step count and may stop on its own; the
        # counts are single numbers that share the memory of `steps`.
        counts = torch.zeros(policy.agents)
        self.steps: Floats32 = counts.numpy()
        self._rows = [list(x) for x in (policy.params, policy.grads, *self.moments, counts)]
        self._grads = policy.grads.numpy()
        # Which agents took the last step, and their rows.
        self._stepped = b""
        self._stepped_rows: list[list[torch.Tensor]] = []
        # Sums over the minibatches that are looked at, and their number, by agent.
        self._sums = dict.fromkeys(WATCHED, np.zeros(0))
        self._looks = np.zeros(policy.agents)
        self._d_heads: dict[int, tuple[Floats32, Floats32, Floats32]] = {}
        self._shuffled = np.empty((0, 0, 0), np.float32)

    def update(self, rollout: Rollout, rngs: list[np.random.Generator], alive: Bools) -> Floats32:
        """Trains on a rollout for `n_epochs`; every agent draws its own minibatch order.

        Returns:
            The largest norm of each agent's gradient before clipping, infinite where one was not
            finite, (S,). A gradient beyond `limits.MAX_GRADIENT_NORM` ends the agent's training.
        """
        n = rollout.packed.shape[1]
        training = alive.copy()
        self._sums = {name: np.zeros(len(alive)) for name in WATCHED}
        self._looks = np.zeros(len(alive))
        largest = np.zeros(len(alive), np.float32)
        # What overflows is found in the gradient's norm and ends its agent, not the program.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.params.n_epochs):
                orders = [rng.permutation(n) for rng in rngs]
                if (learned := rollout.learned) is not None:
                    pairs = zip(orders, learned, strict=True)
                    orders = [o[np.argsort(~kept[o], kind="stable")] for o, kept in pairs]
                self.epoch(rollout, orders, training, largest)
                if not training.any():
                    break
        return np.nan_to_num(largest, nan=np.inf, posinf=np.inf)

    def epoch(
        self,
        rollout: Rollout,
        orders: list[NDArray[np.int64]],
        training: Bools,
        largest: Floats32,
    ) -> None:
        """Goes once through the rollout in the given orders.

        Args:
            rollout: The transitions.
            orders: One permutation per agent; transitions that are left out come last.
            training: Which agents still train; those that exceed `target_kl` or whose gradient
                explodes are taken out, in place.
            largest: The largest norms so far, raised in place.
        """
        if self._shuffled.shape != rollout.packed.shape:
            self._shuffled = np.empty_like(rollout.packed)
        shuffled = self._shuffled
        for source, order, target in zip(rollout.packed, orders, shuffled, strict=True):
            # Permutations are in bounds by construction, and `raise` would buffer the output.
            np.take(source, order, axis=0, out=target, mode="clip")
        advantages = shuffled[:, :, rollout.observation + rollout.action + 1]
        counts = None if rollout.learned is None else rollout.learned.sum(axis=1)
        if self.params.normalize_advantage:
            if counts is None:
                self._normalise(advantages)
            else:
                for row, count in zip(advantages, counts, strict=True):
                    self._normalise(row[None, :count])
        for start in range(0, shuffled.shape[1], self.params.batch_size):
            batch = shuffled[:, start : start + self.params.batch_size]
            left = None if counts is None else counts - start
            last = start + self.params.batch_size >= shuffled.shape[1]
            self._minibatch(batch, rollout, training, largest, left, watched=last)
            if not self._stepped_rows[0]:
                return

    def _normalise(self, advantages: Floats32) -> None:
        """Scales the shuffled advantages (S, N) to mean 0 and variance 1 in every minibatch."""
        (count, n), size = advantages.shape, self.params.batch_size
        whole = n - n % size
        for part in (advantages[:, :whole], advantages[:, whole:]):
            width = min(size, part.shape[1])
            if width < 2:
                # Stable-Baselines3, too, leaves a single one as it is.
                continue
            batches = part.reshape(count, -1, width)
            batches = batches - batches.mean(axis=2, keepdims=True)
            variance = (batches * batches).sum(axis=2, keepdims=True) / np.float32(width - 1)
            batches /= np.sqrt(variance) + np.float32(1e-8)
            part[:] = batches.reshape(part.shape)

    def _minibatch(
        self,
        batch: Floats32,
        rollout: Rollout,
        training: Bools,
        largest: Floats32,
        left: NDArray[np.int64] | None,
        *,
        watched: bool,
    ) -> None:
        """Computes the gradients of all agents' losses and steps the agents that still train.

        `batch` holds shuffled transitions (S, B, …) with the rollout's columns, of which each agent
        learns from the first `left`, or from all; diagnostics are taken if it is `watched`.
        """
        p, policy = self.params, self.policy
        d, a = rollout.observation, rollout.action
        size = batch.shape[1]
        actions = batch[:, :, d : d + a]
        old_log_prob, advantages, returns, old_values = (batch[:, :, d + a + i] for i in range(4))

        out = policy.forward(batch[:, :, :d])
        # The gradient of the loss with respect to `out`, and its used parts.
        d_heads, d_means, d_values = self._zeros(size)
        log_ratio = self.head.log_prob(out[:, 0], actions)
        log_ratio -= old_log_prob
        ratio = np.exp(log_ratio)
        # The losses are means over the batch; with these weights, over what is learned from.
        weights = None if left is None else _weights(left, size)

        looked = training.copy() if watched else None
        if p.target_kl is not None:
            approx_kl = _mean((ratio - 1) - log_ratio, weights)
            stopping = training & ~(approx_kl <= np.float32(1.5 * p.target_kl))
            training ^= stopping
            if looked is None and stopping.any():
                # They may never come to the last minibatch of an epoch.
                looked = stopping
        if looked is not None:
            self._looks += looked
            self._watch("approx_kl", _mean((ratio - 1) - log_ratio, weights), looked)
            outside = np.abs(ratio - 1) > np.float32(p.clip_range)
            self._watch("clip_fraction", _mean(outside, weights), looked)
            error = returns - out[:, 1, :, 0]
            self._watch("value_loss", _mean(error * error, weights), looked)
            self._watch("entropy", self.head.entropy(), looked)

        # The policy loss is −min(Aρ, A clip ρ); d min(·)/dρ is A where Aρ is not larger, else 0.
        gain = advantages * ratio
        np.maximum(ratio, 1 - p.clip_range, out=ratio)
        np.minimum(ratio, 1 + p.clip_range, out=ratio)
        ratio *= advantages
        d_log_prob = np.where(gain <= ratio, gain, _ZERO)
        d_log_prob *= np.float32(-1.0 / size)
        if weights is not None:
            d_log_prob *= weights
        self.head.backward(d_log_prob, d_means, weights)

        values = out[:, 1, :, 0]
        if p.clip_range_vf is None:
            np.subtract(values, returns, out=d_values)
        else:
            change = values - old_values
            kept = np.clip(change, -p.clip_range_vf, p.clip_range_vf)
            inside = np.abs(change) <= np.float32(p.clip_range_vf)
            np.multiply(old_values + kept - returns, inside, out=d_values)
        d_values *= np.float32(2.0 * p.vf_coef / size)
        if weights is not None:
            d_values *= weights
        policy.backward(d_heads)
        norms = self._step(training, largest, None if left is None else left > 0)
        if looked is not None:
            self._watch("gradient_norm", norms, looked)

    def _watch(self, name: str, values: Floats32, looked: Bools) -> None:
        self._sums[name] += np.where(looked, values, 0.0)

    def told(self) -> dict[str, NDArray[np.float64]]:
        """Returns diagnostics (S,) of the last update.

        They are averages over the last minibatch of each epoch and, where an agent stops early, the
        one that stopped it; to look at all would cost a tenth of the update.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return {name: total / self._looks for name, total in self._sums.items()}

    def _step(self, training: Bools, largest: Floats32, due: Bools | None) -> Floats32:
        """Clips the gradients by their norm and lets Adam step the agents that still train.

        An agent that is not `due` learns from nothing here, and keeps its moments as they are.

        Returns:
            The norms (S,) before.
        """
        norms: Floats32 = np.sqrt(np.vecdot(self._grads, self._grads))
        np.maximum(largest, norms, out=largest)
        training &= norms <= np.float32(limits.MAX_GRADIENT_NORM)
        coefficients = np.minimum(
            np.float32(self.params.max_grad_norm) / (norms + np.float32(1e-6)), np.float32(1.0)
        )
        self._grads *= coefficients[:, None]
        stepping = training if due is None else training & due
        if self._stepped != (now := stepping.tobytes()):
            self._stepped = now
            chosen = np.flatnonzero(stepping).tolist()
            self._stepped_rows = [[rows[k] for k in chosen] for rows in self._rows]
        self.steps += stepping
        params, grads, first, second, counts = self._stepped_rows
        if params:
            # What `torch.optim.adam.adam` ends in: sorting the rows on its way there costs several
            # times the arithmetic of one agent.
            torch._fused_adam_(
                params,
                grads,
                first,
                second,
                [],
                counts,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.params.learning_rate,
                weight_decay=0.0,
                eps=1e-5,
                maximize=False,
            )
        return norms

    def _zeros(self, size: int) -> tuple[Floats32, Floats32, Floats32]:
        """Returns gradients of the heads (S, 2, size, action), of the means and of the values."""
        if size not in self._d_heads:
            heads = np.zeros((self.policy.agents, 2, size, self.policy.layout.action), np.float32)
            self._d_heads[size] = heads, heads[:, 0], heads[:, 1, :, 0]
        return self._d_heads[size]


def _mean(values: NDArray[Any], weights: Floats32 | None) -> Floats32:
    """Returns means (S,) over the transitions that are learned from."""
    return np.asarray((values if weights is None else values * weights).mean(axis=1))


def _weights(left: NDArray[np.int64], size: int) -> Floats32:
    """Returns weights (S, size) of mean 1 over the first `left` transitions, 0 on the others."""
    learned = np.arange(size) < left[:, None]
    share = np.maximum(learned.mean(axis=1, keepdims=True), 1.0 / size)
    weights: Floats32 = (learned / share).astype(np.float32)
    return weights
