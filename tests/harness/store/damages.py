"""Ways to damage a results folder, or to make it look like somebody else's.

Each damage changes a valid study in place. `victim` is the run it hurts, if it hurts one.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pacebench.harness.store.files import sha256
from pacebench.harness.store.study_files import ARCHIVE, write_archive

NESTED = b"[" * 200_000
ALL = frozenset({"load", "status", "report", "run"})

Mutate = Callable[[Path], None]


@dataclass(frozen=True)
class Damage:
    """One way to damage a study.

    Attributes:
        name: What it is.
        mutate: Does it.
        refused_by: Who must refuse the whole study; the others must not accept what is damaged.
        lost: Whether a run must count as lost, and be made again.
    """

    name: str
    mutate: Mutate
    refused_by: frozenset[str] = frozenset()
    lost: bool = False


def victim(root: Path) -> Path:
    """The folder of the run that is hurt."""
    return sorted((root / "runs").iterdir())[0]


def other(root: Path) -> Path:
    """The folder of a run that is not, with other numbers in it."""
    name = "evaluations.parquet"
    mine = (victim(root) / name).read_bytes()
    folders = sorted((root / "runs").iterdir())
    return next(folder for folder in folders if (folder / name).read_bytes() != mine)


def forge(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes a record as somebody would who knows how its checksum is made."""
    path = folder / "run.json"
    record = json.loads(path.read_text())
    change(record)
    record["checksum"] = "0" * 64
    text = json.dumps(record, indent=1).encode() + b"\n"
    path.write_bytes(text.replace(b"0" * 64, sha256(text).encode()))


def forge_file(folder: Path, name: str, data: bytes) -> None:
    """Replaces a file of a run, and what its record says about it."""
    (folder / name).write_bytes(data)
    facts = {"bytes": len(data), "sha256": sha256(data)}
    forge(folder, lambda record: record["files"].update({name: facts}))


