"""What a user can do wrong, as opposed to what we did wrong."""

from __future__ import annotations

from pacebench.registry import UserMistakeError


class UserError(UserMistakeError):
    """A mistake in what the user gave the harness: a study, a folder, a command's option."""


class MissingExtraError(UserError):
    """An optional dependency that the asked-for feature needs is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'pacebench[{extra}]'.")
