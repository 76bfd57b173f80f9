"""A worker imports what its cell needs, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks.startup import SUPERFLUOUS, loaded_by_a_worker


@pytest.mark.slow
def test_a_worker_imports_only_what_its_cell_needs() -> None:
    loaded = loaded_by_a_worker()
    assert "pacebench" in loaded
    assert not loaded & set(SUPERFLUOUS)
