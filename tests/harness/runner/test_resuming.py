"""Nothing lost, nothing run twice: resuming, growing, sharing, dividing the work, stopping."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections import Counter

import psutil
import pytest

from pacebench.harness.store.load import load_results
from pacebench.harness.store.store import RunStore
from tests.harness.runner.drive import start
from tests.harness.runner.plans import digests, of_kinds, plan_cell, run_id_of, starts, statuses

pytestmark = pytest.mark.slow


def begun(store: RunStore) -> Counter[str]:
    return Counter(e["run"] for e in store.ledger.read() if e["event"] == "start")


def children(pid: int) -> list[list[str]]:
    """Returns the command lines of a process's children."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):
            found.append(child.cmdline())
    return found


def wait_for(condition, process, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_finished_study_is_left_alone_and_a_grown_one_runs_what_is_new(launch):
    launch(plan_cell("a", seeds=2))
    summary, store, _ = launch(plan_cell("renamed", seeds=2))
    assert summary.made == 0, "a label is not part of what determines a result"
    summary, store, _ = launch(plan_cell("a", seeds=3), plan_cell("b", seeds=1, x=1))
    assert summary.made == 2
    assert set(begun(store).values()) == {1}
    runs = load_results(store.root).runs
    assert Counter(runs["current"]) == {True: 4, False: 2}, "the old label stays listed"


def test_a_grown_study_begins_with_what_took_long_before(launch):
    _, store, _ = launch(*of_kinds(1, 1, 1))
    records = [store.read(run_id).record for run_id in store.files.run_ids()]
    took = {r["run"]["cell"]["curriculum"]["name"]: sum(r["timings"].values()) for r in records}
    _, store, _ = launch(*of_kinds(2, 2, 2))
    begun = [f"walk-{e['label'][1:]}" for e in store.ledger.read() if e["event"] == "start"]
    assert begun[3] == max(took, key=took.__getitem__)


def test_two_labels_of_one_cell_share_their_runs(launch):
    summary, store, _ = launch(plan_cell("a", seeds=2), plan_cell("b", seeds=2))
    assert summary.total == summary.made == 2
    assert set(statuses(store)) == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}
    assert len(load_results(store.root).evaluations) == 4 * 60


def test_a_run_of_a_sister_study_is_taken_over(launch, tmp_path):
    sister = tmp_path / "results" / "sister"
    _, first, _ = launch(plan_cell("a", seeds=2), root=sister)
    damaged = run_id_of(first, "a", 1)
    path = first.folder(damaged) / "updates.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    summary, store, _ = launch(plan_cell("b", seeds=2))
    good = run_id_of(store, "b", 0)
    assert set(begun(store)) == {damaged}, "only what the sister does not have in good order is run"
    assert [e["run"] for e in store.ledger.read() if e["event"] == "share"] == [good]
    assert digests(store.root)[good] == digests(first.root)[good]
    assert summary.complete
    again = tmp_path / "results" / "apart"
    summary, _, _ = launch(plan_cell("b", seeds=2), root=again, share=False)
    assert summary.made == 2


def test_damage_is_named_set_aside_and_run_again(launch):
    _, store, _ = launch(plan_cell(seeds=4))
    before = digests(store.root)
    truncated, foreign, torn, whole = (run_id_of(store, "walk", seed) for seed in range(4))
    table = store.folder(truncated) / "evaluations.parquet"
    table.write_bytes(table.read_bytes()[:100])
    record = store.folder(foreign) / "run.json"
    record.write_bytes((store.folder(whole) / "run.json").read_bytes())
    record = store.folder(torn) / "run.json"
    record.write_bytes(record.read_bytes()[:100])
    named = {truncated: "evaluations.parquet", foreign: "another run", torn: "run.json is torn"}
    _, _, heard = launch(plan_cell(seeds=4))
    told = "\n".join(heard.texts)
    for run_id, name in named.items():
        assert f"run {run_id} was set aside" in told
        (aside,) = (store.root / "quarantine").glob(f"{run_id}-*")
        assert name in (aside / "reason.txt").read_text()
        assert name in told
    assert digests(store.root) == before
    assert begun(store) == {**dict.fromkeys(named, 2), whole: 1}


