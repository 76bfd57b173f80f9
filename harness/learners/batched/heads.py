"""What the actors' outputs mean: normal actions, or probabilities of discrete ones.

A head draws actions in a rollout, and in the update tells log π(a|s) and takes its gradient back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from scipy.special import log_ndtr

from pacebench.envs.arrays import Floats
from pacebench.harness.learners.base import Floats32
from pacebench.harness.learners.batched.network import StackedPolicy

HALF_LOG_2PI = np.float32(0.5 * math.log(2.0 * math.pi))
_MINUS_HALF = np.float32(-0.5)


class ActionHead(ABC):
    """The distribution of S policies' actions.

    Attributes:
        columns: How many numbers of a rollout one action takes.
        ent_coef: What the entropy counts in the loss.
    """

    def __init__(self, policy: StackedPolicy, columns: int, ent_coef: float) -> None:
        self.policy, self.columns, self.ent_coef = policy, columns, ent_coef

    @abstractmethod
    def begin(self, noise: Floats32) -> None:
        """Takes the standard normal numbers (T, S, n, `noise_width`) of a rollout."""

    @abstractmethod
    def scores(self, heads: Floats32, t: int) -> Floats32:
        """Returns what the actions of step t are chosen by (S, n, width); overwrites `heads`."""

    def choose(self, scores: Floats32) -> Floats32:
        """Returns the actions (S, n, columns) as a rollout keeps them."""
        return scores

    def for_env(self, actions: Floats32) -> NDArray[Any]:
        """Returns them as the environment takes them."""
        return actions

    @abstractmethod
    def rollout_log_prob(self) -> Floats32:
        """Returns log π (T, S, n) of the actions of the rollout."""

    @abstractmethod
    def act(self, heads: Floats32, noise: Floats) -> NDArray[Any]:
        """Returns actions inside the action space, deterministic ones where `noise` is zero."""

    @abstractmethod
    def log_prob(self, heads: Floats32, actions: Floats32) -> Floats32:
        """Returns log π (S, B) of a minibatch, and keeps what `backward` needs."""

    @abstractmethod
    def backward(self, d_log_prob: Floats32, d_heads: Floats32, weights: Floats32 | None) -> None:
        """Writes the gradient of the loss, given that with respect to log π (S, B).

        The entropy counts with `weights` (S, B) of mean 1, or evenly.
        """

    @abstractmethod
    def entropy(self) -> Floats32:
        """Returns the mean entropy (S,) of the last minibatch's policies."""


def head_of(
    space: spaces.Box | spaces.Discrete, policy: StackedPolicy, ent_coef: float
) -> ActionHead:
    """Returns the head for an action space."""
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(policy, space, ent_coef)
    return GaussianHead(policy, space, ent_coef)


class GaussianHead(ActionHead):
    """Normal actions whose spread does not depend on the state; clipped by the environment."""

    def __init__(self, policy: StackedPolicy, space: spaces.Box, ent_coef: float) -> None:
        super().__init__(policy, policy.layout.action, ent_coef)
        self._low, self._high = space.low, space.high

    def begin(self, noise: Floats32) -> None:
        """Scales the noise by the policies' spread."""
        self._noise = noise
        with np.errstate(over="ignore", invalid="ignore"):
            self._scaled = np.exp(self.policy.log_std)[:, None] * noise

    def scores(self, heads: Floats32, t: int) -> Floats32:
        """Returns the actions themselves."""
        with np.errstate(invalid="ignore"):
            heads += self._scaled[t]
        return heads

    def rollout_log_prob(self) -> Floats32:
        """Returns log π = Σ −z²/2 − log σ − log √2π, z being the noise."""
        constant = (self.policy.log_std + HALF_LOG_2PI).sum(axis=1)
        log_prob: Floats32 = _MINUS_HALF * np.square(self._noise).sum(axis=3) - constant[:, None]
        return log_prob

    def act(self, heads: Floats32, noise: Floats) -> NDArray[Any]:
        """Returns actions (S, M, action), clipped to the action space."""
        action = heads + np.exp(self.policy.log_std)[:, None] * noise.astype(np.float32)
        clipped: Floats = np.clip(action, self._low, self._high).astype(np.float64)
        return clipped

    def log_prob(self, heads: Floats32, actions: Floats32) -> Floats32:
        """Returns log π(a|s) = Σ −z²/2 − log σ − log √2π."""
        log_std = self.policy.log_std
        self._inverse_std = np.exp(-log_std)[:, None]
        self._z = actions - heads
        self._z *= self._inverse_std
        self._squares = self._z * self._z
        log_prob: Floats32 = np.add.reduce(self._squares, axis=2)
        log_prob *= _MINUS_HALF
        log_prob -= np.add.reduce(log_std + HALF_LOG_2PI, axis=1, keepdims=True)
        return log_prob

    def backward(self, d_log_prob: Floats32, d_heads: Floats32, weights: Floats32 | None) -> None:
        """Writes the gradients of means and log standard deviations."""
        np.multiply(d_log_prob[:, :, None], self._z, out=d_heads)
        d_heads *= self._inverse_std
        squares = self._squares
        squares -= 1
        squares *= d_log_prob[:, :, None]
        np.add.reduce(squares, axis=1, out=self.policy.grad_log_std)
        self.policy.grad_log_std -= np.float32(self.ent_coef)

    def entropy(self) -> Floats32:
        """Returns Σ log σ + log √2πe."""
        entropy: Floats32 = (self.policy.log_std + (HALF_LOG_2PI + np.float32(0.5))).sum(axis=1)
        return entropy


