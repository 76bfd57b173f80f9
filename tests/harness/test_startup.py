"""A worker imports what its cell needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.startup import SUPERFLUOUS, loaded_by_a_worker


@pytest.mark.slow
def test_a_worker_imports_only_what_its_cell_needs() -> None:
    loaded = loaded_by_a_worker()
    assert "pacebench" in loaded
    assert not loaded & set(SUPERFLUOUS)


def test_a_runner_and_an_idle_worker_import_neither_scipy_nor_pandas() -> None:
    rooms = "pacebench.harness.runner"
    code = f"import sys, {rooms}.child, {rooms}.launch; print(*sys.modules)"
    listed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not {"scipy", "pandas", "torch"} & set(listed.split())
