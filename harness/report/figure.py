"""A finished figure: an element of the page, and the same as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A finished figure.

    Attributes:
        name: Stem of its files, unique in the report.
        title: Short heading.
        caption: What it shows, in two sentences at most.
        svg: The element for the page.
        file: The same as an SVG file.
        tex: The same for LaTeX.
        notes: What a reader may ask further, folded: intervals and their coverage.
        wide: Whether it takes the whole width of the page.
        names: Of its rows, where it has rows.
    """

    name: str
    title: str
    caption: str
    svg: str
    file: str
    tex: str
    notes: str = ""
    wide: bool = False
    names: Sequence[str] = ()

    @property
    def picture(self) -> str:
        """Name of the file to look at."""
        return f"{self.name}.svg"

    def write(self, folder: Path) -> None:
        """Writes the picture into a folder."""
        (folder / self.picture).write_text(self.file, encoding="utf-8")
