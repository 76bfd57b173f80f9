"""S pairs of actor and critic in one flat tensor, with gradients written out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from pacebench.harness.learners.base import Floats32

# Rows of the flat tensor start on a cache line: 16 numbers of 4 bytes.
_LINE = 16
# Indices into the parameters (S, 2, …) of one layer: of all networks, all actors, all critics.
_Index = tuple[int | slice, ...]
_BOTH, _ACTORS, _CRITICS = (slice(None),), (slice(None), 0), (slice(None), 1)


@dataclass(frozen=True)
class Layout:
    """Where the parameters of one agent lie in its row of the flat tensor.

    Actor and critic have the same hidden widths and are the two slices of one stacked product, so
    the critic's head is as wide as the action, too; its columns but the first stay zero, because
    nothing ever flows back through them.

    Attributes:
        observation: Dimension of the observation.
        action: Dimension of the action.
        hidden: Widths of the hidden layers, of the actor and of the critic alike.
    """

    observation: int
    action: int
    hidden: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths from the observation to the heads."""
        return (self.observation, *self.hidden, self.action)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of weight, bias per layer and of the log standard deviation, in order."""
        shapes: list[tuple[int, ...]] = []
        for fan_in, fan_out in zip(self.widths[:-1], self.widths[1:], strict=True):
            shapes += [(2, fan_in, fan_out), (2, 1, fan_out)]
        return [*shapes, (self.action,)]

    @property
    def size(self) -> int:
        """Length of a row, padded to whole cache lines."""
        used = sum(math.prod(shape) for shape in self.shapes)
        return -(-used // _LINE) * _LINE

    def views(self, flat: Floats32) -> list[Floats32]:
        """Returns the parameters (S, *shape) as views into `flat` (S, size)."""
        views, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            views.append(flat[:, start:stop].reshape(len(flat), *shape))
            start = stop
        return views


class StackedPolicy:
    """S Gaussian policies with state-independent spread, and their critics.

    `forward` keeps what `backward` needs; both write into buffers that are allocated once per
    batch shape.

    Attributes:
        params: The flat parameters (S, P), a PyTorch tensor that shares its memory with `weights`,
            `biases` and `log_std`.
        grads: Gradients, likewise.
        rows: The rows of `params`, one leaf tensor per agent, for the optimiser.
    """

    def __init__(self, layout: Layout, agents: int, activation: Literal["tanh", "relu"]) -> None:
        self.layout, self.agents, self.activation = layout, agents, activation
        self.params = torch.zeros(agents, layout.size)
        self.grads = torch.zeros(agents, layout.size)
        self.rows = list(self.params)
        self.grad_rows = list(self.grads)
        views = layout.views(self.params.numpy())
        self.weights, self.biases, self.log_std = views[:-1:2], views[1:-1:2], views[-1]
        grads = layout.views(self.grads.numpy())
        self._grad_weights, self._grad_biases = grads[:-1:2], grads[1:-1:2]
        self.grad_log_std = grads[-1]
        self._buffers: dict[tuple[str, int, tuple[int, ...]], Floats32] = {}
        self._inputs: list[Floats32] = []

    def initialise(
        self, agent: int, seed: np.random.SeedSequence, ortho: bool, log_std: float
    ) -> None:
        """Draws the initial parameters of one agent, with Stable-Baselines3's gains.

        Those are √2 in hidden layers, 0.01 at the action head and 1 at the value head, biases zero;
        without `ortho`, PyTorch's default for linear layers.
        """
        generator = torch.Generator().manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        last = len(self.weights) - 1
        for net, head_gain in ((0, 0.01), (1, 1.0)):
            for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
                fan_in, fan_out = weight.shape[2:]
                # The critic's head has one real column.
                used = 1 if net == 1 and depth == last else fan_out
                drawn = torch.empty(used, fan_in)
                bound = 1.0 / math.sqrt(fan_in)
                bias[agent, net] = 0.0
                if ortho:
                    gain = head_gain if depth == last else math.sqrt(2.0)
                    torch.nn.init.orthogonal_(drawn, gain, generator=generator)
                else:
                    drawn.uniform_(-bound, bound, generator=generator)
                    bias[agent, net, 0, :used] = (
                        torch.empty(used).uniform_(-bound, bound, generator=generator).numpy()
                    )
                weight[agent, net] = 0.0
                weight[agent, net, :, :used] = drawn.numpy().T
        self.log_std[agent] = log_std

    def named(self, agent: int) -> dict[str, Floats32]:
        """Returns views of one agent's parameters, shaped and named as Stable-Baselines3 does."""
        named: dict[str, Floats32] = {}
        last = len(self.weights) - 1
        nets = (("policy_net", "action_net"), ("value_net", "value_net"))
        for net, (trunk, head) in enumerate(nets):
            for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
                # Layers and activations alternate in its modules.
                name = head if i == last else f"mlp_extractor.{trunk}.{2 * i}"
                used = 1 if (net, i) == (1, last) else w.shape[3]
                named[f"{name}.weight"] = w[agent, net, :, :used].T
                named[f"{name}.bias"] = b[agent, net, 0, :used]
        named["log_std"] = self.log_std[agent]
        return named

    def forward(self, obs: Floats32) -> Floats32:
        """Returns the heads (S, 2, B, action) at observations (S, B, observation).

        Slice 0 holds the action means, slice 1 the values in its first column.
        """
        *self._inputs, heads = self._layers(obs[:, None], _BOTH)
        return heads

    def backward(self, heads: Floats32) -> None:
        """Writes the gradients of weights and biases, given those of the heads (S, 2, B, action).

        `heads` and the buffers of the forward pass are used up.
        """
        flowing = heads
        for depth in range(len(self.weights) - 1, -1, -1):
            inputs = self._inputs[depth]
            np.matmul(inputs.swapaxes(2, 3), flowing, out=self._grad_weights[depth])
            # Summing over the batch by a product is several times faster than by a reduction.
            ones = np.ones((1, flowing.shape[2]), np.float32)
            np.matmul(ones, flowing, out=self._grad_biases[depth])
            if depth == 0:
                return
            upstream = self._buffer("gradient", depth, (*flowing.shape[:-1], inputs.shape[-1]))
            np.matmul(flowing, self.weights[depth].swapaxes(2, 3), out=upstream)
            if self.activation == "tanh":
                # tanh' = 1 − tanh²; the activation is not needed again.
                np.multiply(inputs, inputs, out=inputs)
                np.subtract(np.float32(1.0), inputs, out=inputs)
                upstream *= inputs
            else:
                upstream *= inputs > 0
            flowing = upstream

    def actor(self, obs: Floats32) -> Floats32:
        """Returns the action means (S, B, action), without the critic's half of the work."""
        return self._layers(obs, _ACTORS)[-1]

    def critic(self, obs: Floats32) -> Floats32:
        """Returns the values (S, B)."""
        values: Floats32 = self._layers(obs, _CRITICS)[-1][..., 0]
        return values

    def critic_of(self, agent: int, obs: Floats32) -> Floats32:
        """Returns the values (B,) of one agent, where each has another number of observations."""
        values: Floats32 = self._layers(obs, (agent, 1), reuse=False)[-1][:, 0]
        return values

    def _layers(self, obs: Floats32, chosen: _Index, *, reuse: bool = True) -> list[Floats32]:
        """Returns the input of every layer of the chosen networks, and the heads.

        Args:
            obs: Observations, which broadcast against the networks.
            chosen: The networks.
            reuse: Whether to write into buffers that the next call overwrites.
        """
        layers = [obs]
        for depth, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            weight = weights[chosen]
            shape = (*weight.shape[:-2], obs.shape[-2], weight.shape[-1])
            buffer = self._buffer("layer", depth, shape) if reuse else None
            out = np.matmul(layers[-1], weight, out=buffer)
            out += biases[chosen]
            if depth < len(self.weights) - 1:
                self._activate(out)
            layers.append(out)
        return layers

    def _activate(self, array: Floats32) -> None:
        if self.activation == "tanh":
            np.tanh(array, out=array)
        else:
            np.maximum(array, np.float32(0.0), out=array)

    def _buffer(self, purpose: str, depth: int, shape: tuple[int, ...]) -> Floats32:
        key = (purpose, depth, shape)
        if key not in self._buffers:
            self._buffers[key] = np.empty(shape, np.float32)
        return self._buffers[key]
