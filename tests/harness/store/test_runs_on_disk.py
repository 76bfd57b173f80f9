"""A run on disk: what was written is read back, and nothing else ever is."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from pacebench.curricula import UpdateRecord
from pacebench.harness.records import DIAGNOSTIC_COLUMNS, RECORD_COLUMNS, Status
from pacebench.harness.store import tables
from pacebench.harness.store.files import StorageError
from pacebench.harness.store.runs import BadRunError, StoredRun, read_run, record_digest, write_run
from pacebench.harness.store.store import RunStore
from tests.harness.store.damages import forge_file
from tests.harness.store.samples import empty_result, sample_result, sample_run

COLUMNS = tuple(DIAGNOSTIC_COLUMNS.items())


def _read(folder: Path) -> StoredRun | None:
    return read_run(lambda name: (folder / name).read_bytes(), folder.name, tables=True)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    run = sample_run()
    folder = tmp_path / "walks" / "runs" / run.run_id
    write_run(folder, run, sample_result(run), {"attempts": 1})
    return folder


def test_an_update_is_stored_with_the_types_its_record_declares() -> None:
    types = {"str": "category", "int": "int64", "bool": "bool", "float": "float"}
    declared = {f.name: types[str(f.type).split(" | ")[0]] for f in fields(UpdateRecord)}
    stored = {
        name: kind.replace("float64", "float").replace("float32", "float")
        for name, kind in RECORD_COLUMNS.items()
    }
    assert list(stored.items()) == list(declared.items())


def test_what_was_written_is_read_back(written: Path) -> None:
    run = sample_run()
    result = sample_result(run)
    found = _read(written)
    assert found is not None
    assert found.run_id == written.name == run.run_id
    assert found.status is Status.OK
    assert found.record["run"] == run.determinants()
    rows = found.tables["evaluations.parquet"].table.to_pydict()
    assert rows["step"] == result.evaluations["step"]
    np.testing.assert_array_equal(rows["return"], np.float32(result.evaluations["return"]))
    assert rows["success"] == result.evaluations["success"]
    updates = found.tables["updates.parquet"].table.to_pydict()
    np.testing.assert_array_equal(updates["mean"], np.float32(result.updates["mean"]))
    assert updates["kl_step"] == result.updates["kl_step"], "bounds are held against every digit"
    assert updates["slack"] == [None] * 3
    assert "seconds" not in updates
    assert found.tables["timings.parquet"].table.column_names == ["seconds"]
    policy = RunStore(written.parents[1]).policy(run.run_id)
    np.testing.assert_array_equal(policy["weights"], result.policy["weights"])


def test_diagnostics_are_kept_where_there_are_any(tmp_path: Path, written: Path) -> None:
    assert RunStore(written.parents[1]).diagnostics(written.name) is None, "as in older runs"
    run = sample_run()
    told = {name: [1, 2] if kind.startswith("int") else [0.5, np.nan] for name, kind in COLUMNS}
    folder = tmp_path / "told" / "runs" / run.run_id
    write_run(folder, run, replace(sample_result(run), diagnostics=told), {"attempts": 1})
    found = RunStore(tmp_path / "told").diagnostics(run.run_id)
    assert found is not None
    assert found.column_names == [name for name, _ in COLUMNS]
    assert found["env_steps"].to_pylist() == [1, 2]
    assert found["approx_kl"][0].as_py() == 0.5
    assert np.isnan(found["approx_kl"][1].as_py())
    forge_file(folder, "diagnostics.parquet", b"no table")
    with pytest.raises(BadRunError, match="no table of ours"):
        RunStore(tmp_path / "told").diagnostics(run.run_id)


def test_types_do_not_depend_on_what_was_recorded(written: Path) -> None:
    found = _read(written)
    assert found is not None
    schema = found.tables["updates.parquet"].table.schema
    assert str(schema.field("threshold").type) == "double", "though every value is None"
    assert str(schema.field("theta").type).startswith("list<")
    assert str(schema.field("iterations").type) == "int64"


def test_the_same_result_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    run = sample_run()
    other = tmp_path / "other" / run.run_id
    # Another attempt, another time, another place: none of it is part of the record.
    write_run(other, run, sample_result(run), {"attempts": 2, "batch": 7})
    for name in ("evaluations.parquet", "updates.parquet", "policy.safetensors"):
        assert (other / name).read_bytes() == (written / name).read_bytes()
    first, second = (json.loads((f / "run.json").read_text()) for f in (written, other))
    assert first["execution"] != second["execution"]
    assert record_digest(first) == record_digest(second)


def test_the_digest_of_a_record_sees_every_difference_of_substance(written: Path) -> None:
    record = json.loads((written / "run.json").read_text())
    digest = record_digest(record)
    for change in ({"status": "diverged"}, {"env_steps": 1}, {"reason": "x"}):
        assert record_digest({**record, **change}) != digest
    files = json.loads(json.dumps(record["files"]))
    files["updates.parquet"]["sha256"] = "0" * 64
    assert record_digest({**record, "files": files}) != digest


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


DAMAGES = (_truncate, _flip_a_bit, Path.unlink)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *itertools.product(("evaluations.parquet", "updates.parquet"), DAMAGES),
        *itertools.product(("timings.parquet", "policy.safetensors"), (_truncate, _flip_a_bit)),
    ],
)
def test_a_damaged_file_is_named_and_not_read(written: Path, name: str, damage) -> None:
    damage(written / name)
    with pytest.raises(BadRunError, match=name):
        _read(written)


def test_a_study_may_be_passed_on_without_what_no_statistic_needs(written: Path) -> None:
    for name in ("policy.safetensors", "timings.parquet"):
        (written / name).unlink()
    found = _read(written)
    assert found is not None
    assert set(found.tables) == {"evaluations.parquet", "updates.parquet"}
    assert RunStore(written.parents[1]).policy(written.name) == {}


@pytest.mark.parametrize("position", range(0, 60, 3))
def test_run_json_cut_anywhere_is_not_read(written: Path, position: int) -> None:
    path = written / "run.json"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * position // 60])
    with pytest.raises(BadRunError, match=r"run\.json"):
        _read(written)


def test_an_edited_record_is_not_read(written: Path) -> None:
    path = written / "run.json"
    path.write_text(path.read_text().replace('"status": "ok"', '"status": "diverged"'))
    with pytest.raises(BadRunError, match="checksum"):
        _read(written)


def test_a_run_of_another_study_is_not_read(written: Path, tmp_path: Path) -> None:
    other = sample_run(1)
    folder = tmp_path / "elsewhere" / other.run_id
    write_run(folder, other, sample_result(other), {})
    (written / "run.json").write_bytes((folder / "run.json").read_bytes())
    with pytest.raises(BadRunError, match=f"another run .{other.run_id}"):
        _read(written)


def test_a_table_that_stands_for_too_many_values_is_not_decoded(written: Path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "_MOST_VALUES", 100)
    with pytest.raises(BadRunError, match=r"evaluations\.parquet is no table of ours: .* values"):
        _read(written)


def test_a_policy_that_is_none_is_not_played(written: Path) -> None:
    forge_file(written, "policy.safetensors", b"no safetensors")
    with pytest.raises(BadRunError, match=r"policy\.safetensors is no policy of ours"):
        RunStore(written.parents[1]).policy(written.name)


def test_a_folder_without_run_json_did_not_finish(written: Path) -> None:
    (written / "run.json").unlink()
    assert _read(written) is None


def test_run_json_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (written.append(Path(b).name), real(a, b)))
    run = sample_run()
    write_run(tmp_path / run.run_id, run, sample_result(run), {})
    assert written[-1] == "run.json"
    assert len(written) == 5


def test_a_full_disk_leaves_no_record_and_no_debris(tmp_path: Path, monkeypatch) -> None:
    from pacebench.harness.store import files

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    run = sample_run()
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        write_run(tmp_path / run.run_id, run, sample_result(run), {})
    assert list((tmp_path / run.run_id).iterdir()) == []


def test_a_run_that_recorded_nothing_is_stored_too(tmp_path: Path) -> None:
    run = sample_run()
    write_run(tmp_path / run.run_id, run, empty_result(run.seed), {})
    found = _read(tmp_path / run.run_id)
    assert found is not None
    assert found.status is Status.DIVERGED
    assert found.tables == {}


def test_results_that_are_not_as_declared_are_refused(tmp_path: Path) -> None:
    run = sample_run()
    good = sample_result(run)
    with pytest.raises(ValueError, match="a result of seed"):
        write_run(tmp_path / "x", run, sample_result(sample_run(1)), {})
    extra = replace(good, evaluations={**good.evaluations, "more": [0]})
    with pytest.raises(ValueError, match="more"):
        write_run(tmp_path / "x", run, extra, {})
    ragged = replace(good, evaluations={**good.evaluations, "length": [1]})
    with pytest.raises(ValueError, match="different lengths"):
        write_run(tmp_path / "x", run, ragged, {})
    assert not (tmp_path / "x" / "run.json").exists()


def test_timings_from_before_the_second_clock_are_read_and_other_columns_are_not() -> None:
    import pyarrow as pa

    from pacebench.harness.store.tables import from_parquet, to_parquet

    old = pa.table({"seconds": [0.25, 0.5]})
    assert from_parquet(to_parquet(old), "timings.parquet").column_names == ["seconds"]
    new = old.append_column("seconds_recording", [[0.1, 0.1]])
    assert from_parquet(to_parquet(new), "timings.parquet").num_columns == 2
    with pytest.raises(ValueError, match="column 'surprise'"):
        from_parquet(to_parquet(old.append_column("surprise", [[1.0, 1.0]])), "timings.parquet")
