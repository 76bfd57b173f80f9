"""A finished figure: an element of the page, and the same as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A finished figure."""

    name: str  # stem of its files, unique in the report
    title: str  # short heading
    caption: str  # what it shows, in two sentences at most
    svg: str  # the element for the page
    file: str  # the same as an SVG file
    tex: str  # the same for LaTeX
    notes: str = ""  # what a reader may ask further, folded: intervals and their coverage
    wide: bool = False  # whether it takes the whole width of the page
    names: Sequence[str] = ()  # of its rows, where it has rows

    @property
    def picture(self) -> str:
        """Name of the file to look at."""
        return f"{self.name}.svg"

    def write(self, folder: Path) -> None:
        """Writes the picture into a folder."""
        (folder / self.picture).write_text(self.file, encoding="utf-8")
