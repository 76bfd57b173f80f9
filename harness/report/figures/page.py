"""What a drawing needs to stand alone in a file: its own colours and rules."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

from markupsafe import escape

from pacebench.harness.report.palette import Style


def part(name: str) -> str:
    """Returns one of the page's parts."""
    return (resources.files("pacebench.harness.report") / "page" / name).read_text(encoding="utf-8")


def standalone(body: str, width: int, height: int, styles: Iterable[Style], title: str) -> str:
    """Returns an SVG file of a drawing, on white, in the light colours.

    Args:
        body: The drawing.
        width: In pixels.
        height: In pixels.
        styles: Methods whose colours it uses.
        title: What a screen reader says.
    """
    colours = "".join(f"--m{s.index}:{s.colour};" for s in dict.fromkeys(styles))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<style>svg{{{colours}--page:#fff;--ink:#1b1f24;--soft:#4b5563;--muted:#5f6772;"
        f"--grid:#dfe3e8;--zone:#e6eaef}}text{{font:12px sans-serif}}{part('figure.css')}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )
