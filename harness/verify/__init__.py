"""The promises a curriculum can make, each as a property that could fail.

`tests/properties` tries all of them on every registered curriculum, and `pacebench verify NAME` on
one, built in or from a package of yours. A promise is a flag in `Curriculum.capabilities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pacebench import curricula
from pacebench.harness.verify import convergence, invariance, local, optimality, robustness, trust
from pacebench.harness.verify.problems import Problem, Subject
from pacebench.harness.verify.suite import CheckOutcome, Property, Violation, attempt, claimed

PROPERTIES: list[Property] = [
    *trust.PROPERTIES,
    *optimality.PROPERTIES,
    *local.PROPERTIES,
    *convergence.PROPERTIES,
    *invariance.PROPERTIES,
    *robustness.PROPERTIES,
]


def verify(
    name: str,
    *,
    examples: int = 100,
    options: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[CheckOutcome]:
    """Tries every property that the curriculum called `name` claims.

    Args:
        name: A registered name.
        examples: Examples per property; properties that take many updates get fewer.
        options: Options of the curriculum, where the defaults are not the ones to test.
        progress: Is told the name of each property before it is tried.
    """
    subject = Subject(curricula.get(name), options)
    outcomes = []
    for prop in claimed(subject, PROPERTIES):
        if progress is not None:
            progress(prop.name)
        outcomes.append(attempt(prop, subject, examples))
    return outcomes


__all__ = [
    "PROPERTIES",
    "CheckOutcome",
    "Problem",
    "Property",
    "Subject",
    "Violation",
    "attempt",
    "claimed",
    "verify",
]
