"""The promises that a curriculum can make, each as a property that can be tested.

`tests/properties` tests every registered curriculum, and `pacebench verify NAME` tests one, built
in or from a package of your own. A promise is a field of `Curriculum.capabilities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pacebench import curricula
from pacebench.harness.verify import (
    behaviour,
    convergence,
    invariance,
    local,
    optimality,
    robustness,
    trust,
)
from pacebench.harness.verify.problems import Subject, UpdateProblem
from pacebench.harness.verify.suite import CheckOutcome, Property, Violation, attempt, claimed

PROPERTIES = [
    prop
    for module in (trust, optimality, local, convergence, invariance, behaviour, robustness)
    for prop in vars(module).values()
    if isinstance(prop, Property)
]


def verify(
    name: str,
    *,
    examples: int = 100,
    options: dict[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[CheckOutcome]:
    """Tries every property that the curriculum called `name` claims.

    Args:
        name: A registered name.
        examples: Examples per property; properties that take many updates get fewer.
        options: Options of the curriculum that differ from their defaults.
        progress: Hears the name of each property before it is tried.
    """
    subject = Subject(curricula.get(name), options)
    outcomes = []
    for prop in claimed(subject, PROPERTIES):
        progress(prop.name)
        outcomes.append(attempt(prop, subject, examples))
    return outcomes


__all__ = [
    "PROPERTIES",
    "CheckOutcome",
    "Property",
    "Subject",
    "UpdateProblem",
    "Violation",
    "attempt",
    "claimed",
    "verify",
]
