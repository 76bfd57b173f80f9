"""Which learners there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pacebench.harness.learners.base import Learner
from pacebench.registry import Registry

_registry: Registry[type[Learner]] = Registry("learner", "pacebench.learners")

L = TypeVar("L", bound=type[Learner])


def register(name: str) -> Callable[[L], L]:
    """Returns a decorator that registers a learner class under `name`."""

    def add(kind: L) -> L:
        kind.name = name
        _registry.register(name)(kind)
        return kind

    return add


def unregister(name: str) -> None:
    """Forgets a learner that was registered by hand."""
    _registry.unregister(name)


def get(name: str) -> type[Learner]:
    """Returns a learner class.

    Raises:
        UnknownNameError: There is none of this name; the message offers the nearest.
    """
    return _registry.get(name)


def names() -> list[str]:
    """Returns the names of all learners, ours first."""
    return _registry.names()


def origin(name: str) -> str:
    """Returns the distribution that `name` comes from."""
    return _registry.origin(name)
