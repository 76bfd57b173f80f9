"""Output of the commands: coloured in a terminal, plain lines in a pipe or a file.

What studies and results say of themselves was written by others. It is shown with control and
direction characters spelt out, so that it can neither move the cursor nor read as something else.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult

_ASCII = str.maketrans(
    {
        **dict.fromkeys("−–—‐‑", "-"),
        **{"×": "x", "·": "*", "±": "+/-", "≥": ">=", "≤": "<=", "≈": "~", "→": "->", "‖": "||"},
        **{"√": "sqrt", "∞": "inf", "‘": "'", "’": "'", "“": '"', "”": '"', "•": "*"},
    }
)


def harmless(text: str) -> str:
    """Returns a text whose control and direction characters are spelt out, as JSON does it."""
    # Most texts have none, and are known to by a method that looks at all of it at once.
    if text.replace("\n", "").isprintable():
        return text
    from unicodedata import category

    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        f"\\u{ord(c):04x}" if category(c) in kinds and c not in "\n\t" else c for c in text
    )


def say(text: str, *, err: bool = False) -> None:
    """Prints a text as it is, unfolded."""
    typer.echo(harmless(text), err=err)


def say_json(data: Any) -> None:
    """Prints data for scripts."""
    import json

    say(json.dumps(data, indent=2, ensure_ascii=False))


class _Harmless:
    """Something to print, without what could act on the terminal."""

    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


class _Hook:
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Harmless(shown) for shown in renderables]


def console(*, stderr: bool = False) -> Console:
    """Returns a console on the present standard output or standard error.

    Where that is not a terminal there is no colour, and lines are folded at 120 columns unless
    COLUMNS says otherwise.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    made = Console(file=stream, width=width, highlight=False, soft_wrap=False)
    made.push_render_hook(_Hook())  # type: ignore[arg-type]
    return made


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Prints warnings (of outside packages, mostly) as plain sentences on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for sentence in dict.fromkeys(str(w.message) for w in caught):
        say(f"warning: {sentence}", err=True)


def fit_streams() -> None:
    """Lets terminals that know no Unicode show the nearest thing they know, instead of failing."""
    import codecs

    codecs.register_error("nearest", _nearest)
    for stream in (sys.stdout, sys.stderr):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        if not encoding.lower().startswith("utf") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="nearest")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_spelt(error.object[error.start : error.end])), error.end


def _spelt(text: str) -> Iterable[str]:
    from unicodedata import name, normalize

    for char in normalize("NFKD", text).translate(_ASCII):
        if char.isascii():
            yield char
        elif name(char, "").startswith("GREEK"):
            yield name(char).split()[-1].lower()
        elif not name(char, "COMBINING").startswith("COMBINING"):
            yield "?"
