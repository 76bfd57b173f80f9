"""What a user can do wrong, as opposed to what we did wrong."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(Exception):
    """A mistake in what the user gave us; the CLI prints the sentences and exits with 2.

    Attributes:
        sentences: One sentence per mistake: where it is, what is wrong, what to do.
    """

    def __init__(self, *sentences: str) -> None:
        self.sentences: Sequence[str] = sentences
        super().__init__("\n".join(sentences))


class MissingExtraError(UserError):
    """An optional dependency that the asked-for feature needs is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'pacebench[{extra}]'.")
