"""Everything that turns a study into evidence.

Names are imported when they are first used, so that `import harness` and the command line stay
quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.report import report
    from harness.runner import run
    from harness.store import load_results
    from harness.study.load import load_study

__all__ = ["load_results", "load_study", "report", "run"]

_HOMES = {
    "load_study": "harness.study.load",
    "run": "harness.runner",
    "load_results": "harness.store",
    "report": "harness.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
