"""Runs a study: nothing lost, nothing run twice, from one laptop to a cluster.

Imported when first used, because every worker process imports this package and needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.runner.launch import RunOptions, RunSummary, examinations, run, run_cells
    from harness.runner.task import Limits

__all__ = ["Limits", "RunOptions", "RunSummary", "examinations", "run", "run_cells"]

_HOMES = {"Limits": "harness.runner.task"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'harness.runner' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "harness.runner.launch")), name)
