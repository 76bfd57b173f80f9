from __future__ import annotations

from pacebench.registry import UserMistakeError


class CurriculumError(UserMistakeError, ValueError):
    """A mistake in what a curriculum was given; the message is one sentence with the remedy.

    It is raised before any state changes, so the curriculum can still be used.
    """
