"""A picture of one Point Mass episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envs.base import Floats


def draw(trace: Sequence[tuple[float, float]], context: Floats, crashed: bool) -> NDArray[np.uint8]:
    """Draws the arena, the wall with its gate, the goal and the way so far.

    Args:
        trace: Positions after every substep, the last one being the present.
        context: Gate position, gate width and friction.
        crashed: Whether the mass hit the wall.
    """
    return np.zeros((64, 64, 3), np.uint8)
