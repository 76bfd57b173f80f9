"""What a property is, and how one is tried on a curriculum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pacebench.curricula import Capabilities
from pacebench.harness.verify.problems import Subject


class Violation(AssertionError):  # noqa: N818 - it is a finding, not an error of the suite
    """A property does not hold for an example; the message says by how much."""


def require(condition: bool, message: str) -> None:
    """Raises a `Violation` unless `condition` holds."""
    if not condition:
        raise Violation(message)


@dataclass(frozen=True)
class Property:
    """One thing that a curriculum may promise.

    Attributes:
        name: A stable identifier.
        doc: The promise, in a sentence.
        claimed: Whether the capabilities promise it.
        examples: The strategy that draws examples for a subject.
        check: Raises `Violation` where an example breaks the promise; returns the case it met.
        cost: About how many updates one example takes; fewer examples are tried of dear ones.
    """

    name: str
    doc: str
    claimed: Callable[[Capabilities], bool]
    examples: Callable[[Subject], st.SearchStrategy[Any]]
    check: Callable[[Subject, Any], str | None]
    cost: int = 1


@dataclass
class CheckOutcome:
    """What trying a property showed.

    Attributes:
        property: Its name.
        doc: The promise.
        held: Whether no example broke it.
        examples: How many were tried.
        message: How the smallest counterexample broke it.
        counterexample: That example.
        cases: How often each case of the update was met.
    """

    property: str
    doc: str
    held: bool = True
    examples: int = 0
    message: str = ""
    counterexample: str = ""
    cases: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON-able values."""
        return {**vars(self), "cases": dict(self.cases)}


def claimed(subject: Subject, properties: list[Property]) -> list[Property]:
    """Returns the properties that a curriculum promises."""
    return [p for p in properties if p.claimed(subject.capabilities)]


def attempt(
    prop: Property, subject: Subject, examples: int, *, shrink: bool = True
) -> CheckOutcome:
    """Searches for a counterexample and shrinks what it finds.

    The search is derandomised: the same curriculum gets the same verdict each time.

    Args:
        prop: The property.
        subject: The curriculum.
        examples: How many examples to try, divided by the property's cost.
        shrink: Whether to look for the smallest counterexample or to stop at the first.
    """
    outcome = CheckOutcome(prop.name, prop.doc)

    @settings(
        max_examples=max(3, examples // prop.cost),
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    @given(prop.examples(subject))
    def search(example: Any) -> None:
        outcome.examples += 1
        try:
            case = prop.check(subject, example)
        except Exception as error:
            # Hypothesis tries the smallest counterexample last, so the last note is the right one.
            label = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
            outcome.message, outcome.counterexample = f"{label}{error}", str(example)
            raise
        if case is not None:
            outcome.cases[case] += 1

    try:
        search()
    except Exception as error:  # noqa: BLE001 - whatever a curriculum raises is the finding
        outcome.held = False
        outcome.message = outcome.message or f"{type(error).__name__}: {error}"
    return outcome
