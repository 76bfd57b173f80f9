"""Steps to threshold: right-censored, so summarised by the restricted mean.

All runs of a setup train for the same number of steps. A run that never reached the threshold is
censored there, and the restricted mean up to that horizon is the plain mean of min(steps, horizon).
A run that was lost before is not censored but unknown, which the policy for missing runs handles.
"""

from __future__ import annotations

import math

import numpy as np

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.scores import FloatArray


def restrict(steps: FloatArray, horizon: float) -> FloatArray:
    """Returns min(steps, horizon), with NaN (never reached) as the horizon."""
    values = np.asarray(steps, dtype=np.float64)
    if (values < 0).any() or not math.isfinite(horizon) or horizon <= 0:
        raise UserError("Steps to threshold must not be negative and the horizon must be positive.")
    return np.where(np.isnan(values), horizon, np.minimum(values, horizon))
