"""A least-squares generative adversarial network over the box [−1, 1]^d, in NumPy.

Two small networks need no tensor library: a curriculum stays NumPy alone, its numbers do not depend
on a library's threads, and its state is a few arrays.
"""

from __future__ import annotations

import base64
import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

BATCH = 64
_RATE, _DECAY, _TINY = 1e-3, 0.99, 1e-8
_GENERATOR, _DISCRIMINATOR = (256, 256), (128, 128)


class Network:
    """A network of dense layers with leaky rectifiers, trained by RMSprop.

    Args:
        sizes: Numbers of inputs, hidden units and outputs.
        leak: Slope of the rectifiers below zero.
        rng: Draws the first weights (Glorot's uniform ones); biases are zero.
    """

    def __init__(self, sizes: tuple[int, ...], leak: float, rng: np.random.Generator) -> None:
        self.leak = np.float32(leak)
        self.arrays: list[Floats32] = []
        for rows, columns in pairwise(sizes):
            limit = math.sqrt(6.0 / (rows + columns))
            self.arrays.append(rng.uniform(-limit, limit, (rows, columns)).astype(np.float32))
            self.arrays.append(np.zeros(columns, dtype=np.float32))
        self.squares = [np.zeros_like(array) for array in self.arrays]

    def forward(self, x: Floats32) -> list[Floats32]:
        """Returns the input, the activations of every hidden layer, and the output."""
        found = [x]
        for i in range(0, len(self.arrays), 2):
            x = x @ self.arrays[i] + self.arrays[i + 1]
            if i + 2 < len(self.arrays):
                x = np.where(x > 0, x, self.leak * x)
            found.append(x)
        return found

    def backward(
        self, activations: list[Floats32], slope: Floats32
    ) -> tuple[list[Floats32], Floats32]:
        """Returns the gradients of all arrays and of the input, given that of the output."""
        gradients: list[Floats32] = []
        for i in range(len(self.arrays) - 2, -1, -2):
            x = activations[i // 2]
            gradients[:0] = [x.T @ slope, slope.sum(axis=0)]
            slope = slope @ self.arrays[i].T
            if i:
                slope = np.where(x > 0, slope, self.leak * slope)
        return gradients, slope

    def descend(self, gradients: list[Floats32]) -> None:
        """Takes one step of RMSprop."""
        for array, square, gradient in zip(self.arrays, self.squares, gradients, strict=True):
            square *= np.float32(_DECAY)
            square += np.float32(1.0 - _DECAY) * gradient * gradient
            array -= np.float32(_RATE) * gradient / (np.sqrt(square) + np.float32(_TINY))

    def to_list(self) -> list[str]:
        """Returns weights and moments as text, bit by bit."""
        both = (*self.arrays, *self.squares)
        return [base64.b64encode(array.tobytes()).decode() for array in both]

    def restore(self, texts: list[str]) -> None:
        """Takes what `to_list` returned."""
        for array, text in zip((*self.arrays, *self.squares), texts, strict=True):
            array[...] = np.frombuffer(base64.b64decode(text), np.float32).reshape(array.shape)


class Lsgan:
    """A generator of points, and a discriminator that tells good ones by their labels."""

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        self.dim = dim
        self.generator = Network((dim, *_GENERATOR, dim), 0.0, rng)
        self.discriminator = Network((dim, *_DISCRIMINATOR, 1), 0.01, rng)

    def generate(self, noise: Floats32) -> Floats32:
        """Returns the points in [−1, 1]^d that standard normal numbers (n, d) lead to."""
        return np.asarray(np.tanh(self.generator.forward(noise)[-1]))

    def train(
        self, points: Floats32, labels: Floats32, rounds: int, rng: np.random.Generator
    ) -> None:
        """Trains on points with labels 1 (good) or 0, so that good ones are generated.

        The discriminator regresses 1 for good points and −1 for others and for generated ones; the
        generator moves its points to where that says 1.
        """
        order = rng.permutation(len(points))
        for i in range(rounds):
            rows = order[np.arange(i * BATCH, (i + 1) * BATCH) % len(order)]
            noise = rng.standard_normal((BATCH, self.dim), dtype=np.float32)
            made = self.generator.forward(noise)
            fake: Floats32 = np.tanh(made[-1])
            shown = np.concatenate([points[rows], fake])
            wanted = np.concatenate([2.0 * labels[rows] - 1.0, np.full(BATCH, -1.0)])
            seen = self.discriminator.forward(shown)
            error = (seen[-1] - wanted[:, None].astype(np.float32)) * np.float32(2.0 / len(shown))
            self.discriminator.descend(self.discriminator.backward(seen, error)[0])
            seen = self.discriminator.forward(fake)
            error = (seen[-1] - np.float32(1.0)) * np.float32(2.0 / BATCH)
            slope = self.discriminator.backward(seen, error)[1] * (np.float32(1.0) - fake * fake)
            self.generator.descend(self.generator.backward(made, slope)[0])

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-able values."""
        return {
            "generator": self.generator.to_list(),
            "discriminator": self.discriminator.to_list(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes what `to_dict` returned."""
        self.generator.restore(state["generator"])
        self.discriminator.restore(state["discriminator"])
