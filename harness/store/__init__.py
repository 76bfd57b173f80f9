"""What running a study leaves behind: atomic, checksummed, content-addressed."""

from harness.store.files import StorageError
from harness.store.ledger import Ledger
from harness.store.load import Results, load_results
from harness.store.manifest import Manifest
from harness.store.runs import BadRunError, StoredRun, record_digest
from harness.store.store import RunStore

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
