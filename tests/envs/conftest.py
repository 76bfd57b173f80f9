"""Tools that the tests of environments share."""

from __future__ import annotations

import pytest

from pacebench import envs
from pacebench.harness.verify.trajectories import (
    Trajectory,
    contexts_of,
    play_batch,
    play_single,
    random_actions,
    shortened,
)

__all__ = [
    "Trajectory",
    "contexts_of",
    "play_batch",
    "play_single",
    "random_actions",
    "shortened",
]


@pytest.fixture(params=envs.names())
def name(request: pytest.FixtureRequest) -> str:
    """Every registered setup, ours and those of installed packages."""
    return str(request.param)
