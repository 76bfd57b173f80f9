"""A finished figure: an element of the page, and the same as files."""

from __future__ import annotations

from collections.abc import Mapping
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
        files: Contents by suffix, such as `.svg` and `.tex`.
        notes: What a reader may ask further, folded: intervals and their coverage.
        wide: Whether it takes the whole width of the page.
    """

    name: str
    title: str
    caption: str
    svg: str
    files: Mapping[str, bytes]
    notes: str = ""
    wide: bool = False

    @property
    def picture(self) -> str:
        """The file that Markdown shows."""
        return f"{self.name}{'.png' if '.png' in self.files else '.svg'}"

    def write(self, folder: Path) -> None:
        """Writes the figure's pictures into a folder."""
        for suffix in (".svg", ".png"):
            if suffix in self.files:
                (folder / f"{self.name}{suffix}").write_bytes(self.files[suffix])
