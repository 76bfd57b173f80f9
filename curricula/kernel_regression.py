"""Kernel regression: values of contexts from those of remembered ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacebench.curricula.checks import Array

# Kernels computed at a time: they stay in the cache.
_AT_A_TIME = 1 << 16
# The smallest logarithm of a kernel that counts, and the sum of kernels below which all are far.
_NEGLIGIBLE, _FAR = np.float32(-60.0), 1e-9
# The logarithm of the kernel at 3h, and how many of the nearest count where all are beyond it.
_EDGE, _NEAREST = np.float32(-4.5), 10


class KernelRegression:
    """Nadaraya–Watson regression with a Gaussian kernel of width h."""

    def __init__(self, contexts: Array, values: Array, width: float) -> None:
        # Single precision halves the time of the many exponentials; centring keeps its digits.
        self._origin, self._width = contexts.mean(axis=0), width
        points = (contexts - self._origin) / width
        halves = 0.5 * np.einsum("ij,ij->i", points, points)
        # −‖c − x‖²/2h² = c·x − ‖x‖²/2 − ‖c‖²/2, as one product.
        self._points = np.column_stack([points, -halves, np.ones(len(points))]).astype(np.float32).T
        self._shift = float(values.min())
        # Beside the values stand ones: both sums of the regression are one product, too.
        shifted = values - self._shift
        self._values = np.column_stack([shifted, np.ones(len(shifted))]).astype(np.float32)

    def __call__(self, contexts: Array) -> Array:
        """Returns the prediction at each row of (n, d)."""
        x = (contexts - self._origin) / self._width
        halves = 0.5 * np.einsum("ij,ij->i", x, x)
        asked = np.column_stack([x, np.ones(len(x)), -halves]).astype(np.float32)
        sums = np.empty((len(asked), 2), np.float32)
        height = max(1, _AT_A_TIME // len(self._values))
        # Fresh memory would take longer to get than to fill.
        space = np.empty((min(height, len(asked)), len(self._values)), np.float32)
        for start in range(0, len(asked), height):
            rows = asked[start : start + height]
            logs = np.matmul(rows, self._points, out=space[: len(rows)])
            sums[start : start + height] = self._sums(logs)
        far = np.flatnonzero(sums[:, 1] < _FAR)
        if len(far):
            # The nearest point decides where all are far; its logarithm becomes zero.
            logs = asked[far] @ self._points
            logs -= logs.max(axis=1, keepdims=True)
            sums[far] = self._sums(logs)
        return sums[:, 0] / sums[:, 1].astype(np.float64) + self._shift

    def _sums(self, logs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns Σ k V and Σ k of each row; overwrites the logarithms."""
        # Smaller numbers are nothing beside the others, and slow to compute with.
        np.maximum(logs, _NEGLIGIBLE, out=logs)
        np.exp(logs, out=logs)
        return np.asarray(logs @ self._values)


class NearbyRegression(KernelRegression):
    """The same over the points within 3h, or the ten nearest where there is none.

    No more than half of all points count at once, by lot: the lot is another for every nearest
    point, so that contexts close together do not all rise or fall with one draw.
    """

    def __init__(
        self, contexts: Array, values: Array, width: float, rng: np.random.Generator
    ) -> None:
        # In random order any stretch of a selection, taken round its end, is a random part of it.
        order = rng.permutation(len(contexts))
        super().__init__(contexts[order], values[order], width)
        self._most = max(1, len(contexts) // 2)
        # Where the stretch begins, as a share of the selection, by the nearest point.
        self._begins = rng.random(len(contexts))

    def _sums(self, logs: NDArray[np.float32]) -> NDArray[np.float32]:
        near = logs > _EDGE
        count = near.sum(axis=1)
        many, none = np.flatnonzero(count > self._most), np.flatnonzero(count == 0)
        if len(many):
            of = count[many]
            begins = (self._begins[logs[many].argmax(axis=1)] * of).astype(np.int32)
            place = near[many].cumsum(axis=1, dtype=np.int32) - begins[:, None]
            wrapped = place <= (self._most - of)[:, None]
            near[many] &= ((place > 0) & (place <= self._most)) | wrapped
        if len(none):
            nearest = np.sort(logs[none], axis=1)[:, -_NEAREST:]
            near[none] = logs[none] >= nearest[:, :1]
            # The nearest point's logarithm becomes zero.
            logs[none] -= nearest[:, -1:]
        np.copyto(logs, -np.inf, where=~near)
        np.exp(logs, out=logs)
        return np.asarray(logs @ self._values)