def forge_table(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replaces a table of a run."""
    sink = BytesIO()
    pq.write_table(change(pq.read_table(folder / name)), sink)
    forge_file(folder, name, sink.getvalue())


def _record(name: str, change: Callable[[dict[str, Any]], Any]) -> Damage:
    return Damage(name, lambda root: forge(victim(root), change), lost=True)


def _text(name: str, change: Callable[[bytes], bytes]) -> Damage:
    def mutate(root: Path) -> None:
        path = victim(root) / "run.json"
        path.write_bytes(change(path.read_bytes()))

    return Damage(name, mutate, lost=True)


def _table(name: str, file: str, change: Callable[[pa.Table], pa.Table]) -> Damage:
    return Damage(name, lambda root: forge_table(victim(root), file, change), lost=True)


def _put(record: dict[str, Any], key: str, value: Any) -> None:
    record[key] = value


def _foreign(name: str, file: str) -> Damage:
    """A record that names a file elsewhere, which is as it says."""

    def mutate(root: Path) -> None:
        folder = victim(root)
        outside = root.parent / "outside.parquet"
        outside.write_bytes((folder / "evaluations.parquet").read_bytes())
        path = file.format(outside=outside)
        facts = json.loads((folder / "run.json").read_text())["files"]["evaluations.parquet"]
        forge(folder, lambda record: record["files"].update({path: facts}))

    return Damage(name, mutate, lost=True)


def _swap(root: Path, *names: str) -> None:
    for name in names:
        one, two, spare = victim(root) / name, other(root) / name, root / "spare"
        one.rename(spare)
        two.rename(one)
        spare.rename(two)


RECORDS = [
    _text("record: cut", lambda text: text[: len(text) // 2]),
    _text("record: empty", lambda _: b""),
    _text("record: bytes", lambda _: bytes(range(256)) * 10),
    _text("record: nested", lambda _: NESTED),
    _text("record: nested inside", lambda text: text[:-3] + b',"x":' + NESTED),
    _text("record: a list", lambda text: b"[" + text + b"]"),
    _text("record: null", lambda _: b"null"),
    _text("record: edited", lambda text: text.replace(b'"ok"', b'"diverged"')),
    _text("record: checksum null", lambda text: text.replace(b'"checksum"', b'"check"')),
    _text("record: a number of a million digits", lambda _: b"1" * 1_000_000),
    _record("record: no files", lambda r: r.pop("files")),
    _record("record: files a list", lambda r: _put(r, "files", list(r["files"]))),
    _record("record: facts a text", lambda r: r["files"].update({"updates.parquet": "x"})),
    _record("record: unknown status", lambda r: _put(r, "status", "splendid")),
    _record("record: status a list", lambda r: _put(r, "status", ["ok"])),
    _record("record: no reason", lambda r: r.pop("reason")),
    _record("record: format 0", lambda r: _put(r, "format", 0)),
    _record("record: format a text", lambda r: _put(r, "format", "1")),
    _record("record: format true", lambda r: _put(r, "format", True)),
    _record("record: no format", lambda r: r.pop("format")),
    _record("record: steps below zero", lambda r: _put(r, "env_steps", -1)),
    _record("record: infinite steps", lambda r: _put(r, "env_steps", float("inf"))),
    _record("record: timings of texts", lambda r: _put(r, "timings", {"rollout": "long"})),
    _record("record: execution a list", lambda r: _put(r, "execution", [])),
    _record("record: time without zone", lambda r: r["execution"].update(finished="2020-01-01")),
    _record("record: time of nonsense", lambda r: r["execution"].update(finished="yesterday")),
    _record("record: versions a text", lambda r: r["execution"].update(versions="new")),
    _record("record: another cell", lambda r: r["run"]["cell"].update(budget=1)),
    _record("record: not a number", lambda r: r["run"]["cell"].update(budget=float("nan"))),
    _record("record: well without evaluations", lambda r: r["files"].pop("evaluations.parquet")),
    _record("record: huge size", lambda r: r["files"]["updates.parquet"].update(bytes=10**18)),
    _record("record: size below zero", lambda r: r["files"]["updates.parquet"].update(bytes=-1)),
    Damage("record: of another run", lambda root: _swap(root, "run.json"), lost=True),
    Damage("run: in another's folder", lambda root: _swap(root, ""), lost=True),
    _foreign("record: absolute name", "{outside}"),
    _foreign("record: name that leads out", "../../../outside.parquet"),
    _foreign("record: unknown name", "log.txt"),
    _foreign("record: empty name", ""),
]


def _longer(table: pa.Table, rows: int) -> pa.Table:
    """Gives the distributions of the first updates a dimension more."""
    means = table["mean"].to_pylist()
    longer = [[*mean, 0.0] for mean in means[:rows]] + means[rows:]
    column = table.schema.get_field_index("mean")
    return table.set_column(column, "mean", pa.array(longer, pa.list_(pa.float64())))


TABLES = [
    _table("table: no rows cut", "evaluations.parquet", lambda t: t.drop_columns(["return"])),
    _table("table: one column more", "evaluations.parquet", lambda t: t.append_column("x", t[0])),
    _table(
        "table: text for numbers",
        "evaluations.parquet",
        lambda t: t.set_column(4, "return", t["return"].cast(pa.string())),
    ),
    _table(
        "table: gaps",
        "evaluations.parquet",
        lambda t: t.set_column(4, "return", pa.nulls(len(t), pa.float32())),
    ),
    _table("table: reserved column", "updates.parquet", lambda t: t.append_column("label", t[0])),
    _table("table: other dimension", "updates.parquet", lambda t: _longer(t, len(t))),
    _table("table: other dimension once", "updates.parquet", lambda t: _longer(t, 1)),
    _table("table: other length", "timings.parquet", lambda t: t.slice(1)),
    Damage(
        "table: no Parquet",
        lambda root: forge_file(victim(root), "evaluations.parquet", b"PAR1 not PAR1"),
        lost=True,
    ),
    Damage(
        "table: another's",
        lambda root: forge_file(
            victim(root),
            "evaluations.parquet",
            (victim(root) / "updates.parquet").read_bytes(),
        ),
        lost=True,
    ),
    Damage(
        "table: swapped",
        lambda root: _swap(root, "evaluations.parquet"),
        lost=True,
    ),
    Damage("table: missing", lambda root: (victim(root) / "updates.parquet").unlink(), lost=True),
]


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_link(path: Path) -> None:
    """A link to the very same content, outside."""
    outside = path.parents[2] / f"outside-{path.name}"
    shutil.move(path, outside)
    path.symlink_to(outside)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_device(path: Path) -> None:
    path.unlink()
    if os.geteuid() == 0:
        os.mknod(path, 0o020600, os.makedev(1, 5))  # /dev/zero
    else:
        path.symlink_to("/dev/zero")


def stretch(path: Path) -> None:
    """A tebibyte that takes no room."""
    os.truncate(path, 2**40)


_KINDS = (replace_by_pipe, replace_by_link, replace_by_folder, replace_by_device, stretch)


def _at(name: str, change: Callable[[Path], None]) -> Damage:
    label = f"{name}: {change.__name__}"
    return Damage(label, lambda root: change(victim(root) / name), lost=True)


def _link_run(root: Path) -> None:
    folder = victim(root)
    shutil.move(folder, root.parent / "outside-run")
    folder.symlink_to(root.parent / "outside-run")


def _file_for_run(root: Path) -> None:
    folder = victim(root)
    shutil.rmtree(folder)
    folder.write_text("no folder")


KINDS = [
    *(_at("run.json", change) for change in _KINDS),
    *(_at("evaluations.parquet", change) for change in _KINDS),
    _at("policy.safetensors", replace_by_pipe),
    _at("policy.safetensors", replace_by_link),
    Damage("run: a link", _link_run, lost=True),
    Damage("run: a file", _file_for_run, lost=True),
]


def _newer(number: int) -> Damage:
    return Damage(
        f"record: format {number}",
        lambda root: forge(victim(root), lambda r: _put(r, "format", number)),
        ALL,
    )


def _manifest(name: str, change: Callable[[dict[str, Any]], Any]) -> Damage:
    def mutate(root: Path) -> None:
        path = root / "manifest.json"
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))

    return Damage(f"manifest: {name}", mutate, ALL)


def _manifest_text(name: str, change: Callable[[bytes], bytes]) -> Damage:
    def mutate(root: Path) -> None:
        path = root / "manifest.json"
        path.write_bytes(change(path.read_bytes()))

    return Damage(f"manifest: {name}", mutate, ALL)


MANIFESTS = [
    _newer(2),
    _newer(99),
    _manifest("format 2", lambda m: _put(m, "format", 2)),
    _manifest("format 99 with other keys", lambda m: m.update(format=99, runs={}, cells=[])),
    _manifest("no format", lambda m: m.pop("format")),
    _manifest("another run id", lambda m: m["entries"][0].update(run_id="0" * 16)),
    _manifest("a path for a run id", lambda m: m["entries"][0].update(run_id="../../outside")),
    _manifest("another seed", lambda m: m["entries"][0]["seed"].update(index=7)),
    _manifest("unknown cell", lambda m: m["entries"][0].update(cell="0" * 16)),
    _manifest("a run twice", lambda m: m["entries"].append(m["entries"][0])),
    _manifest("no entries but a text", lambda m: _put(m, "entries", "none")),
    _manifest("cells a list", lambda m: _put(m, "cells", [])),
    _manifest("another budget", lambda m: next(iter(m["cells"].values())).update(budget=1)),
    _manifest("another plan", lambda m: m["plan"].update(question="Is it?")),
    _manifest("a plan of no numbers", lambda m: m["plan"].update(x=float("nan"))),
    _manifest_text("cut", lambda text: text[:-100]),
    _manifest_text("empty", lambda _: b""),
    _manifest_text("nested", lambda _: NESTED),
    _manifest_text("nested in its plan", lambda t: t.replace(b'"plan":', b'"plan":' + NESTED, 1)),
    _manifest_text("bytes", lambda _: bytes(range(256))),
    *(
        Damage(f"manifest: {f.__name__}", lambda root, f=f: f(root / "manifest.json"), ALL)
        for f in _KINDS
    ),
]

_LEDGER = frozenset({"report", "run"})


def _line(name: str, line: bytes, refused: frozenset[str] = _LEDGER) -> Damage:
    def mutate(root: Path) -> None:
        with open(root / "ledger.jsonl", "ab") as file:
            file.write(line + b"\n")

    return Damage(f"ledger: {name}", mutate, refused)


_TIME = b'"time": "2026-01-01T00:00:00.000+00:00"'

LEDGERS = [
    _line("no time", b'{"event": "finish", "run": "abc", "status": "ok"}'),
    _line("no run", b'{"event": "finish", ' + _TIME + b"}"),
    _line("share of nothing", b'{"event": "share", ' + _TIME + b"}"),
    _line("share from nowhere", b'{"event": "share", "run": "abc", ' + _TIME + b"}"),
    _line("a run that is a path", b'{"event": "finish", "run": "../../x", ' + _TIME + b"}"),
    _line("runs a text", b'{"event": "failure", "counts": true, "runs": "abc", ' + _TIME + b"}"),
    _line("start without attempt", b'{"event": "start", "run": "abc", ' + _TIME + b"}"),
    _line("looks of nothing", b'{"event": "report", "runs_known": ["many"], ' + _TIME + b"}"),
    _line("time without zone", b'{"event": "x", "time": "2026-01-01"}'),
    _line("no event", b"{" + _TIME + b"}"),
    _line("a list", b"[1, 2]"),
    _line("a number", b"3"),
    _line("cut", b'{"event": "fin', frozenset()),
    _line("nested", NESTED, frozenset()),
    _line("bytes", bytes(range(200, 256)), frozenset()),
    *(
        Damage(f"ledger: {f.__name__}", lambda root, f=f: f(root / "ledger.jsonl"), _LEDGER)
        for f in _KINDS
    ),
]


def _folder_link(name: str) -> Damage:
    def mutate(root: Path) -> None:
        outside = root.parent / f"outside-{name}"
        if (root / name).exists():
            shutil.move(root / name, outside)
        else:
            outside.mkdir()
        (root / name).symlink_to(outside)

    return Damage(f"folder: {name} a link", mutate, ALL)


def _leases_file(root: Path) -> None:
    shutil.rmtree(root / "leases", ignore_errors=True)
    (root / "leases").write_text("no folder")


FOLDERS = [
    *(_folder_link(name) for name in ("runs", "quarantine", "leases", "attempts")),
    Damage("folder: leases a file", _leases_file, ALL),
]


def _unfinished(name: str, place: Callable[[Path, str], None]) -> Damage:
    """A run without a record, and with something that a runner would look at."""

    def mutate(root: Path) -> None:
        folder = victim(root)
        (folder / "run.json").unlink()
        place(root, folder.name)

    return Damage(name, mutate, lost=True)


def _lease(content: bytes) -> Callable[[Path, str], None]:
    def place(root: Path, run_id: str) -> None:
        (root / "leases").mkdir(exist_ok=True)
        (root / "leases" / f"{run_id}.1").write_bytes(content)

    return place


def _lease_pipe(root: Path, run_id: str) -> None:
    (root / "leases").mkdir(exist_ok=True)
    os.mkfifo(root / "leases" / f"{run_id}.1")


def _checkpoint(content: bytes) -> Callable[[Path, str], None]:
    return lambda root, run_id: (root / "runs" / run_id / "checkpoint.bin").write_bytes(content)


def _pipes_everywhere(root: Path, run_id: str) -> None:
    (root / "attempts").mkdir(exist_ok=True)
    for path in (
        root / "runs" / run_id / "checkpoint.bin",
        root / "attempts" / "0123456789ab.log",
    ):
        os.mkfifo(path)
    replace_by_pipe(root / "runs" / run_id / "log.txt")


UNFINISHED = [
    _unfinished("lease: a list", _lease(b"[1, 2]\n" + b"0" * 40)),
    _unfinished(
        "lease: of another machine",
        _lease(b'{"machine": "x", "pid": 1, "heartbeat": 0.1}\n' + b"0" * 40),
    ),
    _unfinished("lease: nested", _lease(NESTED)),
    _unfinished("lease: empty", _lease(b"")),
    _unfinished("lease: a pipe", _lease_pipe),
    _unfinished("checkpoint: torn", _checkpoint(b"torn")),
    _unfinished("checkpoint: nested", _checkpoint(NESTED)),
    _unfinished("checkpoint: a list", _checkpoint(b"[]\n")),
    _unfinished("pipes for checkpoint and logs", _pipes_everywhere),
]


def _lock_pipe(root: Path) -> None:
    (root / ".lock").unlink(missing_ok=True)
    os.mkfifo(root / ".lock")


LOCKS = [Damage("lock: a pipe", _lock_pipe, frozenset({"run"}))]


def loose_files(root: Path) -> dict[str, bytes]:
    """Everything that packing would take."""
    names = ["manifest.json", "ledger.jsonl"]
    names += [str(path.relative_to(root)) for path in sorted(root.glob("runs/*/*.*"))]
    return {name: (root / name).read_bytes() for name in names}


def pack_as_it_is(root: Path) -> None:
    """Packs without verifying, as a stranger would."""
    contents = loose_files(root)
    shutil.rmtree(root / "runs")
    for name in ("manifest.json", "ledger.jsonl"):
        (root / name).unlink()
    write_archive(root / ARCHIVE, contents)


def _packed(damage: Damage) -> Damage:
    def mutate(root: Path) -> None:
        damage.mutate(root)
        pack_as_it_is(root)

    return Damage(f"packed, {damage.name}", mutate, damage.refused_by, damage.lost)


def _archive(name: str, change: Callable[[Path], None]) -> Damage:
    def mutate(root: Path) -> None:
        pack_as_it_is(root)
        change(root / ARCHIVE)

    return Damage(f"archive: {name}", mutate, ALL)


def _add(name: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, b"x")

    return change


def _patch(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    return change


def _set_entries(offset: int, value: bytes) -> Callable[[Path], None]:
    """Changes a field of every entry of the archive's directory."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        start = data.find(b"PK\x01\x02")
        while start >= 0:
            data[start + offset : start + offset + len(value)] = value
            start = data.find(b"PK\x01\x02", start + 4)
        path.write_bytes(bytes(data))

    return change


def _flip_data(root: Path) -> None:
    """Flips a bit of the packed evaluations of one run."""
    run_id = victim(root).name
    pack_as_it_is(root)
    path = root / ARCHIVE
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"runs/{run_id}/evaluations.parquet")
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 1
    path.write_bytes(bytes(data))


