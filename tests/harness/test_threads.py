"""Processes compute with one thread, and with the kernels of the committed results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pacebench.harness import threads

NEWER = "vendor_id : Acme\nflags : fpu sse2 avx512f avx512cd avx512bw avx512dq avx512vl amx\n"
OLDER = "vendor_id : Acme\nflags : fpu sse2 avx avx2 avx512f\n"


def test_a_processor_with_avx_512_gets_the_kernels_of_the_committed_results(tmp_path: Path) -> None:
    (tmp_path / "newer").write_text(NEWER)
    (tmp_path / "older").write_text(OLDER)
    chosen = [threads._kernels(str(tmp_path / name)) for name in ("newer", "older", "none")]
    assert chosen == [{"OPENBLAS_CORETYPE": "SkylakeX"}, {}, {}]


@pytest.mark.parametrize("chosen", [None, "Haswell"])
def test_a_worker_computes_with_them_unless_its_user_chose_others(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if chosen:
        monkeypatch.setenv("OPENBLAS_CORETYPE", chosen)
    script = (
        "import numpy, threadpoolctl\n"
        "blas = [b for b in threadpoolctl.threadpool_info() if b['user_api'] == 'blas']\n"
        "print(*[b['architecture'] for b in blas], *[b['num_threads'] for b in blas])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=threads.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    architecture, count = done.stdout.split()
    assert count == "1"
    wanted = chosen or threads._kernels().get("OPENBLAS_CORETYPE")
    assert architecture == (wanted or architecture)
