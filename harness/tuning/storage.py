"""Where trials are remembered: a journal file by default, any Optuna storage by its URL."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacebench.harness.errors import UserError
from pacebench.harness.study.space import sampler_names
from pacebench.registry import UnknownNameError

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

JOURNAL = "journal.log"


def open_storage(folder: Path, url: str | None = None) -> BaseStorage:
    """Opens the storage of a tuning.

    Args:
        folder: Where the journal file is, or is to be.
        url: An SQLAlchemy URL, such as `postgresql://user@host/name`, instead of the journal.

    Raises:
        UserError: The URL is malformed, its driver is missing, or nobody answers.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url is None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        folder.mkdir(parents=True, exist_ok=True)
        file = str(folder / JOURNAL)
        return JournalStorage(JournalFileBackend(file, lock_obj=JournalFileOpenLock(file)))
    return _open_url(url)


def _open_url(url: str) -> BaseStorage:
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        shown = make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        raise UserError(
            "--storage: not a storage URL; write it like postgresql://user@host/name."
        ) from None
    # Optuna logs a failed connection before it raises; one sentence is enough.
    logging.getLogger("optuna").setLevel(logging.CRITICAL)
    try:
        return RDBStorage(url, engine_kwargs={"connect_args": _timeout(url), "pool_pre_ping": True})
    except (ImportError, ModuleNotFoundError) as error:
        raise UserError(
            f"--storage {shown}: its database driver is missing ({_first_line(error)}); for "
            "PostgreSQL: pip install 'psycopg[binary]'."
        ) from None
    except SQLAlchemyError as error:
        reason = _first_line(getattr(error, "orig", None) or error)
        raise UserError(f"--storage {shown}: does not answer ({reason}).") from None
    finally:
        logging.getLogger("optuna").setLevel(logging.WARNING)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def _timeout(url: str) -> dict[str, Any]:
    return {"connect_timeout": 10} if url.startswith(("postgresql", "mysql")) else {}


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Returns an Optuna sampler by name.

    Raises:
        UnknownNameError: There is none of this name, or it needs more than a seed.
    """
    import optuna

    if name not in sampler_names():
        raise UnknownNameError("sampler", name, sampler_names())
    with warnings.catch_warnings():
        # The user chose it; that it is new to Optuna is nothing to act on.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler: BaseSampler = getattr(optuna.samplers, name)(seed=seed)
    return sampler


def make_pruner(kind: str) -> BasePruner:
    """Returns the pruner of a study; reports are per tuning seed, not per environment step."""
    import optuna

    if kind == "wilcoxon":
        return optuna.pruners.WilcoxonPruner(p_threshold=0.1, n_startup_steps=4)
    return optuna.pruners.NopPruner()