def _cut_file(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


ARCHIVES = [
    _archive("cut", _cut_file),
    _archive("no zip", lambda path: path.write_bytes(b"no zip at all")),
    _archive("unknown name", _add("leases/x.1")),
    _archive("a page", _add("report/index.html")),
    _archive("name that leads out", _add("../outside")),
    _archive("encrypted", _set_entries(8, b"\x01")),
    _archive("unknown compression", _set_entries(10, b"\x63")),
    _archive("huge sizes", _set_entries(24, b"\xfe\xff\xff\xff")),
    _archive("a pipe", replace_by_pipe),
    _archive("a link", replace_by_link),
    _archive("a folder", replace_by_folder),
    Damage("archive: a flipped bit", _flip_data, lost=True),
    *(
        _packed(damage)
        for damage in (*RECORDS, *TABLES, *MANIFESTS, *LEDGERS)
        if damage.name
        in {
            "record: cut",
            "record: nested",
            "record: no files",
            "record: unknown status",
            "record: absolute name",
            "record: name that leads out",
            "record: of another run",
            "record: huge size",
            "record: format 2",
            "table: text for numbers",
            "table: another's",
            "table: missing",
            "manifest: format 99 with other keys",
            "manifest: another run id",
            "manifest: nested",
            "ledger: no time",
            "ledger: nested",
        }
    ),
]

DAMAGES = [
    *RECORDS,
    *TABLES,
    *KINDS,
    *MANIFESTS,
    *LEDGERS,
    *FOLDERS,
    *UNFINISHED,
    *LOCKS,
    *ARCHIVES,
]
