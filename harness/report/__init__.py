"""Reports: claims first, every number with its interval, every limit spelled out.

`harness.report("results/quick")` writes one. Imported when first used, because drawing needs much
that the rest does not.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.report.make import Report, report

__all__ = ["Report", "report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'harness.report' has no attribute {name!r}")
    return getattr(import_module("harness.report.make"), name)


class _Callable(ModuleType):
    """Lets `harness.report` be the function it is named after.

    Importing any part of a package puts the package itself into its parent, under that very name.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        """Writes a report; see `harness.report.make.report`."""
        made: Report = import_module("harness.report.make").report(*arguments, **options)
        return made


sys.modules[__name__].__class__ = _Callable
