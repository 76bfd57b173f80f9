"""The files of a study's results: loose in their folder, or packed into one zip file.

A packed study is one file to send and to keep under version control. It is read as it is; what is
written later stands loose beside it, and where a file exists in both forms the loose one counts.
Runs that a study in the same results folder has, too, may be left to that one, and are read there.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

from pacebench.harness.errors import UserError
from pacebench.harness.store.elsewhere import ELSEWHERE, elsewhere, left_runs
from pacebench.harness.store.files import write_atomic
from pacebench.harness.store.reading import (
    BadFileError,
    check_file,
    check_folder,
    check_size,
    open_stream,
    read_file,
)

ARCHIVE = "packed.zip"
MANIFEST = "manifest.json"
RECORD = "run.json"
LEDGER = "ledger.jsonl"
# The folders of a study that are written to.
FOLDERS = ("runs", "quarantine", "leases", "attempts")
# Of all files of an archive together; more than any study has, and less than would fill a disk.
_LARGEST = 64 * 2**30
_RUN_FILES = (
    RECORD,
    "evaluations.parquet",
    "updates.parquet",
    "timings.parquet",
    "diagnostics.parquet",
    "policy.safetensors",
    "log.txt",
)
# What `pack` writes, and so all that an archive of ours may hold.
_PACKED = re.compile(
    rf"(manifest\.json|plan\.json|ledger\.jsonl|{re.escape(ELSEWHERE)}|"
    rf"runs/[0-9a-f]{{1,64}}/({'|'.join(map(re.escape, _RUN_FILES))}))"
)
# How long the name and the rest of the head before each packed file are.
_LENGTHS = struct.Struct("<26xHH")
# What the standard library raises on a damaged archive.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    RuntimeError,  # encrypted
    NotImplementedError,
)


class StudyFiles:
    """Reads the files of one study by their names relative to its folder.

    Attributes:
        root: As it was given.
        folder: Where loose files are.
        archive: Where packed ones are, if there are any.
        packed: The names of the packed files.

    Args:
        root: The results folder `results/<study>`, or a packed study.
        follow: Whether to look for runs that are left to other studies.

    Raises:
        UserError: The archive is not one of ours, runs are left to a study that has not got them,
            or the folder leads elsewhere.
    """

    def __init__(self, root: Path, *, follow: bool = True) -> None:
        self._follow = follow
        self.root = root
        alone = root.suffix == ".zip" and root.is_file()
        self.folder = root.with_suffix("") if alone else root
        # The user named the archive, so it may be a link; one inside a folder came with it.
        self.archive = root.resolve() if alone else root / ARCHIVE
        for name in FOLDERS:
            # Writing below a link would change somebody else's files.
            check_folder(self.folder / name)
        self._zip: zipfile.ZipFile | None = None
        self._stamp: list[int] = []  # of the archive that is open
        self.packed: frozenset[str] = frozenset()
        self.reopen()

    def reopen(self) -> None:
        """Looks at the archive again, after it was replaced."""
        self._zip, self.packed = None, frozenset()
        self._keepers: dict[str, StudyFiles] = {}  # by run
        try:
            check_file(self.archive)
            self._zip = zipfile.ZipFile(self.archive)
            assert self._zip.fp is not None
            self._stamp = _stamp(os.fstat(self._zip.fp.fileno()))
            infos = self._zip.infolist()
        except (FileNotFoundError, NotADirectoryError):
            return
        except (*_DAMAGED, OSError) as error:
            raise UserError(f"{self.archive}: is no packed study ({error}).") from None
        names = [info.filename for info in infos]
        if (
            not all(_PACKED.fullmatch(name) for name in names)
            or len(set(names)) < len(names)
            or sum(info.file_size for info in infos) > _LARGEST
        ):
            raise UserError(
                f"{self.archive}: is no packed study of ours: it holds names that no study has, a "
                "name twice, or more than fits anywhere."
            )
        self.packed = frozenset(names)
        if ELSEWHERE in self.packed and self._follow:
            self._find_keepers()

    def _find_keepers(self) -> None:
        try:
            left = left_runs(self.read_packed(ELSEWHERE))
        except (ValueError, BadFileError):
            raise UserError(f"{self.archive}: is damaged; its {ELSEWHERE} names no runs.") from None
        folder = self.archive.parent if self.archive.name == ARCHIVE else self.folder
        for study, run_ids in left.items():
            keeper = StudyFiles(folder.parent / study, follow=False)
            if lacking := set(run_ids) - keeper.run_ids():
                raise UserError(
                    f"{self.archive}: {len(lacking)} of its runs are left to the study '{study}', "
                    f"and {keeper.folder} has not got them; restore that study there."
                )
            self._keepers |= dict.fromkeys(run_ids, keeper)

    def keeper(self, name: str) -> StudyFiles | None:
        """Returns the files of the study to which the run of a file is left, if it is."""
        return self._keepers.get(name.split("/")[1]) if self._keepers and "/" in name else None

    def read(self, name: str) -> bytes:
        """Returns the content of a file.

        Raises:
            FileNotFoundError: There is no such file.
            BadFileError: It is something else than a file, or too large.
            OSError: It cannot be read.
        """
        return self._read(name, loose=check_folder(os.path.dirname(f"{self.folder}/{name}")))

    def _read(self, name: str, *, loose: bool) -> bytes:
        if loose:
            with contextlib.suppress(FileNotFoundError):
                # pathlib would take longer than the reading does, ten thousand times.
                return read_file(f"{self.folder}/{name}")
        if name in self.packed:
            return self.read_packed(name)
        if keeper := self.keeper(name):
            return keeper.read(name)
        raise FileNotFoundError(name)

    def read_packed(self, name: str) -> bytes:
        """Returns the packed content of a file, whether or not a loose one stands before it."""
        assert self._zip is not None
        info = self._zip.getinfo(name)
        check_size(name, max(info.file_size, info.compress_size))
        try:
            return _content(self._zip, info)
        except _DAMAGED as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> BadFileError:
        return BadFileError(self.archive, f"is damaged ({error})")

    @contextlib.contextmanager
    def stream(self, name: str, *, packed: bool) -> Iterator[IO[bytes] | BinaryIO]:
        """Opens the packed or the loose form of a file; an empty one where there is none.

        Raises:
            BadFileError: It is something else than a file, or the archive is damaged.
        """
        with contextlib.ExitStack() as stack:
            if packed and self._zip and name in self.packed:
                try:
                    yield stack.enter_context(self._zip.open(name))
                except _DAMAGED as error:
                    raise self._damaged(error) from None
                return
            file: BinaryIO = io.BytesIO()
            if not packed:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    file = open_stream(self.folder / name)
            yield stack.enter_context(file)

    def exists(self, name: str) -> bool:
        """Says whether there is such a file, readable or not."""
        if name in self.packed or os.path.lexists(f"{self.folder}/{name}"):
            return True
        keeper = self.keeper(name)
        return keeper is not None and keeper.exists(name)

    def run_ids(self) -> set[str]:
        """Returns the ids of the runs that have a record, which is not verified."""
        loose = {path.parent.name for path in self.folder.glob(f"runs/*/{RECORD}")}
        packed = {name.split("/")[1] for name in self.packed if name.endswith(f"/{RECORD}")}
        return loose | packed | self._keepers.keys()

    def names_of(self, run_id: str) -> list[str]:
        """Returns the names of the packed files of a run, be they here or where it is left."""
        names = [f"runs/{run_id}/{name}" for name in _RUN_FILES]
        keeper = self._keepers.get(run_id)
        return [n for n in names if n in self.packed or (keeper and keeper.exists(n))]

    def drop(self, run_id: str) -> None:
        """Takes a run out of the archive."""
        gone = {name for name in self.packed if name.startswith(f"runs/{run_id}/")}
        if run_id in self._keepers:
            gone.add(ELSEWHERE)
        if gone:
            rest = {name: self.read_packed(name) for name in self.packed - gone}
            if ELSEWHERE in gone:
                keepers = {i: k.folder.name for i, k in self._keepers.items() if i != run_id}
                rest |= elsewhere(keepers)
            write_archive(self.archive, rest)
            self.reopen()


class RunFiles:
    """Reads the files of one run by their names; whether any are loose is looked up once.

    Args:
        files: The files of its study.
        run_id: Its id.
    """

    def __init__(self, files: StudyFiles, run_id: str) -> None:
        self._files, self._prefix = files, f"runs/{run_id}"

    @functools.cached_property
    def _loose(self) -> bool:
        return check_folder(f"{self._files.folder}/{self._prefix}")

    def read(self, name: str) -> bytes:
        """Returns the content of a file; see `StudyFiles.read`."""
        return self._files._read(f"{self._prefix}/{name}", loose=self._loose)

    def stamp(self, name: str) -> list[int]:
        """Returns size and time of a file, which change when it is written to."""
        name = f"{self._prefix}/{name}"
        if self._loose:
            with contextlib.suppress(OSError):
                return _stamp(os.lstat(f"{self._files.folder}/{name}"))
        if keeper := self._files.keeper(name):
            return RunFiles(keeper, self._prefix.split("/")[1]).stamp(name.split("/")[2])
        return self._files._stamp if name in self._files.packed else []


def _stamp(found: os.stat_result) -> list[int]:
    return [found.st_size, found.st_mtime_ns]


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Returns the content of a packed file, in two thirds of the standard library's time."""
    assert archive.fp is not None
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        raise zipfile.BadZipFile(f"{info.filename} is encrypted, or packed in no way of ours")
    file = archive.fp.fileno()
    size = _LENGTHS.size + len(info.filename) + info.compress_size
    data = os.pread(file, size, info.header_offset)
    begin = _LENGTHS.size + sum(_LENGTHS.unpack_from(data))
    if begin + info.compress_size > size:  # Others put more than the name before it.
        data = os.pread(file, begin + info.compress_size, info.header_offset)
    data = data[begin : begin + info.compress_size]
    if info.compress_type == zipfile.ZIP_DEFLATED:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, info.file_size + 1)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile(f"{info.filename} is not what was packed")
    return data


def write_archive(path: Path, contents: Mapping[str, bytes]) -> None:
    """Writes files into an archive; equal files give equal bytes.

    Raises:
        StorageError: It cannot be written; the one before is still there.
    """
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in sorted(contents):
            # A fixed date: the time of packing is nobody's result.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, contents[name])
    write_atomic(path, sink.getvalue())
