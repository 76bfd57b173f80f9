"""The arrays that environments take and return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
Picture = NDArray[np.uint8]
# Rows of a box, or one integer per copy of a discrete space.
Actions = NDArray[np.float64] | NDArray[np.int64]
