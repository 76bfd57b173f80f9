"""Scores from elsewhere as one table, whatever file they came in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pacebench.harness.errors import UserError
from pacebench.harness.store.reading import MIB, read_file

LARGEST = 1024 * MIB


class ForeignRow(NamedTuple):
    """One score of one run.

    Attributes:
        seed: Which of its runs, in whatever way the file tells them apart.
        step: When it was measured; 0 where the file does not say.
        score: What it scored, more being better; NaN where it is unknown.
        success: The share of successful episodes; NaN where it is unknown.
        status: What the file says of the run; empty where it does not.
        where: The place in the file, for error messages.
    """

    method: str
    task: str
    seed: str
    step: int
    score: float
    success: float = math.nan
    status: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False)
class ForeignScores:
    """Scores that were not made here.

    Attributes:
        rows: `ForeignRow`s as a frame, in the order of the files.
        notes: What the reader of a report must know about how they were read.
        normalised: Whether the file's format promises scores on one scale for all tasks.
    """

    rows: pd.DataFrame
    source: str
    notes: tuple[str, ...] = ()
    normalised: bool = False


def collected(
    rows: Iterable[ForeignRow], source: str, notes: Sequence[str] = (), *, normalised: bool = False
) -> ForeignScores:
    """Returns rows as a table, once they make sense together.

    Raises:
        UserError: There are none, a value is impossible, or a score occurs twice.
    """
    seen: set[tuple[Any, ...]] = set()
    kept = list(rows)
    if not kept:
        raise UserError(f"{source}: holds no scores; give one row per training run.")
    stepped = any(row.step for row in kept)
    for row in kept:
        for name in ("method", "task", "seed"):
            if not getattr(row, name).strip():
                raise UserError(f"{row.where}: the {name} is empty; every score needs one.")
        if math.isinf(row.score):
            raise UserError(
                f"{row.where}: the score is infinite; leave it empty where a run was lost, and "
                "give a run that failed the lowest score there is."
            )
        if not (math.isnan(row.success) or 0 <= row.success <= 1):
            raise UserError(f"{row.where}: the success is {row.success:g}; it is a share, 0 to 1.")
        key = (row.method, row.task, row.seed, row.step)
        if key in seen:
            at = f" at step {row.step}" if stepped else ""
            raise UserError(
                f"{row.where}: '{row.method}' on '{row.task}' has seed {row.seed}{at} twice; the "
                "unit is the training run, so average its episodes, and tell runs apart by seed."
            )
        seen.add(key)
    frame = pd.DataFrame(kept, columns=list(ForeignRow._fields))
    return ForeignScores(frame, source, tuple(dict.fromkeys(notes)), normalised)


def content(path: Path) -> bytes:
    """Returns the content of a file that the user named; a link is followed.

    Raises:
        UserError: It cannot be read.
    """
    try:
        return read_file(path.resolve(), LARGEST)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path}: cannot be read ({error}).") from None


def number(text: Any, where: str, what: str) -> float:
    """Returns a number; NaN where nothing is given.

    Raises:
        UserError: It is something else.
    """
    if text is None or (isinstance(text, str) and text.strip().lower() in ("", "na", "nan")):
        return math.nan
    try:
        if isinstance(text, bool):
            raise TypeError
        return float(text)
    except (TypeError, ValueError, OverflowError):
        shown = str(text)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}…"
        raise UserError(f"{where}: the {what} '{shown}' is no number.") from None


def whole(text: Any, where: str, what: str) -> int:
    """Returns a whole number that is not negative.

    Raises:
        UserError: It is something else.
    """
    value = number(text, where, what)
    if not (math.isfinite(value) and value >= 0 and value == int(value) and value < 2**53):
        raise UserError(f"{where}: the {what} '{text}' is no whole number from 0 on.")
    return int(value)
