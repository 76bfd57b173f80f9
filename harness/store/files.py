"""Files that are whole or absent: temporary name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pacebench.harness.errors import UserError

_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_MACHINE_ERRORS = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
)
_LONGEST_REASON = 1000
_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
}


class StorageError(UserError):
    """The results folder cannot be written or read; nothing recorded before is affected."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.errno = error.errno
        remedy = _REMEDIES.get(error.errno or 0, "repair it")
        said = error.strerror or str(error)
        super().__init__(
            f"{path}: {said}; {remedy} and run the same command again, "
            "nothing that was recorded is lost."
        )


@contextlib.contextmanager
def storage(path: Path) -> Iterator[None]:
    """Turns operating-system errors inside the block into a `StorageError` about `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(path, error) from error


def describe(error: BaseException) -> str:
    """Returns an exception in one line that can be printed and stored, whatever it says of itself.

    Methods raise exceptions of their own, and even `str` of one may raise another.
    """
    try:
        said = str(error)[:_LONGEST_REASON]
    except Exception:  # noqa: BLE001 - it is the method's code
        said = "it cannot say what is wrong"
    first = f"{type(error).__name__}: {said}".strip().splitlines()[0]
    return "".join(char if char.isprintable() else "?" for char in first)


def is_out_of_memory(error: BaseException) -> bool:
    """Says whether an error means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # torch reports a failed allocation as a RuntimeError.
    torch = isinstance(error, RuntimeError) and "can't allocate memory" in describe(error)
    return isinstance(error, MemoryError) or torch


def is_out_of_space(error: BaseException) -> bool:
    """Says whether an error means that a file system is full or read-only."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_SPACE


def is_machine_error(error: BaseException) -> bool:
    """Says whether an error is the machine's doing rather than the method's.

    Whoever meets the last thread need not be the one who took all the others.
    """
    if isinstance(error, RuntimeError) and "can't start new thread" in describe(error):
        return True
    return isinstance(error, OSError) and error.errno in _MACHINE_ERRORS | _OUT_OF_SPACE


def sha256(data: bytes | memoryview) -> str:
    """Returns the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: Path, data: bytes | memoryview, *, durable: bool = True) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part.

    Args:
        path: Where to; its folder must exist.
        data: The whole content.
        durable: Wait until the content and its name are on the disk, so that they survive a power
            cut too; a killed process they survive in any case.

    Raises:
        StorageError: It cannot be written; nothing is left behind.
    """
    write_together(path.parent, {path.name: data}, durable=durable)


def write_together(
    folder: Path, contents: Mapping[str, bytes | memoryview], *, durable: bool = True
) -> None:
    """Writes several files of a folder, each whole or not at all, and waits for the disk once.

    Raises:
        StorageError: One cannot be written; no temporary file is left behind.
    """
    pending: dict[Path, Path] = {}
    with storage(folder / " and ".join(contents)), contextlib.ExitStack() as stack:
        stack.callback(_remove, pending)
        descriptors = []
        for name, data in contents.items():
            temporary = folder / f".{name}.{uuid.uuid4().hex}.tmp"
            pending[temporary] = folder / name
            file = stack.enter_context(open(temporary, "xb"))
            file.write(data)
            file.flush()
            descriptors.append(file.fileno())
        if durable:
            _sync_all(descriptors)
        for temporary, path in list(pending.items()):
            os.replace(temporary, path)
            del pending[temporary]
        if durable:
            sync_folder(folder)


def _remove(temporaries: Mapping[Path, Path]) -> None:
    for temporary in temporaries:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _sync_all(descriptors: Sequence[int]) -> None:
    if len(descriptors) == 1:
        os.fsync(descriptors[0])
        return
    # Side by side: a disk that is asked four times at once answers about as soon as for one.
    with ThreadPoolExecutor(len(descriptors)) as pool:
        list(pool.map(os.fsync, descriptors))


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable, where the file system lets us."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse to sync a folder; the rename is atomic all the same.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> Path:
    """Creates a folder with its parents.

    Raises:
        UserError: A file stands in its place.
        StorageError: It cannot be created.
    """
    with storage(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            place = next(p for p in (path, *path.parents) if os.path.lexists(p))
            raise UserError(
                f"{place}: is a file where a folder is meant; move it away, or give another "
                "--results folder."
            ) from None
    return path


def lock(descriptor: int, path: Path) -> None:
    """Keeps other processes from what the file stands for, where the file system can lock.

    Where it cannot, the user is warned, once for each folder.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        _warn_unlocked(path.parent, error.strerror or str(error))


@functools.cache
def _warn_unlocked(folder: Path, said: str) -> None:
    warnings.warn(
        f"{folder}: this file system refuses locks ({said}); let only one runner at a time work "
        "on the study.",
        stacklevel=3,
    )


def remove_temporaries(folder: Path) -> None:
    """Removes what a killed writer left half-written; only the folder's one writer may call it."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
