"""What is raised when a caller asks an environment for something it cannot do."""

from __future__ import annotations

from pacebench.registry import UserMistakeError


class SetupError(UserMistakeError, ValueError):
    """A caller's mistake, told in one sentence: what is wrong, where, and the remedy."""


class PhysicsStateError(SetupError):
    """The state of a physics engine was asked for that cannot give it."""
