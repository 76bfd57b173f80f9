"""The keywords of a curriculum, read off its signature and docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of one curriculum beyond the common ones: its default and its description."""

    default: Any
    doc: str


class SearchRange(NamedTuple):
    """The interval in which tuning searches an option, unless the study declares another."""

    low: float
    high: float
    log: bool = False
    integer: bool = False


def own_options(cls: type, base: type, common: Collection[str]) -> dict[str, Option]:
    """Returns the keywords of `cls` and the classes between it and `base`, but for the common."""
    found: dict[str, Option] = {}
    for kind in reversed(cls.__mro__):
        if not issubclass(kind, base) or "__init__" not in vars(kind):
            continue
        for name, parameter in inspect.signature(vars(kind)["__init__"]).parameters.items():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in common:
                found[name] = Option(parameter.default, _documented(cls, name))
    return found


def _documented(cls: type, option: str) -> str:
    """Returns what the `Args:` section of the nearest docstring says about `option`."""
    for base in cls.__mro__:
        doc = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        match = re.search(rf"^    {option}: (.+(?:\n {{8}}.+)*)", doc, re.MULTILINE)
        if match:
            return re.sub(r"\s+", " ", match.group(1))
    return ""
