"""Workers that misbehave: the right status and message, and the rest of the study finishes."""

from __future__ import annotations

import contextlib
import json
import os
import time

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.runner import process
from pacebench.harness.store import provenance
from tests.harness.runner.drive import start
from tests.harness.runner.plans import (
    digests,
    launch_at,
    plan_cell,
    run_id_of,
    starts,
    statuses,
)

pytestmark = pytest.mark.slow


# Fault, how its run ends, what is said about it, and how often the run is begun.
FAULTS = [
    # Once in its batch and once alone.
    ("raise", "crashed-method", "ZeroDivisionError: a method's own mistake", 2),
    ("sys-exit", "crashed-method", "SystemExit: 3", 2),
    ("mute", "crashed-method", "MuteError: it cannot say what is wrong", 2),
    ("babble", "crashed-method", "ValueError: ?[2J?xxx", 2),
    ("print", "crashed-method", "ArithmeticError: said enough", 2),
    # Once, and twice more.
    # Which of the two it is with many threads depends on how much memory each of them takes.
    ("threads", "crashed-infrastructure", "start new thread|exited with code 1", 3),
    ("lost-thread", "crashed-infrastructure", "exited with code 1", 3),
    ("exit", "crashed-infrastructure", "exited with code 1", 3),
    ("segfault", "crashed-infrastructure", "killed by SIGSEGV", 3),
    ("allocate", "crashed-infrastructure", "memory", 3),
    ("allocate-at-once", "crashed-infrastructure", "memory", 3),
]


@pytest.fixture(scope="module")
def faulty_study(tmp_path_factory):
    """One study in which everything goes wrong that can."""
    bad = [plan_cell(fault, seeds=2, fault=fault, indices=[1], at=1) for fault, *_ in FAULTS]
    limits = {"memory": 700 * 2**20}
    root = tmp_path_factory.mktemp("results") / "walks"
    return launch_at(root, *bad, plan_cell("good", seeds=2), workers=2, limits=limits)


@pytest.mark.parametrize(("fault", "status", "message", "attempts"), FAULTS)
def test_each_fault_gives_its_status_and_message(faulty_study, fault, status, message, attempts):
    _, store, heard = faulty_study
    found = statuses(store)
    assert found[fault, 1][0] == status
    assert any(one in found[fault, 1][1] for one in message.split("|"))
    guilty = run_id_of(store, fault, 1)
    assert len(starts(store, guilty)) == attempts
    # The failure is told, with the last lines of the run's log.
    log = store.log_path(guilty).read_text()
    told = "\n".join(heard.texts)
    assert f"about to have the fault: {fault}" in log or fault in ("print", "babble")
    assert len(log) < 500_000
    assert f"run {guilty}: {status}" in told
    assert log.splitlines()[-1] in told


def test_the_rest_of_the_study_finishes(faulty_study):
    summary, store, _ = faulty_study
    faults = {(fault, 1) for fault, *_ in FAULTS}
    others = [value for key, value in statuses(store).items() if key not in faults]
    assert others == [("ok", "")] * (len(FAULTS) + 2)
    assert summary.complete
    assert summary.unresolved == 6
    assert not list((store.root / "leases").iterdir())
    assert not list((store.root / "attempts").iterdir())


def test_a_worker_that_hangs_is_a_timeout_of_its_own_run(launch):
    hung = plan_cell("hung", seeds=2, fault="sleep", indices=[1], at=1)
    summary, store, heard = launch(hung, plan_cell("good", seeds=1), limits={"seconds": 2.0})
    found = statuses(store)
    assert found.pop(("hung", 1)) == ("timeout", "still running after its time limit of 2 s")
    assert set(found.values()) == {("ok", "")}
    assert summary.unresolved == 0
    # In the batch it could have been either of the two; alone it was this one.
    assert len(starts(store, run_id_of(store, "hung", 1))) == 2
    assert "each alone" in "\n".join(heard.texts)


def test_a_worker_that_dies_once_is_retried_from_its_checkpoint(launch, tmp_path):
    fault = {"fault": "once", "indices": [1], "at": 2, "flag": str(tmp_path / "flag")}
    _, store, _ = launch(plan_cell(seeds=3, **fault))
    assert (tmp_path / "flag").exists()
    events = [entry["event"] for entry in store.ledger.read()]
    assert events.count("retry") == 1
    assert {status for status, _ in statuses(store).values()} == {"ok"}
    # The same cell without interruption: the fault is off because the flag is there.
    _, again, _ = launch(plan_cell(seeds=3, **fault), root=tmp_path / "other" / "walks")
    assert digests(store.root) == digests(again.root)


