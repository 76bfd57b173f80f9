"""A figure: an element of the page, and the same as files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Figure(ABC):
    """What every figure has; its rows or panels are added by its kind."""

    name: str  # stem of its files, unique in the report
    title: str  # short heading
    caption: str  # what it shows, in two sentences at most
    # What a reader may ask further, folded: intervals and their coverage.
    notes: str = field(default="", kw_only=True)
    stamp: str = field(default="", kw_only=True)  # what its file says after the title
    wide: ClassVar[bool] = False  # whether it takes the whole width of the page

    @property
    @abstractmethod
    def svg(self) -> str:
        """The element for the page."""

    @property
    @abstractmethod
    def file(self) -> str:
        """The same as an SVG file."""

    @property
    @abstractmethod
    def tex(self) -> str:
        """The same for LaTeX."""

    @property
    def names(self) -> Sequence[str]:
        """Of its rows, where it has rows."""
        return ()

    @property
    def picture(self) -> str:
        """Name of the file to look at."""
        return f"{self.name}.svg"

    def write(self, folder: Path) -> None:
        """Writes the picture into a folder."""
        (folder / self.picture).write_text(self.file, encoding="utf-8")
