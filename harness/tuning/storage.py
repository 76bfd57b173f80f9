"""Where trials are remembered: a journal file by default, any Optuna storage by its URL."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pacebench.harness.errors import UserError
from pacebench.harness.runner.attempt import Limits
from pacebench.harness.study.space import PRUNERS, SAMPLERS, sampler_names
from pacebench.registry import UnknownNameError

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage, RDBStorage
    from sqlalchemy.engine import URL, Engine

JOURNAL = "journal.log"
# How long a database may be away, seconds, and how often it is tried again meanwhile.
PATIENCE, _PAUSE = 120.0, 1.0
_MAKING = 5  # attempts at the tables of a new database, which others may be making too

T = TypeVar("T")


def open_storage(folder: Path, url: str | None = None, limits: Limits | None = None) -> BaseStorage:
    """Opens the storage of a tuning.

    Args:
        folder: Where the journal file is, or is to be.
        url: An SQLAlchemy URL, such as `postgresql://user@host/name`, instead of the journal.
        limits: The pace of the signs of life that a database is given.

    Raises:
        UserError: The URL is malformed, its driver is missing, or its server does not answer.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url is not None:
        return _open_url(parse_url(url), limits or Limits())
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    folder.mkdir(parents=True, exist_ok=True)
    file = str(folder / JOURNAL)
    lock = JournalFileOpenLock(file)
    return optuna.storages.JournalStorage(JournalFileBackend(file, lock_obj=lock))


def parse_url(url: str) -> URL:
    """Returns a storage URL in its parts.

    Raises:
        UserError: It is none.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise UserError(
            "--storage: not a storage URL; write it like postgresql://user@host/name."
        ) from None


def secrets_of(url: URL) -> list[str]:
    """Returns what of a URL nobody else may see: passwords, wherever they stand in it."""
    hidden = [str(value) for key, value in url.query.items() if key.startswith("pass")]
    return [text for text in (url.password, *hidden) if text]


def _open_url(url: URL, limits: Limits) -> RDBStorage:
    from sqlalchemy.exc import SQLAlchemyError

    # Without its query, where drivers take passwords as well.
    shown = url.set(query={}).render_as_string(hide_password=True)

    def said(error: BaseException) -> str:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        for secret in secrets_of(url):
            reason = reason.replace(secret, "***")
        return reason

    for attempt in range(_MAKING):
        try:
            return _connect(url, limits)
        except ImportError as error:
            raise UserError(
                f"--storage {shown}: its database driver is missing ({said(error)}); for "
                "PostgreSQL: pip install 'psycopg[binary]'."
            ) from None
        except SQLAlchemyError as error:
            reason = said(getattr(error, "orig", None) or error)
            # Somebody else has just made the tables that we wanted to make.
            made = any(word in reason.lower() for word in ("already exists", "unique"))
            if made and attempt + 1 < _MAKING:
                time.sleep(_PAUSE)
                continue
            raise UserError(f"--storage {shown}: does not answer ({reason}).") from None
    raise AssertionError("unreachable")


def _connect(url: URL, limits: Limits) -> RDBStorage:
    import optuna

    backend = url.get_backend_name()
    arguments = {"sqlite": {"timeout": 60}, "postgresql": {"connect_timeout": 10}}
    arguments["mysql"] = arguments["postgresql"]
    options = {"connect_args": arguments.get(backend, {}), "pool_pre_ping": True}
    # Optuna logs a failed connection before it raises; one sentence is enough.
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with without_notices():
            storage = optuna.storages.RDBStorage(
                url.render_as_string(hide_password=False),
                engine_kwargs=options,
                heartbeat_interval=math.ceil(limits.heartbeat),
                grace_period=math.ceil(limits.expiry),
            )
    finally:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    if backend == "sqlite":
        _lock_at_once(storage.engine)
    return storage


def _lock_at_once(engine: Engine) -> None:
    """Makes SQLite's transactions exclusive from their beginning.

    Python's driver begins one only before it writes, so that two processes may both read that a
    trial waits and both claim it.
    """
    from sqlalchemy import event

    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver no longer begins transactions by itself

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    engine.dispose()


def troubles() -> tuple[type[Exception], ...]:
    """Returns what a database raises that is away or busy."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    return StorageInternalError, SQLAlchemyError


def patiently(call: Callable[[], T]) -> T:
    """Calls something that can be called again, until the database answers.

    Raises:
        UserError: It has been away for too long.
    """
    away: float | None = None
    while True:
        began = time.monotonic()
        try:
            return call()
        except troubles() as error:
            now = time.monotonic()
            if away is None or now - began > PATIENCE:  # it was there in between
                away = now
            if now - away > PATIENCE:
                kind = type(error.__cause__ or error).__name__
                raise UserError(
                    f"--storage: does not answer any more ({kind}); what was told to it is kept: "
                    "tune again once it is back."
                ) from None
            time.sleep(_PAUSE)


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Returns an Optuna sampler by name, every option as `SAMPLERS` says.

    Raises:
        UnknownNameError: There is none of this name.
    """
    from optuna import samplers

    if name not in sampler_names():
        raise UnknownNameError("sampler", name, sampler_names())
    with without_notices():
        sampler: BaseSampler = getattr(samplers, name)(seed=seed, **SAMPLERS[name])
    return sampler


def make_pruner(kind: str) -> BasePruner:
    """Returns the pruner of a study, every option as `PRUNERS` says."""
    from optuna import pruners

    name, options = PRUNERS[kind]
    with without_notices():
        pruner: BasePruner = getattr(pruners, name)(**options)
    return pruner


@contextlib.contextmanager
def without_notices() -> Iterator[None]:
    """Keeps Optuna from warning that something is new: it was chosen."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
