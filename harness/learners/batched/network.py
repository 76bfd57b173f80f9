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
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Kernels of matrix products round a row by how many there are, and by its place among them. Of
# eight rows none of OpenBLAS's treats one differently from another.
_BLOCK = 8


@dataclass(frozen=True)
class Layout:
    """Where the parameters of one agent lie in its row of the flat tensor.

    Actor and critic have the same hidden widths and are the two slices of one stacked product, so
    the critic's head is as wide as the action, too; its columns but the first stay zero, because
    nothing ever flows back through them.

    Attributes:
        action: Dimension of the action, or the number of discrete ones.
        hidden: Widths of the hidden layers, of the actor and of the critic alike.
        discrete: Whether actions are discrete; the log standard deviation then stays unused.
    """

    observation: int
    action: int
    hidden: tuple[int, ...]
    discrete: bool = False

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
    """The networks of S policies and their critics; a policy's spread does not depend on the state.

    `forward` keeps what `backward` needs; both write into buffers that are allocated, and viewed as
    the products want them, once per batch size: with one agent such things cost as much as the
    arithmetic.

    Attributes:
        params: The flat parameters (S, P), a PyTorch tensor that shares its memory with `weights`,
            `biases` and `log_std`.
        grads: Gradients, likewise.
    """

    def __init__(self, layout: Layout, agents: int, activation: Literal["tanh", "relu"]) -> None:
        self.layout, self.agents, self.activation = layout, agents, activation
        self.params = torch.zeros(agents, layout.size)
        self.grads = torch.zeros(agents, layout.size)
        views = layout.views(self.params.numpy())
        self.weights, self.biases, self.log_std = views[:-1:2], views[1:-1:2], views[-1]
        grads = layout.views(self.grads.numpy())
        self._grad_weights, self._grad_biases = grads[:-1:2], grads[1:-1:2]
        self.grad_log_std = grads[-1]
        # Weight and bias per layer of all networks, all actors, all critics.
        both = list(zip(self.weights, self.biases, strict=True))
        self._layers = {"both": both}
        self._layers |= {
            name: [(weight[:, net], bias[:, net]) for weight, bias in both]
            for net, name in enumerate(("actors", "critics"))
        }
        self._transposed = [weight.swapaxes(2, 3) for weight in self.weights]
        self._workspaces: dict[tuple[str, int], _Workspace] = {}

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
        if not self.layout.discrete:
            named["log_std"] = self.log_std[agent]
        return named

    def forward(self, obs: Floats32) -> Floats32:
        """Returns the heads (S, 2, B, action) at observations (S, B, observation).

        Slice 0 holds the action means or logits, slice 1 the values in its first column.
        """
        self._obs = obs[:, None]
        return self._run("both", self._obs)

    def backward(self, heads: Floats32) -> None:
        """Writes the gradients of weights and biases, given those of the heads (S, 2, B, action).

        `heads` and the buffers of the forward pass are used up.
        """
        space = self._workspaces["both", heads.shape[2]]
        flowing = heads
        for depth in range(len(self.weights) - 1, 0, -1):
            inputs, upstream = space.layers[depth - 1], space.gradients[depth - 1]
            np.matmul(space.transposed[depth - 1], flowing, out=self._grad_weights[depth])
            # Summing over the batch by a product is several times faster than by a reduction.
            np.matmul(space.ones, flowing, out=self._grad_biases[depth])
            np.matmul(flowing, self._transposed[depth], out=upstream)
            if self.activation == "tanh":
                # tanh' = 1 − tanh²; the activation is not needed again.
                np.multiply(inputs, inputs, out=inputs)
                np.subtract(_ONE, inputs, out=inputs)
                upstream *= inputs
            else:
                upstream *= inputs > 0
            flowing = upstream
        np.matmul(self._obs.swapaxes(2, 3), flowing, out=self._grad_weights[0])
        np.matmul(space.ones, flowing, out=self._grad_biases[0])

    def actor(self, obs: Floats32) -> Floats32:
        """Returns the action means or logits (S, B, action), without the critic's work."""
        return self._run("actors", obs)

    def actor_by_row(self, obs: Floats32) -> Floats32:
        """Returns what `actor` does; no row's result depends on those beside it, to the bit."""
        agents, rows, width = obs.shape
        blocks = -(-rows // _BLOCK)
        padded = np.zeros((agents, blocks * _BLOCK, width), np.float32)
        padded[:, :rows] = obs
        layers = [(weight[:, None], bias[:, None]) for weight, bias in self._layers["actors"]]
        shape = (agents, blocks, _BLOCK)
        outs = [np.empty((*shape, bias.shape[-1]), np.float32) for _, bias in layers]
        heads = self._propagate(layers, padded.reshape(*shape, width), outs)
        return heads.reshape(agents, blocks * _BLOCK, -1)[:, :rows]

    def critic(self, obs: Floats32) -> Floats32:
        """Returns the values (S, B)."""
        return self._run("critics", obs)[..., 0]

    def critic_of(self, agent: int, obs: Floats32) -> Floats32:
        """Returns the values (B,) of one agent, where each has another number of observations."""
        layers = [(weight[agent], bias[agent]) for weight, bias in self._layers["critics"]]
        outs = [np.empty((len(obs), bias.shape[-1]), np.float32) for _, bias in layers]
        values: Floats32 = self._propagate(layers, obs, outs)[:, 0]
        return values

    def _run(self, which: str, obs: Floats32) -> Floats32:
        """Returns the heads of the chosen networks, in a buffer that the next call overwrites."""
        layers, rows = self._layers[which], obs.shape[-2]
        space = self._workspaces.get((which, rows))
        if space is None:
            space = self._workspaces[which, rows] = _Workspace(layers, rows)
        return self._propagate(layers, obs, space.layers)

    def _propagate(
        self, layers: list[tuple[Floats32, Floats32]], obs: Floats32, outs: list[Floats32]
    ) -> Floats32:
        """Writes the output of every layer; returns that of the last."""
        inputs, tanh = obs, self.activation == "tanh"
        for (weight, bias), out in zip(layers, outs, strict=True):
            np.matmul(inputs, weight, out=out)
            out += bias
            if out is outs[-1]:
                break
            if tanh:
                np.tanh(out, out=out)
            else:
                np.maximum(out, _ZERO, out=out)
            inputs = out
        return outs[-1]


class _Workspace:
    """Buffers of some networks for batches of one size.

    Attributes:
        layers: The output (…, rows, width) of each layer.
        transposed: The same memory, rows and columns exchanged.
        gradients: Gradients with respect to `layers`.
        ones: A row (1, rows).
    """

    def __init__(self, layers: list[tuple[Floats32, Floats32]], rows: int) -> None:
        shapes = [(*bias.shape[:-2], rows, bias.shape[-1]) for _, bias in layers]
        self.layers = [np.empty(shape, np.float32) for shape in shapes]
        self.transposed = [layer.swapaxes(-1, -2) for layer in self.layers]
        self.gradients = [np.empty(shape, np.float32) for shape in shapes[:-1]]
        self.ones = np.ones((1, rows), np.float32)
