"""Executor `ray`: attempts on an existing Ray cluster, or on a local one.

Ray carries an attempt to a node and nothing back but how it ended: workers write results to the
results folder, which every node must see under the same path. Ray's own retries are off, because
it would not tell the ledger.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import socket
import subprocess
import sys
import time
from typing import Any

from pacebench.harness.errors import MissingExtraError, UserError
from pacebench.harness.runner.attempt import Attempt, Ended
from pacebench.harness.runner.executors import ClusterExecutor
from pacebench.harness.runner.process import supervise

# Seconds within which a cluster must answer.
_PATIENCE = 20.0
_LOOK_EVERY = 2.0


class RayExecutor(ClusterExecutor):
    """Runs each attempt in a Ray task of one core.

    Attributes:
        slots: `workers`, or as many as the cluster has cores.

    Args:
        workers: How many attempts at a time; None for all cores of the cluster.
        address: The cluster's address; None starts one on this machine.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, workers: int | None, address: str | None) -> None:
        super().__init__()
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the executor 'ray'", "ray") from None
        self._ray: Any = ray
        self._own = not ray.is_initialized()
        if self._own:
            self._connect(workers, address)
        self.slots = workers or int(self._ray.cluster_resources().get("CPU", 1))
        self._task = ray.remote(num_cpus=1, max_retries=0)(supervise)
        self.failures = (ray.exceptions.RayError,)
        self._head = ray.get_runtime_context().gcs_address
        self._next_look = self._heard = time.monotonic()

    def _connect(self, workers: int | None, address: str | None) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _check_answers(address)
        try:
            if address is None:
                self._ray.init(num_cpus=workers, include_dashboard=False, **quiet)
            else:
                self._ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _no_cluster(address, str(error).strip().splitlines()[0]) from None

    def submit(self, attempt: Attempt) -> None:
        """Hands the attempt to Ray."""
        self._active[self._task.remote(attempt.model_dump_json())] = attempt

    def poll(self, timeout: float) -> list[Ended]:
        """Returns the attempts that ended, waiting at most `timeout` seconds for the first.

        Raises:
            UserError: The head of the cluster is gone; after a minute Ray would end this process.
        """
        self._check_head()
        if not self._active:
            return []
        waiting = list(self._active)
        ready, _ = self._ray.wait(waiting, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return self._ended(ready)

    def _check_head(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY
        host, _, port = self._head.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), timeout=_LOOK_EVERY).close()
            self._heard = now
        if now - self._heard > _PATIENCE:
            self._forget()
            raise UserError(
                f"the head of the Ray cluster at {self._head} has not answered for "
                f"{_PATIENCE:.0f} s; nothing that was recorded is lost: start a cluster, or leave "
                "out --executor ray, and run the same command again."
            )

    def _forget(self) -> None:
        """Leaves a cluster that is gone: Ray would wait for it on the way out, until it aborts."""
        self._active, self._own = {}, False
        atexit.unregister(self._ray.shutdown)
        sys.excepthook = sys.__excepthook__

    def _result(self, task: Any) -> str:
        return str(self._ray.get(task))

    def _lost(self, task: Any, error: Exception) -> str:
        return f"Ray lost the worker: {type(error).__name__}"

    def _cancel(self, task: Any) -> None:
        self._ray.cancel(task, force=True)

    def abandon(self, attempt: Attempt) -> bool:
        """Gives the attempt up: of a machine that vanished without a word, Ray tells nothing."""
        self._active = {k: other for k, other in self._active.items() if other is not attempt}
        return True

    def close(self) -> None:
        """Cancels what still runs; disconnects from a cluster that we connected to."""
        super().close()
        if self._own:
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Asks a cluster for its state, from another process: Ray itself would wait for minutes.

    Raises:
        UserError: It does not answer in time.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    began = time.monotonic()
    if port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, str(error)) from None
    if address.startswith("ray://"):
        return  # Ray's client has a timeout of its own.
    command = [sys.executable, "-m", "ray.scripts.scripts", "status"]
    command += [] if address == "auto" else ["--address", address]
    left = max(1.0, began + _PATIENCE - time.monotonic())
    try:
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=left
        )
    except subprocess.TimeoutExpired:
        raise _no_cluster(address, f"nothing for {_PATIENCE:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise _no_cluster(address, said[-1] if said else "no answer")


def _no_cluster(address: str | None, said: str) -> UserError:
    return UserError(
        f"--address {address}: no Ray cluster answers there ({said}); "
        "start one with `ray start --head`, or leave --address out."
    )