def test_failures_of_infrastructure_are_final_until_a_fresh_start_is_asked_for(launch, tmp_path):
    bad = plan_cell("bad", seeds=1, fault="exit", indices=[0])
    _, store, _ = launch(bad)
    run_id = run_id_of(store, "bad", 0)
    assert len(starts(store, run_id)) == 3
    summary, _, _ = launch(bad)
    assert summary.unresolved == 1
    assert len(starts(store, run_id)) == 3, "a resumed study must not retry for ever"
    launch(bad, retry_failed=True)
    assert len(starts(store, run_id)) == 6
    assert [e["event"] for e in store.ledger.read()].count("fresh-start") == 1


def test_a_cell_that_always_crashes_is_broken_and_tried_again_when_its_code_changes(
    launch, monkeypatch
):
    bad = plan_cell("bad", seeds=2, fault="raise", indices=[0, 1])
    mixed = plan_cell("mixed", seeds=2, fault="raise", indices=[1])
    summary, store, heard = launch(bad, mixed)
    said = "bad on line is broken: all 2 runs crashed with ZeroDivisionError: a method's own mis"
    assert [sentence[: len(said)] for sentence in summary.broken] == [said]
    log = store.log_path(run_id_of(store, "bad", 0)).read_text()
    assert "Traceback" in log
    assert 'raise ZeroDivisionError("a method\'s own mistake")' in log
    assert "ZeroDivisionError" in "\n".join(heard.texts)
    assert launch(bad, mixed)[0].made == 0, "the same code would crash again"
    assert launch(bad, mixed, retry_crashed=True)[0].made == 3
    monkeypatch.setattr(provenance, "sources", lambda: "other code")
    assert launch(bad, mixed)[0].made == 3
    freed = [len(e["runs"]) for e in store.ledger.read() if e["event"] == "fresh-start"]
    assert freed == [3, 3]


def test_retries_are_counted_across_runners(launch):
    """Two failures before the runner died leave one attempt to its successor."""
    bad = plan_cell("bad", seeds=1, fault="exit", indices=[0])
    _, store, _ = launch(bad)
    run_id = run_id_of(store, "bad", 0)
    # As if the runner had been killed before the third attempt.
    (store.folder(run_id) / "run.json").unlink()
    lines = store.ledger.path.read_text().splitlines(keepends=True)
    failures = [i for i, line in enumerate(lines) if json.loads(line)["event"] == "failure"]
    store.ledger.path.write_text("".join(lines[: failures[1] + 1]))
    before = len(starts(store, run_id))
    launch(bad)
    assert len(starts(store, run_id)) == before + 1


def test_a_training_function_that_cannot_be_imported_is_no_method_failure(launch):
    _, store, heard = launch(plan_cell(seeds=1), train="tests.harness.runner.substitutes:absent")
    assert statuses(store)["walk", 0][0] == "crashed-infrastructure"
    assert "cannot be imported" in "\n".join(heard.texts)


def test_a_worker_that_prints_without_end_does_not_fill_the_disk(launch, tmp_path):
    """Looked at from outside while it prints."""
    root = tmp_path / "walks"
    cell = {"label": "loud", "seeds": 1, "fault": "print", "indices": [0]}
    runner = start(root, {"cells": [cell], "workers": 1})
    largest = 0
    while runner.poll() is None:
        for path in root.glob("attempts/*.log"):
            with contextlib.suppress(OSError):
                largest = max(largest, path.stat().st_size)
        time.sleep(0.01)
    assert json.loads(runner.communicate()[0])["statuses"] == {"crashed-method": 1}
    assert 0 < largest <= 2**20


@pytest.mark.usefixtures("no_worker_yet")
def test_what_a_worker_says_before_its_first_task_is_shown(launch, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'pacebench.harness.runner.child' in ' '.join(sys.orig_argv):\n"
        "    sys.stderr.write('the library is broken\\n')\n    import os; os._exit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    _, store, heard = launch(plan_cell(seeds=1))
    told = "\n".join(heard.texts)
    said = "the worker exited with code 7 without a result: the library is broken"
    assert said in told
    assert "the library is broken" in store.log_path(run_id_of(store, "walk", 0)).read_text()
    assert statuses(store)["walk", 0] == ("crashed-infrastructure", said)


@pytest.mark.usefixtures("no_worker_yet")
def test_a_machine_that_starts_no_process_is_a_sentence(launch, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    with pytest.raises(UserError, match=r"no worker process can be started .*unavailable"):
        launch(plan_cell(seeds=1))
