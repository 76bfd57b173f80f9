"""What a curriculum costs: timed replays, shares of training time, score per second.

    harness.overhead.measure("results/overhead")     # what `pacebench overhead` does
    harness.overhead.section("results/overhead")     # its findings as a section of a report

Names are imported when they are first used: a measuring process imports this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.overhead.measure import measure
    from harness.overhead.pages import section

__all__ = ["measure", "section"]

_HOMES = {"measure": "harness.overhead.measure", "section": "harness.overhead.pages"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness.overhead' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
