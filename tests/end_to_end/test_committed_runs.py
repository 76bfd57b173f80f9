"""Committed studies are finished, and their runs can be made again.

Of studies that the present code can still run: of earlier ones plan or run ids have changed since.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pacebench import harness
from pacebench.harness.store.pack import unpack
from pacebench.harness.store.runs import record_digest
from pacebench.harness.store.store import RunStore
from tests.end_to_end.committed import ROOT, copied

FINISHED = ("field", "paper", "rule", "solver", "tuned.tuned")


@pytest.fixture(params=FINISHED)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a packed study."""
    return copied(request.param, tmp_path)


def recorded(folder: Path) -> dict[str, str]:
    """Returns the hash of every run: its record and, through their checksums, its files."""
    store = RunStore(folder)
    good, bad = store.scan(store.files.run_ids())
    assert not bad
    return {run_id: record_digest(run.record) for run_id, run in good.items()}


@pytest.mark.slow
def test_a_finished_study_runs_nothing(packed: Path) -> None:
    study = harness.load_study(ROOT / "studies" / f"{packed.name}.yaml")
    done = harness.run(study, results=packed.parent)
    assert done.made == 0
    assert done.complete


@pytest.mark.validation
def test_three_deleted_runs_are_made_again_with_the_same_bytes(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernels of matrix products that they were made with: others round differently.
    monkeypatch.setenv("OPENBLAS_CORETYPE", "SkylakeX")
    before = recorded(unpack(packed, packed.parent))
    for other in set(packed.parent.iterdir()) - {packed}:
        shutil.rmtree(other)  # Runs would be taken over from it.
    for run_id in list(before)[:: len(before) // 3][:3]:
        shutil.rmtree(packed / "runs" / run_id)
    study = harness.load_study(ROOT / "studies" / f"{packed.name}.yaml")
    assert harness.run(study, results=packed.parent).made == 3
    assert recorded(packed) == before