class CategoricalHead(ActionHead):
    """Probabilities of K actions, drawn by the Gumbel-max trick.

    The noise is normal like everybody's: Φ makes it uniform and −log(−log u) Gumbel, and equal
    noise, such as zeros, leaves the most probable action.
    """

    def __init__(self, policy: StackedPolicy, space: spaces.Discrete, ent_coef: float) -> None:
        super().__init__(policy, 1, ent_coef)
        self._start = int(space.start)

    def begin(self, noise: Floats32) -> None:
        """Makes the noise Gumbel."""
        self._gumbel = _gumbel(noise)
        self._logits = np.empty_like(noise)
        self._chosen = np.empty((*noise.shape[:3], 1), np.intp)

    def scores(self, heads: Floats32, t: int) -> Floats32:
        """Returns logits plus Gumbel noise, whose largest is drawn."""
        self._t = t
        self._logits[t] = heads
        with np.errstate(invalid="ignore"):
            heads += self._gumbel[t]
        return heads

    def choose(self, scores: Floats32) -> Floats32:
        """Returns the numbers of the actions."""
        self._chosen[self._t] = scores.argmax(axis=-1)[..., None]
        numbers: Floats32 = self._chosen[self._t].astype(np.float32)
        return numbers

    def for_env(self, actions: Floats32) -> NDArray[Any]:
        """Returns integers (S, n)."""
        numbers: NDArray[np.int64] = actions[..., 0].astype(np.int64) + self._start
        return numbers

    def rollout_log_prob(self) -> Floats32:
        """Returns the log-probabilities of the actions drawn."""
        every = _log_softmax(self._logits)
        log_prob: Floats32 = np.take_along_axis(every, self._chosen, axis=-1)[..., 0]
        return log_prob

    def act(self, heads: Floats32, noise: Floats) -> NDArray[Any]:
        """Returns integers (S, M)."""
        chosen: NDArray[np.int64] = (heads + _gumbel(noise)).argmax(axis=-1) + self._start
        return chosen

    def log_prob(self, heads: Floats32, actions: Floats32) -> Floats32:
        """Returns the log-probabilities of the actions."""
        self._all = _log_softmax(heads)
        self._index = actions.astype(np.intp)
        log_prob: Floats32 = np.take_along_axis(self._all, self._index, axis=-1)[..., 0]
        return log_prob

    def backward(self, d_log_prob: Floats32, d_heads: Floats32, weights: Floats32 | None) -> None:
        """Writes the gradient of the logits: ∂log π(a)/∂l = 1ₐ − π, ∂H/∂l = −π (log π + H)."""
        probability = np.exp(self._all)
        np.multiply(probability, -d_log_prob[:, :, None], out=d_heads)
        taken = np.take_along_axis(d_heads, self._index, axis=-1) + d_log_prob[:, :, None]
        np.put_along_axis(d_heads, self._index, taken, axis=-1)
        if self.ent_coef:
            entropy = -(probability * self._all).sum(axis=-1, keepdims=True)
            weight: Any = np.float32(self.ent_coef / d_heads.shape[1])
            if weights is not None:
                weight = weight * weights[:, :, None]
            d_heads += weight * probability * (self._all + entropy)

    def entropy(self) -> Floats32:
        """Returns −Σ π log π, averaged over the minibatch."""
        entropy: Floats32 = -(np.exp(self._all) * self._all).sum(axis=-1).mean(axis=-1)
        return entropy


def _gumbel(noise: NDArray[Any]) -> Floats32:
    gumbel: Floats32 = -np.log(-log_ndtr(noise.astype(np.float32)))
    return gumbel


def _log_softmax(logits: Floats32) -> Floats32:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log: Floats32 = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log
