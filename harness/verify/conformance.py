"""What a setup or a learner must hold to, and the table of what it does hold to."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pacebench.harness.verify.suite import CheckOutcome, Violation, sentence

S = TypeVar("S")


@dataclass(frozen=True)
class Requirement(Generic[S]):
    """One thing that everything of a kind must do, if it has the capability that it is about."""

    name: str  # a stable identifier
    doc: str  # the requirement, in a sentence
    check: Callable[[S], None]  # raises if a subject does not meet it
    applies: Callable[[S], bool]  # whether a subject has the capability


def requirement(
    name: str, found: list[Requirement[S]], applies: Callable[[S], bool] = lambda _: True
) -> Callable[[Callable[[S], None]], Requirement[S]]:
    """Returns a decorator that adds a check to `found`; its docstring states the requirement."""

    def add(check: Callable[[S], None]) -> Requirement[S]:
        found.append(Requirement(name, sentence(check), check, applies))
        return found[-1]

    return add


def outcome(asked: Requirement[S], subject: S) -> CheckOutcome:
    """Tries one requirement."""
    result = CheckOutcome(asked.name, asked.doc, examples=1)
    try:
        asked.check(subject)
    except Violation as error:
        result.held, result.message = False, str(error)
    except Exception as error:  # noqa: BLE001 - whatever a part of somebody's raises is the finding
        result.held, result.message = False, f"{type(error).__name__}: {error}"
        result.counterexample = traceback.format_exc(limit=-2).strip()
    return result


def outcomes(
    asked: Sequence[Requirement[S]], subject: S, progress: Callable[[str], None] = lambda _: None
) -> list[CheckOutcome]:
    """Tries every requirement that applies; `progress` hears the name of each before."""
    found = []
    for one in asked:
        if one.applies(subject):
            progress(one.name)
            found.append(outcome(one, subject))
    return found


def refused(kind: type[Exception], words: str, call: Callable[..., object], *given: object) -> None:
    """Raises a `Violation` unless the call is refused with these words."""
    try:
        call(*given)
    except kind as error:
        if words not in str(error):
            raise Violation(f"refused with {str(error)!r} instead of {words!r}") from None
        return
    raise Violation(f"not refused; expected {words!r}")
