"""How far a distribution is from the target, measured on samples: no density is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacebench.curricula.checks import Array
from pacebench.curricula.distributions import Distribution

DIRECTIONS, TARGET_SAMPLES, SAMPLES = 64, 2048, 512
# Many dimensions get fewer samples: at most so many numbers are drawn of the target, and of p.
_TARGET_NUMBERS, _NUMBERS = 1 << 21, 1 << 16
_BLOCK = 1 << 16
_SEED = 20_220_929


class SlicedWasserstein:
    """The sliced 1-Wasserstein distance to a target: the mean of W₁ over 64 fixed directions.

    Along each direction, 512 samples of p are matched in order of size with 2 048 of the target,
    each with the mean of four of them, which is all that is kept of the target. Directions, and
    the numbers that samples are made of, are the same each time, so that equal distributions have
    equal distances. At the target itself the noise of the samples remains, some 0.03 of the
    target's standard deviation. (W₂ would be the square root of what too many samples at one of two
    modes contribute, and so mistake that noise for a distance.)

    Args:
        target: The target ψ.
        lower: What contexts are clipped to before they are compared, as environments clip them;
            −∞ for no bound.
        upper: Likewise.
        unit: The unit of each context dimension.
    """

    def __init__(self, target: Distribution, lower: Array, upper: Array, unit: Array) -> None:
        d = target.dim
        self._lower, self._upper, self._unit = lower, upper, unit
        self._count = _power_of_two(SAMPLES, _NUMBERS // d)
        rng = np.random.default_rng(_SEED)
        self._directions = rng.standard_normal((DIRECTIONS, d), dtype=np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", self._directions, self._directions))
        self._directions /= lengths[:, None]
        # Single precision is enough once the origin lies within the target.
        drawn = target.sample(max(1, min(32, _BLOCK // d)), rng)
        self._origin = np.clip(drawn, lower, upper).mean(axis=0)
        count = max(self._count, _power_of_two(TARGET_SAMPLES, _TARGET_NUMBERS // d))
        blocks = self._projected(target, count).reshape(DIRECTIONS, self._count, -1)
        self._means = blocks.mean(axis=2)

    def __call__(self, p: Distribution) -> float:
        """Returns the distance of `p`, in the units of the context dimensions."""
        return float(np.abs(self._projected(p, self._count) - self._means).mean(dtype=np.float64))

    def _projected(self, p: Distribution, count: int) -> NDArray[np.float32]:
        """Returns samples of `p` along each direction, sorted, (directions, count)."""
        rng = np.random.default_rng(_SEED)
        result = np.empty((DIRECTIONS, count), dtype=np.float32)
        height = max(1, _BLOCK // p.dim)
        for start in range(0, count, height):
            stop = min(count, start + height)
            x = np.clip(p.sample(stop - start, rng), self._lower, self._upper)
            x = ((x - self._origin) / self._unit).astype(np.float32)
            result[:, start:stop] = self._directions @ x.T
        result.sort(axis=1)
        return result


def _power_of_two(most: int, limit: int) -> int:
    return min(most, 1 << max(5, max(1, limit).bit_length() - 1))
