"""Steps to threshold: censoring that is never averaged away."""

from __future__ import annotations

import numpy as np
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.statistics.survival import restrict


def test_restricted_mean_counts_those_that_never_made_it() -> None:
    steps = np.array([10.0, 20.0, np.nan, np.nan])
    times = restrict(steps, 100.0)
    np.testing.assert_array_equal(times, [10, 20, 100, 100])
    assert times.mean() == 57.5
    assert times.mean() > np.nanmean(steps), "an average over those that made it would say 15"


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="horizon"):
        restrict(np.array([1.0]), 0.0)
    with pytest.raises(UserError, match="negative"):
        restrict(np.array([-1.0]), 10.0)
