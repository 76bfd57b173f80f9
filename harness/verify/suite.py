"""What a property is, and how to search for a counterexample to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pacebench.curricula import Capabilities
from pacebench.harness.verify.problems import Subject

Check = Callable[[Subject, Any], str | None]


class Violation(AssertionError):  # noqa: N818 - it is a finding, not an error of the suite
    """A property does not hold for an example; the message says by how much."""


def require(condition: object, message: str) -> None:
    """Raises a `Violation` unless `condition` holds."""
    if not condition:
        raise Violation(message)


def sentence(check: Callable[..., object]) -> str:
    """Returns the first line of a check's docstring, as it stands in a table."""
    said = (check.__doc__ or check.__name__).partition("\n")[0].removesuffix(".")
    return said[0].lower() + said[1:]


@dataclass(frozen=True)
class Property:
    """One thing that a curriculum may promise."""

    name: str  # a stable identifier
    doc: str  # the promise, in a sentence
    check: Check  # raises `Violation` if an example breaks the promise; returns the case it met
    claimed: Callable[[Capabilities], bool]  # whether the capabilities promise it
    # The strategy that draws examples for a subject.
    examples: Callable[[Subject], st.SearchStrategy[Any]]
    cost: int  # about how many updates one example takes; the more, the fewer examples are tried


def promise(
    name: str,
    *,
    claimed: Callable[[Capabilities], bool] = lambda _: True,
    examples: Callable[[Subject], st.SearchStrategy[Any]] = Subject.problems,
    cost: int = 1,
) -> Callable[[Check], Property]:
    """Returns a decorator that makes a property of a check; its docstring states the promise.

    Unless told otherwise, every curriculum promises it, and it is tried on all update problems.
    """
    return lambda check: Property(name, sentence(check), check, claimed, examples, cost)


@dataclass
class CheckOutcome:
    """The result of trying one property on one curriculum."""

    property: str  # the name of the property
    doc: str  # the promise, in a sentence
    held: bool = True  # whether no example broke it
    examples: int = 0  # how many examples were tried
    message: str = ""  # how the smallest counterexample broke it
    counterexample: str = ""  # the smallest counterexample
    # How often each case of the update occurred.
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
    """Searches for a counterexample, and for the smallest unless told not to shrink.

    As many `examples` are tried, divided by the property's cost. The search is derandomised: the
    same curriculum gets the same verdict each time.
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
            # Hypothesis runs the smallest counterexample last, so that one is what remains here.
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
