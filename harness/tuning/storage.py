"""Where trials are remembered: a journal file by default, any Optuna storage by its URL."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pacebench.harness.errors import UserError
from pacebench.harness.study.space import sampler_names
from pacebench.registry import UnknownNameError

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

JOURNAL = "journal.log"

T = TypeVar("T")


def open_storage(folder: Path, url: str | None = None) -> BaseStorage:
    """Opens the storage of a tuning.

    Args:
        folder: Where the journal file is, or is to be.
        url: An SQLAlchemy URL, such as `postgresql://user@host/name`, instead of the journal.

    Raises:
        UserError: The URL is malformed, its driver is missing, or its server does not answer.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url is not None:
        return _open_url(url)
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    folder.mkdir(parents=True, exist_ok=True)
    file = str(folder / JOURNAL)
    lock = JournalFileOpenLock(file)
    return optuna.storages.JournalStorage(JournalFileBackend(file, lock_obj=lock))


def _open_url(url: str) -> BaseStorage:
    import optuna
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise UserError(
            "--storage: not a storage URL; write it like postgresql://user@host/name."
        ) from None
    shown = parsed.render_as_string(hide_password=True)
    timed = parsed.get_backend_name() in ("postgresql", "mysql")
    arguments = {
        "connect_args": {"connect_timeout": 10} if timed else {},
        "pool_pre_ping": True,
    }
    # Optuna logs a failed connection before it raises; one sentence is enough.
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        return optuna.storages.RDBStorage(url, engine_kwargs=arguments)
    except ImportError as error:
        raise UserError(
            f"--storage {shown}: its database driver is missing ({_first_line(error)}); for "
            "PostgreSQL: pip install 'psycopg[binary]'."
        ) from None
    except SQLAlchemyError as error:
        reason = _first_line(getattr(error, "orig", None) or error)
        raise UserError(f"--storage {shown}: does not answer ({reason}).") from None
    finally:
        optuna.logging.set_verbosity(optuna.logging.WARNING)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Returns an Optuna sampler by name.

    Raises:
        UnknownNameError: There is none of this name, or it needs more than a seed.
    """
    from optuna import samplers

    if name not in sampler_names():
        raise UnknownNameError("sampler", name, sampler_names())
    sampler: BaseSampler = _make(getattr(samplers, name), seed=seed)
    return sampler


def make_pruner(kind: str) -> BasePruner:
    """Returns the pruner of a study; a step of the pruner is a tuning seed."""
    from optuna.pruners import NopPruner, WilcoxonPruner

    if kind == "wilcoxon":
        return _make(WilcoxonPruner, p_threshold=0.1, n_startup_steps=4)
    return NopPruner()


def _make(kind: Callable[..., T], **arguments: float) -> T:
    """Calls one of Optuna's classes without the warning that it is new: the user chose it."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return kind(**arguments)
