"""Runs of small plans by workers that can import the substitutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pacebench.harness.runner import local
from pacebench.harness.runner.launch import RunSummary
from pacebench.harness.runner.local import kept_workers
from pacebench.harness.store.store import RunStore
from tests.harness.runner.plans import REPOSITORY, Heard, launch_at

Launch = Callable[..., tuple[RunSummary, RunStore, Heard]]


@pytest.fixture(autouse=True, scope="module")
def _substitutes() -> Iterator[None]:
    """Lets workers import the substitutes, and one launch after another use the same workers."""
    with pytest.MonkeyPatch.context() as patch, kept_workers():
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield


@pytest.fixture
def no_worker_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the next launch start its workers, and keep none."""
    monkeypatch.setattr(local, "_kept", None)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Runs cells with the substitutes; returns the summary, the store and what was said."""

    def call(*cells, root=None, **options):
        return launch_at(root or tmp_path / "results" / "walks", *cells, **options)

    return call
