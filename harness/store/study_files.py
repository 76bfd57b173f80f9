"""The files of a study's results: loose in their folder, or packed into one zip file.

A packed study is one file to send and to keep under version control. It is read as it is; what is
written later stands loose beside it, and where a file exists in both forms the loose one counts.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pacebench.harness.errors import UserError
from pacebench.harness.store.files import write_atomic

ARCHIVE = "packed.zip"
RECORD = "run.json"
# Of all files of an archive together; more than any study has, and less than would fill a disk.
_LARGEST = 64 * 2**30


class StudyFiles:
    """Reads the files of one study by their names relative to its folder.

    Attributes:
        folder: Where loose files are.
        archive: Where packed ones are, if there are any.

    Args:
        root: The results folder `results/<study>`, or a packed study.

    Raises:
        UserError: The archive is not one of ours.
    """

    def __init__(self, root: Path) -> None:
        alone = root.suffix == ".zip" and root.is_file()
        self.folder = root.with_suffix("") if alone else root
        self.archive = root if alone else root / ARCHIVE
        self._zip: zipfile.ZipFile | None = None
        self.packed: frozenset[str] = frozenset()
        self.reopen()

    def reopen(self) -> None:
        """Looks at the archive again, after it was replaced."""
        self._zip, self.packed = None, frozenset()
        try:
            self._zip = zipfile.ZipFile(self.archive)
            infos = self._zip.infolist()
        except FileNotFoundError:
            return
        except (zipfile.BadZipFile, OSError) as error:
            raise UserError(f"{self.archive}: is no packed study ({error}).") from None
        names = [info.filename for info in infos]
        sizes = sum(info.file_size for info in infos)
        if any(not _is_plain(name) for name in names) or sizes > _LARGEST:
            raise UserError(
                f"{self.archive}: is no packed study of ours: it holds names that lead out of it, "
                "or more than fits anywhere."
            )
        self.packed = frozenset(names)

    def read(self, name: str) -> bytes:
        """Returns the content of a file.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: It cannot be read.
        """
        try:
            # pathlib would take longer than the reading does, ten thousand times.
            with open(f"{self.folder}/{name}", "rb", buffering=0) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            if name not in self.packed:
                raise FileNotFoundError(name) from None
            return self.read_packed(name)

    def read_packed(self, name: str) -> bytes:
        """Returns the packed content of a file, whether or not a loose one stands before it."""
        assert self._zip is not None
        try:
            return self._zip.read(name)
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            raise OSError(0, f"{self.archive.name} is damaged ({error})") from None

    def exists(self, name: str) -> bool:
        """Says whether there is such a file."""
        return name in self.packed or os.path.exists(f"{self.folder}/{name}")

    def run_ids(self) -> set[str]:
        """Returns the ids of the runs that have a record, which is not verified."""
        loose = {path.parent.name for path in self.folder.glob(f"runs/*/{RECORD}")}
        return loose | {name.split("/")[1] for name in self.packed if name.endswith(f"/{RECORD}")}

    def drop(self, names: Iterable[str]) -> None:
        """Takes files out of the archive."""
        gone = set(names) & self.packed
        if gone:
            rest = {name: self.read_packed(name) for name in self.packed - gone}
            write_archive(self.archive, rest)
            self.reopen()


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


def _is_plain(name: str) -> bool:
    return bool(name) and not any(
        part in ("", ".", "..") or "\\" in part or ":" in part for part in name.split("/")
    )
