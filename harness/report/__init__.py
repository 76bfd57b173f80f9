"""Reports: claims first, every number with its interval, every limit spelled out.

Imported when first used, because drawing needs much that the rest does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.report.make import Report, report

__all__ = ["Report", "report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'harness.report' has no attribute {name!r}")
    return getattr(import_module("harness.report.make"), name)
