"""Ball Catching: a Barrett WAM with a net, and a ball thrown at a place the context chooses."""

from __future__ import annotations

from envs.ball_catching.batch import BallCatchingBatch

__all__ = ["BallCatchingBatch"]
