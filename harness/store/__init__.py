"""What running a study leaves behind: atomic, checksummed, content-addressed.

Names are imported when they are first used: a worker writes runs and needs no pandas for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.store.files import StorageError
    from harness.store.ledger import Ledger
    from harness.store.load import Results, load_results
    from harness.store.manifest import Manifest
    from harness.store.runs import BadRunError, StoredRun, record_digest
    from harness.store.store import RunStore

_HOMES = {
    "BadRunError": "harness.store.runs",
    "Ledger": "harness.store.ledger",
    "Manifest": "harness.store.manifest",
    "Results": "harness.store.load",
    "RunStore": "harness.store.store",
    "StorageError": "harness.store.files",
    "StoredRun": "harness.store.runs",
    "load_results": "harness.store.load",
    "record_digest": "harness.store.runs",
}

__all__ = [
    "BadRunError",
    "Ledger",
    "Manifest",
    "Results",
    "RunStore",
    "StorageError",
    "StoredRun",
    "load_results",
    "record_digest",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness.store' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
