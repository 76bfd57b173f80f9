"""The names of learners, ours and those of outside packages."""

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


get = _registry.get
names = _registry.names
origin = _registry.origin
unregister = _registry.unregister
