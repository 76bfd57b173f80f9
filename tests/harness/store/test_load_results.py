from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pacebench.harness.errors import UserError
from pacebench.harness.records import EVALUATION_COLUMNS
from pacebench.harness.store import runs, scan
from pacebench.harness.store.load import RUN_COLUMNS, load_results
from pacebench.harness.store.pack import pack
from pacebench.harness.store.store import RunStore
from pacebench.harness.store.tables import (
    from_parquet,
    read_parquet,
    to_parquet,
    updates_tables,
)
from pacebench.harness.study.specs import PlannedRun
from tests.harness.runner.plans import plan_cell
from tests.harness.store.damages import forge_table
from tests.harness.store.samples import empty_result, sample_result


@pytest.fixture
def store(tmp_path):
    """Three cells: one whole, one with a failure and a missing run, one of another shape."""
    store = RunStore(tmp_path / "walks")
    cells = [plan_cell("a", seeds=2), plan_cell("b", seeds=3, x=1), plan_cell("c", points=1, x=2)]
    store.extend_manifest("walks", {}, [*chain(*cells)])
    for run in (*cells[0], cells[1][0], *cells[2]):
        store.write(run, sample_result(run), {"attempts": 1, "host": "here"})
    failed = cells[1][1]
    store.write(failed, empty_result(failed.seed), {"attempts": 1})
    return store


def test_every_run_of_the_manifest_has_a_row(store):
    runs = load_results(store.root).runs
    assert list(zip(runs["label"], runs["seed"], runs["status"], strict=True)) == [
        ("a", 0, "ok"),
        ("a", 1, "ok"),
        ("b", 0, "ok"),
        ("b", 1, "diverged"),
        ("b", 2, "missing"),
        ("c", 0, "ok"),
        ("c", 1, "ok"),
        ("c", 2, "ok"),
    ]
    for name, kind in RUN_COLUMNS.items():
        assert str(runs[name].dtype) == kind, name


def test_evaluations_are_tidy_and_typed(store):
    results = load_results(store.root)
    rows = results.evaluations
    kinds = {**EVALUATION_COLUMNS, "label": "category", "setup": "category", "seed": "int64"}
    for name, kind in kinds.items():
        assert str(rows[name].dtype) == kind, name
    counts = rows.groupby(["label", "seed"], observed=True).size().to_dict()
    whole, short = 60, 20
    assert counts == {
        ("a", 0): whole,
        ("a", 1): whole,
        ("b", 0): whole,
        **{("c", seed): short for seed in range(3)},
    }
    manifest = store.manifest()
    for entry in manifest.entries:
        mine = rows[rows["run_id"] == entry.run_id]
        if len(mine):
            cell = manifest.cells[entry.cell]
            run = PlannedRun(label=entry.label, cell=cell, seed=entry.seed)
            assert run.run_id == entry.run_id
            expected = sample_result(run).evaluations["return"]
            np.testing.assert_array_equal(mine["return"], np.float32(expected))


def test_updates_have_their_wall_times_back(store):
    updates = load_results(store.root).updates
    assert len(updates) == 3 * 3 + 3
    assert updates["seconds"].dtype == "float64"
    assert (updates["seconds"] >= 0).all()
    assert str(updates["step"].dtype) == str(updates["case"].dtype) == "category"
    assert updates["threshold"].isna().all()
    assert all(len(mean) == 2 for mean in updates["mean"])


def test_a_damaged_run_counts_as_missing_and_is_named(store):
    entry = store.manifest().entries[0]
    path = store.folder(entry.run_id) / "evaluations.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    before = sorted(p for p in store.root.rglob("*"))
    with pytest.warns(UserWarning, match=entry.run_id):
        results = load_results(store.root)
    assert results.runs["status"][0] == "missing"
    assert "evaluations.parquet" in results.runs["reason"][0]
    assert entry.run_id not in set(results.evaluations["run_id"])
    assert list(results.problems) == [entry.run_id]
    assert sorted(p for p in store.root.rglob("*")) == before, "loading changes nothing"


def test_a_study_without_results_yet_has_empty_frames(tmp_path):
    store = RunStore(tmp_path / "walks")
    cell = plan_cell()
    store.extend_manifest("walks", {}, cell)
    results = load_results(store.root)
    assert list(results.runs["status"]) == ["missing"] * 3
    assert len(results.evaluations) == len(results.updates) == 0
    assert isinstance(results.evaluations, pd.DataFrame)


def test_no_results_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="no results here; run the study first"):
        load_results(tmp_path)


