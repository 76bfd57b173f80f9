"""Who works on which search.

With a journal, processes share the folder it is in, and its leases. With a database they need not:
there a claim is a trial of a study beside the search, which one process alone can turn from waiting
to running, and which Optuna's heartbeat keeps alive. The first unfinished one counts, so that it
does no harm if two processes make one each.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pacebench.harness.runner.leases import LeaseLostError, Leases
from pacebench.harness.study.specs import digest
from pacebench.harness.tuning.storage import patiently, troubles, without_notices

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage


class SearchClaim(Protocol):
    """What a process holds while it works on a search."""

    def beat(self, steps: int, fresh: int) -> None:
        """Shows that its holder lives."""

    def check(self) -> None:
        """Raises `LeaseLostError` where another process has taken the search over."""

    def release(self) -> None:
        """Gives the search back."""


@dataclass
class DatabaseClaim:
    """A claim that the database keeps; see `SearchClaim`."""

    storage: RDBStorage
    trial_id: int

    def beat(self, steps: int, fresh: int) -> None:
        """Shows that its holder lives, as far as the database answers."""
        with contextlib.suppress(*troubles()):
            self.storage.record_heartbeat(self.trial_id)

    def check(self) -> None:
        """Makes sure that nobody has ended the claim.

        Raises:
            LeaseLostError: Somebody has, because this process looked dead.
        """
        if patiently(lambda: self.storage.get_trial(self.trial_id)).state.is_finished():
            raise LeaseLostError("the search was taken over by another process")

    def release(self) -> None:
        """Gives the search back; a claim that cannot be given back now expires."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        with contextlib.suppress(UpdateFinishedTrialError, *troubles()):
            self.storage.set_trial_state_values(self.trial_id, TrialState.COMPLETE, [0.0])


@dataclass
class SearchClaims:
    """Hands out searches, each to one process at a time.

    Attributes:
        leases: For storages without a heartbeat.
    """

    storage: BaseStorage
    leases: Leases

    def acquire(self, search: str) -> SearchClaim | None:
        """Returns a claim on a search that nobody works on; None where somebody does."""
        from optuna.storages import RDBStorage

        if isinstance(self.storage, RDBStorage):
            return _claim(self.storage, f"{search} claims")
        return self.leases.acquire(f"search-{digest(search)}", search=search)


def _claim(storage: RDBStorage, name: str) -> DatabaseClaim | None:
    import optuna
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    batons = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
    with without_notices():
        optuna.storages.fail_stale_trials(batons)
    open_ones = [t for t in batons.get_trials(deepcopy=False) if not t.state.is_finished()]
    if not open_ones:
        batons.enqueue_trial({})
        return _claim(storage, name)
    trial_id = open_ones[0]._trial_id
    # Before it is claimed: a claim without any heartbeat would never expire.
    if open_ones[0].state is TrialState.WAITING:
        storage.record_heartbeat(trial_id)
    with contextlib.suppress(UpdateFinishedTrialError):
        if storage.set_trial_state_values(trial_id, TrialState.RUNNING):
            return DatabaseClaim(storage, trial_id)
    return None


@contextlib.contextmanager
def kept(claim: SearchClaim, heartbeat: float) -> Iterator[None]:
    """Keeps a claim alive while its search is worked on, then gives it back."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(heartbeat):
            claim.beat(0, 0)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        claim.release()
