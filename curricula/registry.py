"""The names of curricula, ours and those of outside packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pacebench.curricula.base import Common, Curriculum
from pacebench.curricula.errors import CurriculumError
from pacebench.registry import Registry

_REGISTRY: Registry[type[Curriculum]] = Registry("curriculum", "pacebench.curricula")

names, origin, unregister = _REGISTRY.names, _REGISTRY.origin, _REGISTRY.unregister

C = TypeVar("C", bound=type[Curriculum])


def register(name: str) -> Callable[[C], C]:
    """Returns a class decorator that registers a curriculum under `name`.

    Packages of your own list their classes under the entry-point group `pacebench.curricula`.
    """

    def add(cls: C) -> C:
        _REGISTRY.register(name)(cls)
        cls.name = name
        return cls

    return add


def get(name: str) -> type[Curriculum]:
    """Returns the class registered under `name`.

    Raises:
        UnknownNameError: There is none; the message names the nearest match.
    """
    cls = _REGISTRY.get(name)
    if not (isinstance(cls, type) and issubclass(cls, Curriculum)):
        raise CurriculumError(
            f"what is registered as {name!r} is not a subclass of curricula.Curriculum."
        )
    # An outside package may list a class that never ran the decorator.
    if not cls.name:
        cls.name = name
    return cls


def make(name: str, **keywords: Any) -> Curriculum:
    """Returns a new curriculum.

    Args:
        name: A registered name.
        **keywords: `target` and `initial`, optionally `bounds`, `epsilon` and `threshold`, and
            whatever `get(name).options()` lists.

    Raises:
        UnknownNameError: Nothing is registered under `name`.
        CurriculumError: A keyword is unknown, missing or has a value that does not fit.
    """
    cls = get(name)
    own = cls.options()
    for keyword in keywords:
        if keyword not in own and keyword not in Common.__annotations__:
            offered = ", ".join(own) or "none"
            raise CurriculumError(f"{name!r} has no option {keyword!r}; its options: {offered}.")
    for required in ("target", "initial"):
        if required not in keywords:
            raise CurriculumError(
                f"{name!r} needs the {required} distribution, {required}=Gaussian(…)."
            )
    return cls(**keywords)