@pytest.fixture
def cached(store, tmp_path, monkeypatch):
    """The same results, read once before; returns their frames."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("pacebench.harness.store.cache.SEGMENT", 3)
    return load_results(store.root)


def decoded(monkeypatch):
    """Counts the files that are decoded from now on."""
    found = []

    def count(files):
        contents = list(files)
        found.extend(map(len, contents))
        return read_parquet(contents)

    monkeypatch.setattr(runs, "read_parquet", count)
    return found


def same(one, other):
    for name in ("runs", "evaluations", "updates"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))


def test_runs_read_before_are_not_decoded_again(store, cached, monkeypatch, tmp_path):
    files = decoded(monkeypatch)
    same(load_results(store.root), cached)
    # Seven runs finished: two files of three, and one that is left over.
    assert len(files) <= 3
    segments = [*(tmp_path / "cache").rglob("*.arrow")]
    assert len(segments) == 2
    # One that does not match its own name is not read, and made again by whoever reads next.
    segments[0].write_bytes(segments[0].read_bytes()[:-1])
    same(load_results(store.root), cached)
    assert len(files) > 3


def test_tables_of_a_packed_study_are_kept_by_the_size_of_its_files(store, cached, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(store.root.parent / "packed"))
    archive = pack(store.root)
    # More than three runs have, and the archive is of all of them.
    monkeypatch.setattr("pacebench.harness.store.cache._LARGEST", archive.stat().st_size)
    same(load_results(store.root), cached)
    assert len([*(store.root.parent / "packed").rglob("*.arrow")]) == 2


def test_a_file_that_was_touched_is_verified_again(store, cached):
    entry = store.manifest().entries[0]
    path = store.folder(entry.run_id) / "evaluations.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="does not match its checksum"):
        assert entry.run_id in load_results(store.root).problems
    path.unlink()
    with pytest.warns(UserWarning, match="is missing"):
        assert entry.run_id in load_results(store.root).problems


def test_tables_of_runs_that_are_gone_are_removed(store, cached, tmp_path):
    for run_id in store.files.run_ids():
        (store.folder(run_id) / "run.json").unlink()
    load_results(store.root)
    assert not [*(tmp_path / "cache").rglob("*.arrow")]


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    store, cached, tmp_path, monkeypatch
):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", Path("/proc/none")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        same(load_results(store.root), cached)


def test_many_runs_take_each_step_together_and_a_bad_one_stays_alone(store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr("pacebench.harness.store.scan.SEGMENT", 3)
    steps = []
    for name in ("read_record", "read_files", "decode"):
        step = getattr(scan, name)

        def noted(*args, name=name, step=step):
            steps.append(name)
            return step(*args)

        monkeypatch.setattr(scan, name, noted)
    whole = load_results(store.root)
    # Three records, then their files, then their tables all at once while the next are read.
    assert steps[:6] == ["read_record"] * 3 + ["read_files"] * 3
    assert steps.count("decode") == 3
    entry = store.manifest().entries[1]
    (store.folder(entry.run_id) / "updates.parquet").write_bytes(b"")
    with pytest.warns(UserWarning, match="0 bytes instead of"):
        rest = load_results(store.root)
    assert set(rest.problems) == {entry.run_id}
    left = whole.evaluations[whole.evaluations["run_id"] != entry.run_id]
    assert rest.evaluations["return"].tolist() == left["return"].tolist()


def test_a_column_of_a_kind_that_nobody_writes_is_refused():
    (run,) = plan_cell("a", seeds=1)
    updates, _ = updates_tables(sample_result(run).updates)
    odd = updates.append_column("own", [[{"a": 1}] * updates.num_rows])
    with pytest.raises(ValueError, match="its column 'own' is of type struct"):
        from_parquet(to_parquet(odd), "updates.parquet")


def test_one_bad_table_among_many_is_found_and_the_others_are_read(store, monkeypatch):
    whole = load_results(store.root)
    good, gaps, short = (store.folder(entry.run_id) for entry in store.manifest().entries[:3])
    nothing = pa.nulls(60, pa.int32())
    forge_table(gaps, "evaluations.parquet", lambda t: t.set_column(3, "context", nothing))
    forge_table(short, "timings.parquet", lambda t: t.slice(1))
    with pytest.warns(UserWarning, match="counts as missing"):
        rest = load_results(store.root)
    assert set(rest.problems) == {gaps.name, short.name}
    assert "rows with gaps" in rest.problems[gaps.name]
    assert "different lengths" in rest.problems[short.name]
    left = whole.evaluations[~whole.evaluations["run_id"].isin(rest.problems)]
    assert good.name in set(left["run_id"])
    assert rest.evaluations["return"].tolist() == left["return"].tolist()


def test_runs_of_other_columns_and_dimensions_are_read_together(store):
    first, second = (store.folder(entry.run_id) for entry in store.manifest().entries[:2])
    own = [["x", "y", "z"]]
    forge_table(first, "updates.parquet", lambda t: t.append_column("own", own))
    wider = [[[1.0, 2.0, 3.0]] * 3]

    def widen(table):
        for name in ("mean", "std"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, wider)
        return table

    forge_table(second, "updates.parquet", widen)  # in double precision, as in older runs
    results = load_results(store.root)
    assert not results.problems, "the setup is not installed, and may have any dimension"
    updates = results.updates.set_index("run_id")
    assert updates.loc[first.name, "own"].tolist() == ["x", "y", "z"]
    assert updates["own"].isna().sum() == len(updates) - 3
    assert {len(mean) for mean in updates.loc[second.name, "mean"]} == {3}
    assert {len(mean) for mean in updates.loc[first.name, "mean"]} == {2}
    assert {mean.dtype for mean in updates["mean"]} == {np.dtype("float64")}
