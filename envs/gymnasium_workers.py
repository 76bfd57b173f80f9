"""Copies of a heavy environment, divided among worker processes that step at the same time."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from pacebench.envs.arrays import Picture
from pacebench.envs.errors import SetupError
from pacebench.envs.gymnasium_copies import CopySteps, EnvCopies
from pacebench.envs.setup import Setup


class WorkerCopies:
    """The interface of `EnvCopies`, carried out by processes that hold some of the copies each.

    A copy does the same there as here: its seeds and its contexts are sent to it.
    """

    def __init__(self, setup: Setup, count: int, render_mode: str | None, processes: int) -> None:
        self._parts = [part.tolist() for part in np.array_split(np.arange(count), processes)]
        self._owner = {i: (k, j) for k, part in enumerate(self._parts) for j, i in enumerate(part)}
        # Spawned, not forked: the parent may have threads.
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._workers = []
        for part in self._parts:
            ours, theirs = context.Pipe()
            args = (theirs, setup.to_dict(), len(part), render_mode)
            worker = context.Process(target=_serve, args=args, daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)
        described = [self._answer(pipe) for pipe in self._pipes]
        self.physics_space, self.action_box, self.fps = described[0]
        self._last = CopySteps.empty(count, self.physics_space)

    def write_into(self, buffers: CopySteps) -> None:
        """Lets steps fill these arrays from now on."""
        self._last = buffers

    def reset(self, indices: list[int], contexts: list[list[float]], seeds: list[int]) -> None:
        """Starts episodes."""
        shares: dict[int, list[tuple[int, list[float], int]]] = {}
        for i, context, seed in zip(indices, contexts, seeds, strict=True):
            k, j = self._owner[i]
            shares.setdefault(k, []).append((j, context, seed))
        for k, share in shares.items():
            self._pipes[k].send(("reset", tuple(map(list, zip(*share, strict=True)))))
        for k, share in shares.items():
            self._last.obs[[self._parts[k][j] for j, *_ in share]] = self._answer(self._pipes[k])

    def step(self, actions: Any) -> None:
        """Steps all copies."""
        for pipe, part in zip(self._pipes, self._parts, strict=True):
            pipe.send(("step", (actions[part],)))
        for pipe, part in zip(self._pipes, self._parts, strict=True):
            for ours, theirs in zip(self._last, self._answer(pipe), strict=True):
                ours[part] = theirs

    def dismiss(self, indices: list[int]) -> None:
        """Steps these copies no more until they are reset."""
        owners = [self._owner[i] for i in indices]
        for k, pipe in enumerate(self._pipes):
            pipe.send(("dismiss", ([j for owner, j in owners if owner == k],)))
        for pipe in self._pipes:
            self._answer(pipe)

    def render(self, index: int) -> Picture:
        """Returns a picture of one copy."""
        k, j = self._owner[index]
        self._pipes[k].send(("render", (j,)))
        return np.asarray(self._answer(self._pipes[k]))

    def close(self) -> None:
        """Ends the processes."""
        for pipe, worker in zip(self._pipes, self._workers, strict=True):
            pipe.close()
            worker.join(5)
            worker.kill()

    def _answer(self, pipe: Connection) -> Any:
        try:
            answer = pipe.recv()
        except EOFError:
            raise SetupError("a worker process of the environment ended unexpectedly.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection, setup: dict[str, Any], count: int, render_mode: str | None) -> None:
    """Does what the parent asks for until it closes its end."""
    try:
        copies = EnvCopies(Setup.from_dict(setup), count, render_mode)
        last = CopySteps.empty(count, copies.physics_space)
        copies.write_into(last)
        pipe.send((copies.physics_space, copies.action_box, copies.fps))
    except SetupError as error:
        pipe.send(error)
        return
    while True:
        try:
            what, arguments = pipe.recv()
        except EOFError:
            copies.close()
            return
        try:
            answer: Any = getattr(copies, what)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent raises it
            pipe.send(error)
            continue
        if what == "reset":
            answer = last.obs[arguments[0]]
        pipe.send(tuple(last) if what == "step" else answer)
