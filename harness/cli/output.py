"""Output of the commands: coloured in a terminal, plain lines in a pipe or a file."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Returns a console on the present standard output or standard error.

    Where that is not a terminal there is no colour, and lines are folded at 120 columns unless
    COLUMNS says otherwise.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Prints warnings (of outside packages, mostly) as plain sentences on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for sentence in dict.fromkeys(str(w.message) for w in caught):
        sys.stderr.write(f"warning: {sentence}\n")
