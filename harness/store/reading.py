"""The one door through which the files of a results folder are read.

Results come from other people, other versions and broken disks. What stands here refuses anything
but a plain file of a reasonable size: a link leads out of the folder, a pipe would never answer, a
device is no data. Every refusal is a `BadFileError`, whoever asked.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import AfterValidator, ValidationError

from pacebench.harness.errors import UserError

MIB = 2**20
# The largest that a file of each kind may be: several times what any study needs.
_LIMITS = {
    "manifest.json": 128 * MIB,
    "run.json": 8 * MIB,
    "evaluations.parquet": 512 * MIB,
    "updates.parquet": 512 * MIB,
    "timings.parquet": 512 * MIB,
    "diagnostics.parquet": 512 * MIB,
    "policy.safetensors": 2048 * MIB,
    "checkpoint.bin": 8192 * MIB,
}
_LARGEST = 64 * MIB  # of all other kinds

_KINDS = {
    stat.S_IFLNK: "is a symbolic link",
    stat.S_IFIFO: "is a named pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFDIR: "is a folder",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


def _with_zone(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


# A time in ISO 8601 that can be compared with others.
Moment = Annotated[str, AfterValidator(_with_zone)]


class BadFileError(UserError):
    """A file that must not be read as data.

    Attributes:
        what: What is wrong with it, to follow its name.
    """

    def __init__(self, path: Path | str, what: str) -> None:
        self.what = what
        super().__init__(f"{path}: {what}; restore it from a backup, or move it away.")


class NewerFormatError(UserError):
    """A file of a format that only a newer version can read: to be kept as it is."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            f"{path}: made by a newer pacebench (format {found}; this one reads up to {known}); "
            "update pacebench."
        )


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Keeps Python from looking for garbage again and again among records that all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def limit_of(path: Path | str) -> int:
    """Returns how many bytes a file of this name may have."""
    return _LIMITS.get(str(path).rpartition("/")[2], _LARGEST)


def check_size(path: Path | str, size: int, limit: int | None = None) -> None:
    """Refuses a file that is larger than any of its kind.

    Raises:
        BadFileError: It is.
    """
    limit = limit_of(path) if limit is None else limit
    if size > limit:
        raise BadFileError(path, f"has {size} bytes, and no file of its kind has over {limit}")


def open_file(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Opens a plain file and returns its descriptor; never waits for somebody at the other end.

    Raises:
        FileNotFoundError: There is no such file.
        BadFileError: It is something else than a file.
        OSError: It cannot be opened.
    """
    try:
        check_file(path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    try:
        # O_NOFOLLOW and O_NONBLOCK are for what may have come since the look at its kind.
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadFileError(path, _KINDS[stat.S_IFLNK]) from None
        raise


def check_file(path: Path | str) -> None:
    """Refuses what is no plain file.

    Raises:
        FileNotFoundError: There is nothing.
        BadFileError: It is a link, a pipe, a folder or the like.
    """
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        raise BadFileError(path, _KINDS.get(stat.S_IFMT(mode), "is no file"))


def open_stream(path: Path | str) -> BinaryIO:
    """Opens a plain file for reading; see `open_file`."""
    return os.fdopen(open_file(path), "rb")


def read_file(path: Path | str, limit: int | None = None) -> bytes:
    """Returns the content of a plain file.

    Args:
        path: Where it is.
        limit: How many bytes it may have; by its name if not given.

    Raises:
        FileNotFoundError: There is no such file.
        BadFileError: It is something else than a file, or too large.
        OSError: It cannot be read.
    """
    limit = limit_of(path) if limit is None else limit
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        check_size(path, size, limit)
        data = os.read(descriptor, size + 1)
        # A file that is written to meanwhile has more than its size said; less is its end.
        while len(data) > size:
            size = len(data)
            check_size(path, size, limit)
            data += os.read(descriptor, 65536)
        return data
    finally:
        os.close(descriptor)


def check_folder(path: Path | str) -> bool:
    """Says whether there is a folder, and refuses what stands in its place.

    Raises:
        BadFileError: It is a link, a file or the like.
    """
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        what = "is a file" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "is no folder")
        raise BadFileError(path, f"{what} where a folder is meant")
    return True


def parse_json(data: bytes, path: Path | str) -> Any:
    """Returns what a JSON text says.

    Raises:
        BadFileError: It is no JSON, or nested too deeply to be ours.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise BadFileError(path, "is nested too deeply") from None
    except ValueError:
        raise BadFileError(path, "is torn: it is no JSON") from None


def parse_record(data: bytes, path: Path | str, newest: int) -> dict[str, Any]:
    """Returns a JSON object that names its format.

    Args:
        data: The text.
        path: Where it is from.
        newest: The newest format that we know.

    Raises:
        NewerFormatError: It has a newer one.
        BadFileError: It is no such object.
    """
    record = parse_json(data, path)
    if not isinstance(record, dict):
        raise BadFileError(path, f"is not a record of format {newest}")
    found = record.get("format")
    if type(found) is int and found > newest:
        raise NewerFormatError(path, found, newest)
    if type(found) is not int or found < 1:
        raise BadFileError(path, f"is not a record of format {newest}")
    return record


def first_mistake(error: ValidationError) -> str:
    """Returns the first thing that pydantic found wrong, with the key where it is."""
    first: Mapping[str, Any] = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))[:100]
    return f"{where}: {first['msg']}" if where else str(first["msg"])
