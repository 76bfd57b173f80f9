"""A packed study: one file that is read as it is, run on, and unpacked to the same bytes."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.records import DIAGNOSTIC_COLUMNS
from pacebench.harness.runner.snapshot import look
from pacebench.harness.store.elsewhere import ELSEWHERE
from pacebench.harness.store.load import load_results
from pacebench.harness.store.pack import pack, unpack
from pacebench.harness.store.runs import DIAGNOSED, BadRunError
from pacebench.harness.store.store import RunStore
from pacebench.harness.store.study_files import ARCHIVE, StudyFiles, write_archive
from pacebench.harness.store.tables import TIMING_COLUMNS
from tests.harness.runner.plans import launch_at, plan_cell
from tests.harness.store.samples import sample_result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A study with six runs and a ledger."""
    cells = [plan_cell("a"), plan_cell("b", x=1)]
    store = RunStore(tmp_path / "walks")
    store.extend_manifest("walks", {"name": "walks"}, [*chain(*cells)])
    for run in chain(*cells):
        store.write(run, sample_result(run), {"attempts": 1})
        store.log_path(run.run_id).write_text("a line\n")
        store.ledger.append("finish", run=run.run_id)
    return store.root


def _bytes(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_packing_leaves_one_file_and_unpacking_gives_the_same_bytes(root: Path) -> None:
    before, frames = _bytes(root), load_results(root)
    pack(root)
    assert set(_bytes(root)) == {ARCHIVE}
    packed = load_results(root)
    for name in ("runs", "evaluations", "updates"):
        assert getattr(packed, name).equals(getattr(frames, name))
    store = RunStore(root)
    assert len(store.ledger.read()) == 6
    assert look(store, packed.manifest)[0].whole.done == 6
    unpack(root, root.parent)
    assert _bytes(root) == before


def test_equal_studies_give_equal_archives(root: Path) -> None:
    first = pack(root, root.parent / "one.zip").read_bytes()
    pack(root)
    assert pack(root, root.parent / "two.zip").read_bytes() == first
    assert (root / ARCHIVE).read_bytes() == first


def test_packed_lightly_a_study_has_what_statistics_need(tmp_path: Path) -> None:
    store, runs = RunStore(tmp_path / "walks"), plan_cell("a", seeds=DIAGNOSED + 2)
    told = {name: [1] for name in DIAGNOSTIC_COLUMNS}
    store.extend_manifest("walks", {"name": "walks"}, runs)
    for run in runs:
        store.write(run, replace(sample_result(run), diagnostics=told), {"attempts": 1})
    frames = load_results(store.root)
    sent = pack(store.root, tmp_path / "light.zip", light=True)
    light, found = RunStore(sent), load_results(sent)
    assert not found.problems
    clocks = [name for name in TIMING_COLUMNS if name in frames.updates]
    assert found.updates.drop(columns=clocks).equals(frames.updates.drop(columns=clocks))
    timed = found.updates.groupby("seed")["seconds"].apply(lambda column: column.notna().all())
    assert timed.tolist() == [True] * DIAGNOSED + [False] * 2
    told = [light.diagnostics(run.run_id) is not None for run in runs]
    assert told == [True] * DIAGNOSED + [False] * 2
    assert [light.policy(run.run_id) for run in runs] == [{}] * len(runs)


@pytest.fixture
def lent(root: Path) -> Path:
    """A study of two runs more than `root`, packed beside it."""
    cells = [plan_cell("a"), plan_cell("b", x=1), plan_cell("c", seeds=2, x=2)]
    store = RunStore(root.parent / "longer")
    store.extend_manifest("longer", {"name": "longer"}, [*chain(*cells)])
    for run in chain(*cells):
        store.write(run, sample_result(run), {"attempts": 1})
    pack(store.root, beside=["walks"])
    return store.root


def test_runs_are_left_to_the_study_that_has_them_too(lent: Path, root: Path) -> None:
    assert set(_bytes(lent)) == {ARCHIVE}
    own = {name.split("/")[1] for name in StudyFiles(lent).packed if name.startswith("runs/")}
    assert len(own) == 2
    for form in (lambda: None, lambda: pack(root)):  # the other study loose, then packed
        form()
        found = load_results(lent)
        assert len(found.runs) == 8
        assert (found.runs["status"] == "ok").all()
        assert found.evaluations["run_id"].nunique() == 8
    whole = unpack(pack(lent, root.parent / "mail.zip"), root.parent / "there")
    assert len(RunStore(whole).files.run_ids()) == 8
    unpack(lent, root.parent)
    assert {k: v for k, v in _bytes(lent).items() if "runs" in k} == {
        k: v for k, v in _bytes(whole).items() if "runs" in k
    }


def test_two_studies_do_not_leave_the_same_runs_to_each_other(lent: Path, root: Path) -> None:
    with pytest.raises(UserError, match="has no run of this study"):
        pack(root, beside=["longer"])
    assert len(load_results(root).runs) == 6


def test_without_the_other_study_one_is_told_to_restore_it(lent: Path, root: Path) -> None:
    root.rename(root.parent / "gone")
    with pytest.raises(UserError, match=r"6 of its runs are left to the study 'walks'.*restore"):
        RunStore(lent)


def test_runs_that_differ_are_not_left_to_another_study(lent: Path, root: Path) -> None:
    store = RunStore(lent)
    run_id = next(iter(RunStore(root).files.run_ids()))
    unpack(lent, root.parent)
    (run,) = (run for run in plan_cell("a") + plan_cell("b", x=1) if run.run_id == run_id)
    store.write(run, replace(sample_result(run), env_steps=1), {"attempts": 1})
    pack(lent, beside=["walks"])
    assert f"runs/{run_id}/run.json" in StudyFiles(lent).packed
    with pytest.raises(UserError, match="has no run of this study"):
        pack(lent, beside=["nothing"])
    with pytest.raises(UserError, match="not the name of another study"):
        pack(lent, beside=["longer"])
    with pytest.raises(UserError, match="--beside walks"):
        pack(lent, root.parent / "copy.zip", beside=["walks"])


def test_a_run_left_elsewhere_is_set_aside_here_alone(lent: Path, root: Path) -> None:
    run_id = next(iter(RunStore(root).files.run_ids()))
    good = (root / "runs" / run_id / "updates.parquet").read_bytes()
    (root / "runs" / run_id / "updates.parquet").write_bytes(b"torn")
    store = RunStore(lent)
    assert store.set_aside(run_id, "torn") is not None
    assert run_id not in store.files.run_ids()
    assert len(store.files.run_ids()) == 7
    (root / "runs" / run_id / "updates.parquet").write_bytes(good)
    assert RunStore(lent).share(run_id) is not None  # as `run` does


@pytest.mark.parametrize("text", ["", "[]", '{"../x": []}', '{"walks": ["../x"]}'])
def test_a_list_of_runs_elsewhere_that_is_none_is_refused(lent: Path, text: str) -> None:
    files = StudyFiles(lent)
    contents = {name: files.read_packed(name) for name in files.packed}
    write_archive(lent / ARCHIVE, {**contents, ELSEWHERE: text.encode()})
    with pytest.raises(UserError, match="is damaged"):
        StudyFiles(lent)


def test_an_archive_from_elsewhere_is_read_and_unpacked(root: Path, tmp_path: Path) -> None:
    sent = pack(root, tmp_path / "mail.zip")
    assert len(load_results(sent).runs) == 6
    there = unpack(sent, tmp_path / "elsewhere")
    assert _bytes(there) == _bytes(root)
    with pytest.raises(UserError, match="exists already"):
        unpack(sent, tmp_path / "elsewhere")


def test_a_packed_study_is_run_on_and_packed_again(tmp_path: Path) -> None:
    root = tmp_path / "walks"
    launch_at(root, plan_cell("a", seeds=2))
    pack(root)
    summary, store, _ = launch_at(root, plan_cell("a", seeds=4))
    assert (summary.made, summary.total) == (2, 4)
    assert len(list((root / "runs").iterdir())) == 2
    notes = len(store.ledger.read())
    pack(root)
    again = RunStore(root)
    assert len(again.ledger.read()) == notes
    assert len(again.files.run_ids()) == 4
    assert launch_at(root, plan_cell("a", seeds=4))[0].made == 0


def test_a_damaged_packed_run_is_set_aside_and_made_again(tmp_path: Path) -> None:
    root = tmp_path / "walks"
    launch_at(root, plan_cell("a", seeds=3))
    good = {run.run_id: run.record["files"] for run in _runs(root)}
    pack(root)
    files = StudyFiles(root)
    contents = {name: files.read_packed(name) for name in files.packed}
    hurt = next(name for name in sorted(contents) if name.endswith("evaluations.parquet"))
    write_archive(root / ARCHIVE, {**contents, hurt: contents[hurt][:-1] + b"?"})
    run_id = hurt.split("/")[1]
    with pytest.raises(BadRunError):
        RunStore(root).read(run_id)
    with pytest.raises(UserError, match="damaged"):
        unpack(root, tmp_path)
    summary, store, heard = launch_at(root, plan_cell("a", seeds=3))
    assert summary.made == 1
    assert any("set aside" in text for text in heard.texts)
    kept = {k: v for k, v in good[run_id].items() if k != "timings.parquet"}
    assert kept.items() <= store.read(run_id).record["files"].items()  # type: ignore[union-attr]
    pack(root)
    assert {run.run_id for run in _runs(root)} == set(good)


def _runs(root: Path) -> list:
    store = RunStore(root)
    return list(store.scan(store.files.run_ids())[0].values())


@pytest.mark.parametrize("half", ["pack", "unpack"])
def test_what_was_killed_half_way_counts_no_line_twice(root: Path, half: str) -> None:
    before = (root / "ledger.jsonl").read_bytes()
    pack(root)
    if half == "unpack":
        RunStore(root).ledger.append("report")
        before = RunStore(root).ledger.text()
    # Both forms are there: the archive was written and the loose file not yet removed.
    (root / "ledger.jsonl").write_bytes(before)
    assert RunStore(root).ledger.text() == before


@pytest.mark.parametrize(
    "name", ["../escape", "/etc/passwd", "runs/../../x", "a\\..\\b", "C:/x", "runs//x"]
)
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "x")
    for use in (load_results, lambda p: unpack(p, tmp_path / "out")):
        with pytest.raises(UserError, match="no packed study of ours"):
            use(path)
    assert not (tmp_path / "out").exists()


def test_a_study_whose_name_leads_elsewhere_is_not_unpacked(root: Path, tmp_path: Path) -> None:
    files = StudyFiles(pack(root, tmp_path / "mail.zip"))
    contents = {name: files.read_packed(name) for name in files.packed}
    manifest = contents["manifest.json"].replace(b'"study": "walks"', b'"study": "../../walks"')
    assert manifest != contents["manifest.json"]
    write_archive(tmp_path / "evil.zip", {**contents, "manifest.json": manifest})
    with pytest.raises(UserError, match="names no folder"):
        unpack(tmp_path / "evil.zip", tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_other_files_are_no_packed_studies(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.zip"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is no packed study|no results here"):
        load_results(path)


def test_there_must_be_something_to_pack(tmp_path: Path, root: Path) -> None:
    with pytest.raises(UserError, match="no results here to pack"):
        pack(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"end in \.zip"):
        pack(root, tmp_path / "archive")
    with pytest.raises(UserError, match="no packed study"):
        unpack(root, tmp_path)