def test_a_bad_checkpoint_is_set_aside_and_the_run_starts_afresh(launch):
    _, store, _ = launch(plan_cell(seeds=1))
    before = digests(store.root)
    run_id = run_id_of(store, "walk", 0)
    (store.folder(run_id) / "run.json").unlink()
    store.checkpoint_path(run_id).write_bytes(b"torn")
    launch(plan_cell(seeds=1))
    assert digests(store.root) == before
    assert any(name.name.startswith(run_id) for name in (store.root / "quarantine").iterdir())
    assert [e["event"] for e in store.ledger.read()].count("quarantine") == 1


def test_two_runners_divide_the_work(tmp_path):
    cells = [{"label": f"c{i}", "seeds": 3, "seconds": 0.3, "x": i} for i in range(6)]
    root = tmp_path / "walks"
    plan = {"cells": cells, "workers": 1}
    runners = [start(root, plan), start(root, plan)]
    said = [json.loads(runner.communicate(timeout=300)[0]) for runner in runners]
    assert [s["statuses"] for s in said] == [{"ok": 18}, {"ok": 18}], "both saw it to the end"
    assert sum(s["made"] for s in said) == 18, "nobody counts what the other made"
    entries = [e for e in RunStore(root).ledger.read() if e["event"] == "start"]
    assert Counter(e["run"] for e in entries) == dict.fromkeys(digests(root), 1)
    assert len({e["pid"] for e in entries}) == 2, "both did some of it"


def test_ctrl_c_stops_at_a_checkpoint_and_loses_nothing(tmp_path, launch, hurry):
    root = tmp_path / "walks"
    plan = {"cells": [{"label": "a", "seeds": 2, "points": 12, "seconds": 0.25}], "workers": 1}
    runner = start(root, plan)
    store = RunStore(root)
    wait_for(lambda: list(root.glob("runs/*/checkpoint.bin")), runner)
    runner.send_signal(signal.SIGINT)
    out, err = runner.communicate(timeout=60)
    assert json.loads(out)["interrupted"]
    assert "Stopping at the next checkpoint" in err
    assert "Traceback" not in err
    assert len(list(root.glob("runs/*/checkpoint.bin"))) == 2
    assert not list(root.glob("leases/*")), "what is not worked on is free"
    assert [e["event"] for e in store.ledger.read()][-1] == "interrupt"
    hurry()
    runner = start(root, plan)
    assert json.loads(runner.communicate(timeout=120)[0])["statuses"] == {"ok": 2}
    _, whole, _ = launch(plan_cell("a", seeds=2, points=12, seconds=0.25))
    assert digests(root) == digests(whole.root)
    for run_id in digests(root):
        assert len(starts(store, run_id)) == 2


def test_ctrl_c_while_a_worker_starts_is_no_failure_of_its_runs(tmp_path):
    root = tmp_path / "walks"
    runner = start(root, {"cells": [{"label": "a", "seeds": 2}], "workers": 1})
    # The stop comes before the worker can hear signals: its interpreter has only just begun.
    wait_for(lambda: "runner.child" in str(children(runner.pid)), runner)
    runner.send_signal(signal.SIGINT)
    out, err = runner.communicate(timeout=60)
    assert json.loads(out)["interrupted"], err
    events = [e["event"] for e in RunStore(root).ledger.read()]
    assert "failure" not in events
    assert events[-1] == "interrupt"


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    root = tmp_path / "walks"
    # The next checkpoint is half a minute away.
    cells = [
        {"label": "quick", "seeds": 1, "points": 1},
        {"label": "slow", "seeds": 1, "points": 2, "seconds": 30},
    ]
    runner = start(root, {"cells": cells, "workers": 2})
    wait_for(lambda: digests(root) if (root / "runs").exists() else {}, runner)
    wait_for(lambda: list(root.glob("runs/*/checkpoint.bin")), runner)
    runner.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert runner.poll() is None, "it waits for the checkpoint"
    runner.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = runner.communicate(timeout=60)
    assert time.monotonic() - began < 15
    assert json.loads(out) == {"statuses": {"ok": 1}, "interrupted": True, "made": 1}
    assert "Traceback" not in err
    assert len(digests(root)) == 1
