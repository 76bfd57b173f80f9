"""A figure: an element of the page, and the same as files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import ClassVar

from markupsafe import escape

from pacebench.harness.report.palette import Style


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


def part(name: str) -> str:
    """Returns one of the page's parts."""
    return (resources.files("pacebench.harness.report") / "page" / name).read_text(encoding="utf-8")


def standalone(body: str, width: int, height: int, styles: Iterable[Style], title: str) -> str:
    """Returns an SVG file of a drawing, on white, in the light colours of some methods."""
    colours = "".join(f"--m{s.index}:{s.colour};" for s in dict.fromkeys(styles))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<style>svg{{{colours}--page:#fff;--ink:#1b1f24;--soft:#4b5563;--muted:#5f6772;"
        f"--grid:#dfe3e8;--zone:#e6eaef}}text{{font:12px sans-serif}}{part('figure.css')}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )
