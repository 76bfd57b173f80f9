"""What must not be done once per run, or once per worker, of a large study."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pacebench.harness.runner import snapshot
from pacebench.harness.runner.coordinator import Coordinator
from pacebench.harness.runner.leases import Leases
from pacebench.harness.store import cache, runs
from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from tests.harness.runner.plans import plan_cell
from tests.harness.store.samples import empty_result, sample_result


class Watched(dict[str, str]):
    """Counts how often all keys are asked for."""

    asked = 0

    def keys(self) -> Any:
        self.asked += 1
        return super().keys()


@pytest.fixture
def store(tmp_path):
    made = RunStore(tmp_path / "walks")
    made.extend_manifest("walks", {}, plan_cell("a", seeds=6))
    return made


def test_a_look_gathers_the_known_runs_once(store, monkeypatch):
    manifest = store.manifest()
    statuses = Watched({manifest.entries[0].run_id: "ok"})
    monkeypatch.setattr(snapshot, "read_statuses", lambda *_: (statuses, {}))
    found, _ = snapshot.look(store, manifest)
    assert (found.whole.done, found.whole.waiting) == (1, 5)
    assert statuses.asked == 1


def test_batches_are_handed_out_from_one_listing_of_the_leases(store, monkeypatch):
    listings, handed = [], []
    executor = SimpleNamespace(slots=4, submit=handed.append)
    nobody = cast(Any, None)
    coordinator = Coordinator(store, store.manifest(), cast(Any, executor), nobody, nobody)
    planned = plan_cell("a", seeds=6)
    lease = Leases(store.root).acquire(planned[5].run_id)
    split = Leases.split
    monkeypatch.setattr(Leases, "split", lambda self: listings.append(self) or split(self))
    coordinator._queue = [[run] for run in planned]
    coordinator._hand_out()
    coordinator._hand_out()  # all slots are taken
    assert [attempt.runs for attempt in handed] == [(run,) for run in planned[4:0:-1]]
    assert [*coordinator._elsewhere] == [planned[5].run_id]
    assert len(listings) == 1
    lease.release()


def test_what_the_runner_verified_is_not_decoded_again(store, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SEGMENT", 6)
    nobody = cast(Any, None)
    coordinator = Coordinator(store, store.manifest(), nobody, nobody, nobody)
    for run in plan_cell("a", seeds=6):
        store.write(run, sample_result(run), {"attempts": 1})
        assert coordinator._take_note(run)
    monkeypatch.setattr(runs, "read_parquet", None)
    found = load_results(store.root)
    assert not found.problems
    assert len(found.evaluations) == 6 * 60
    # A run that is made again is another, and its tables are not taken for the old ones.
    again = plan_cell("a", seeds=1)[0]
    store.write(again, empty_result(again.seed), {"attempts": 2})
    assert len(load_results(store.root).evaluations) == 5 * 60
