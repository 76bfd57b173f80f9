from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from itertools import chain

import pytest

from pacebench.harness.analysis.history import history_of
from pacebench.harness.errors import UserError
from pacebench.harness.store.ledger import Ledger
from pacebench.harness.store.reading import BadFileError
from pacebench.harness.store.store import RunStore
from pacebench.harness.store.study_files import MANIFEST as NAME
from tests.harness.runner.plans import plan_cell


def asked(*cells):
    return [*chain(*cells)]


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "walks")


def test_a_new_label_or_report_setting_changes_no_run_id(store):
    first = store.extend_manifest("walks", {"report": 1}, asked(plan_cell("a")))
    second = store.extend_manifest("walks", {"report": 2}, asked(plan_cell("b")))
    ids = {entry.run_id for entry in first.current()}
    assert {entry.run_id for entry in second.current()} == ids
    assert len(second.history) == 2


def test_more_seeds_and_cells_extend_the_manifest(store):
    one, more = plan_cell("a", seeds=2), plan_cell("a", seeds=5)
    first = store.extend_manifest("walks", {}, asked(one))
    second = store.extend_manifest("walks", {}, asked(more, plan_cell("b", seconds=0.5)))
    assert {e.run_id for e in first.entries} < {e.run_id for e in second.entries}
    assert second.history[-1].added == 6
    assert store.manifest() == second


def test_runs_that_are_no_longer_asked_for_stay_listed(store):
    a, b = plan_cell("a"), plan_cell("b", seconds=0.5)
    store.extend_manifest("walks", {}, asked(a, b))
    after = store.extend_manifest("walks", {}, asked(a))
    assert len(after.entries) == 6
    assert [entry.label for entry in after.entries if not entry.current] == ["b"] * 3
    assert after.history[-1].retired == 3
    back = store.extend_manifest("walks", {}, asked(a, b))
    assert all(entry.current for entry in back.entries)


def test_the_same_plan_twice_leaves_the_file_alone(store):
    store.extend_manifest("walks", {"x": 1}, asked(plan_cell()))
    before = (store.root / NAME).stat().st_mtime_ns
    store.extend_manifest("walks", {"x": 1}, asked(plan_cell()))
    assert (store.root / NAME).stat().st_mtime_ns == before


def test_a_folder_of_another_study_is_refused(store):
    store.extend_manifest("walks", {}, asked(plan_cell()))
    with pytest.raises(UserError, match="belongs to the study 'walks'"):
        store.extend_manifest("talks", {}, asked(plan_cell()))


@pytest.mark.parametrize("damage", ["cut", "edit"])
def test_a_manifest_that_is_not_ours_is_refused(store, damage):
    store.extend_manifest("walks", {"x": 1}, asked(plan_cell()))
    path = store.root / NAME
    text = path.read_text()
    path.write_text(text[:-30] if damage == "cut" else text.replace('"budget": 300', '"budget": 9'))
    with pytest.raises(UserError, match="manifest"):
        store.manifest()


_WRITER = """
import sys
from pacebench.harness.store.ledger import Ledger
for index in range(40):
    Ledger(sys.argv[1]).append("test", index=index)
"""


def test_the_ledger_keeps_every_line_of_every_process(tmp_path):
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    entries = Ledger(tmp_path).read()
    assert len(entries) == 120
    assert sorted(entry["index"] for entry in entries) == sorted([*range(40)] * 3)
    assert {"time", "host", "versions", "revision", "dirty", "pid"} <= entries[0].keys()


def test_a_line_cut_short_costs_itself_only(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append("one")
    with open(ledger.path, "a") as file:
        file.write('{"event": "cut sh')
    ledger.append("two")
    assert [entry["event"] for entry in ledger.read()] == ["one", "two"]
    assert json.loads(ledger.path.read_text().splitlines()[-1])["event"] == "two"


def test_runs_examined_on_other_contexts_are_not_mixed(store):
    cells = asked(plan_cell("a"))
    name = cells[0].cell.digest
    first = store.extend_manifest("walks", {}, cells, {name: "one"})
    assert first.evaluation_hashes == {name: "one"}
    assert store.extend_manifest("walks", {}, cells, {name: "one"}) == first
    with pytest.raises(UserError, match="evaluated on other held-out contexts"):
        store.extend_manifest("walks", {}, cells, {name: "another"})
    assert store.manifest() == first


def test_a_long_ledger_is_read_line_by_line(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append("retry", runs=["abc"])
    line = ledger.path.read_bytes()
    ledger.path.write_bytes(line * 20_000)
    size = ledger.path.stat().st_size
    tracemalloc.start()
    assert history_of(ledger).retries == 20_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 10


def test_lines_that_are_no_json_are_left_out_and_counted(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append("one")
    with open(ledger.path, "ab") as file:
        file.write(b'{"event": "cut sh\n' + b"[" * 100_000 + b"\n\xff\xfe\n")
    ledger.append("two")
    assert [entry["event"] for entry in ledger.read()] == ["one", "two"]
    assert ledger.unreadable == 3


def test_a_line_of_json_that_is_no_entry_is_refused_with_its_number(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append("one")
    with open(ledger.path, "ab") as file:
        file.write(b'{"event": "finish", "time": "2026-01-01T00:00:00+00:00"}\n')
    with pytest.raises(BadFileError, match=r"a line 2 that is no entry .*'finish' without 'run'"):
        ledger.read()
