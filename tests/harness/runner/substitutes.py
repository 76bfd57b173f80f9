"""Training functions for tests of the runner: cheap, deterministic, and able to misbehave.

Workers import this module by name, so it stands alone. What a cell does is in the options of its
curriculum: `seconds` per evaluation point, and `fault` with the seed `indices` that have it.
Once the file that `WALK_AT_ONCE` names is there, points take no time.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacebench.harness.records import Checkpoint, Hooks, RunResult, Status
from pacebench.harness.seeding import RunRole, RunSeed
from pacebench.harness.study.specs import Cell

EPISODES = 20


def train(cell: Cell, seeds: Sequence[RunSeed], hooks: Hooks) -> list[RunResult]:
    """Walks randomly through the evaluation grid, all seeds side by side, as real learners do."""
    walks = [Walk(cell, seed, hooks.load(seed)) for seed in seeds]
    results = []
    for index, step in enumerate(cell.evaluation.steps):
        if os.path.exists(os.environ.get("WALK_DISK_FULL", "")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for walk in walks:
            if walk.step < step:
                _misbehave(cell.curriculum.options, walk.seed, index)
                walk.advance(step)
                hooks.save(walk.seed, walk.checkpoint())
        _pause(float(cell.curriculum.options.get("seconds", 0.0)))
        before = cell.evaluation.steps[index - 1] if index else 0
        hooks.progress((step - before) * len(seeds))
        if step == cell.budget:
            for walk in walks:
                results.append(walk.result())
                hooks.finished(results[-1])
        elif hooks.should_stop():
            break
    return results


def _pause(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists(os.environ.get("WALK_AT_ONCE", "")):
        time.sleep(min(0.05, seconds))


class Walk:
    """A run whose every number depends on all random draws before it."""

    def __init__(self, cell: Cell, seed: RunSeed, checkpoint: Checkpoint | None) -> None:
        self.cell, self.seed = cell, seed
        self.rng = seed.generator(RunRole.ENVIRONMENT)
        self.step, self.position = 0, 0.0
        self.returns = np.empty((0, EPISODES))
        self.steps: list[int] = []
        if checkpoint is not None:
            self.step = checkpoint.step
            self.returns = checkpoint.arrays["returns"]
            self.steps = list(checkpoint.state["steps"])
            self.position = checkpoint.state["position"]
            self.rng.bit_generator.state = checkpoint.state["rng"]

    def advance(self, step: int) -> None:
        self.position += float(self.rng.standard_normal(1000).sum())
        # Inside of what a point mass can return.
        walked = self.position + self.rng.standard_normal((1, EPISODES))
        fresh = 45 + 40 * np.tanh(walked / 100)
        self.returns = np.concatenate([self.returns, fresh])
        self.steps.append(step)
        self.step = step

    def checkpoint(self) -> Checkpoint:
        state = {
            "steps": self.steps,
            "position": self.position,
            "rng": self.rng.bit_generator.state,
        }
        return Checkpoint(step=self.step, arrays={"returns": self.returns}, state=state)

    def result(self) -> RunResult:
        rows = len(self.steps) * EPISODES
        flat = self.returns.reshape(-1)
        return RunResult(
            seed=self.seed,
            status=Status.OK,
            reason="",
            env_steps=self.step,
            evaluations={
                "step": [step for step in self.steps for _ in range(EPISODES)],
                "distribution": ["target"] * rows,
                "policy": ["deterministic"] * rows,
                "context": list(range(EPISODES)) * len(self.steps),
                "return": flat.tolist(),
                "discounted_return": (0.9 * flat).tolist(),
                "success": (flat > 0).tolist(),
                "length": [100] * rows,
            },
            updates=self._updates(),
            timings={"rollout": time.perf_counter() % 1.0},
            policy={"weights": self.returns[-1].astype(np.float32)},
        )

    def _updates(self) -> dict[str, list[Any]]:
        count = len(self.steps)
        mean = self.returns.mean(axis=1)
        others = [1.0] * (_dimension(self.cell.setup) - 1)
        return {
            "iteration": list(range(count)),
            "env_steps": self.steps,
            "episodes": [EPISODES] * count,
            "discarded": [0] * count,
            "mean": [[float(m), *others] for m in mean],
            "std": [[1.0, *others]] * count,
            "theta": [None] * count,
            "step": ["performance"] * count,
            "case": ["interior"] * count,
            "epsilon": [0.05] * count,
            "threshold": [None] * count,
            "mean_value": mean.tolist(),
            "slack": [None] * count,
            "predicted_value": [None] * count,
            "kl_step": [0.05] * count,
            "kl_target_forward": [1.0] * count,
            "kl_target_reverse": [1.0] * count,
            "ess": [float(EPISODES)] * count,
            "iterations": [3] * count,
            "accepted": [True] * count,
            "seconds": [time.perf_counter() % 1.0] * count,
        }


def _dimension(setup: str) -> int:
    if setup == "line":
        return 2
    from pacebench import envs

    return envs.setup(setup).dim


def _misbehave(options: dict[str, Any], seed: RunSeed, index: int) -> None:
    if seed.index not in options.get("indices", ()) or index < options.get("at", 0):
        return
    fault = options["fault"]
    print(f"about to have the fault: {fault}", flush=True)
    if fault == "raise":
        raise ZeroDivisionError("a method's own mistake")
    if fault == "exit":
        os._exit(1)
    if fault == "sys-exit":
        sys.exit(3)
    if fault == "segfault":
        ctypes.string_at(0)
    if fault == "allocate":
        _allocate_too_much()
    if fault == "allocate-at-once":
        np.ones(2**37)
    if fault == "sleep":
        time.sleep(3600)
    if fault == "once":
        _die_once(options["flag"])
    if fault == "mute":
        raise MuteError
    if fault == "babble":
        raise ValueError("\x1b[2J\ud800" + "x" * 10_000_000 + "\nand more")
    if fault == "print":
        _print_without_end()
    if fault == "threads":
        _start_threads()
    if fault == "lost-thread":
        _lose_a_thread()


class MuteError(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def _print_without_end() -> None:
    """Writes 128 mebibytes, half through Python and half past it."""
    line = "all work and no play " * 3 + "\n"
    block = (line * 4096).encode()
    for _ in range(2**26 // len(block)):
        os.write(1, block)
    for _ in range(2**26 // len(block)):
        print(line * 4096, end="", file=sys.stderr)
    raise ArithmeticError("said enough")


def _start_threads() -> None:
    """Starts threads that never end, until the machine has no more of them, or seems to."""
    for _ in range(int(os.environ.get("WALK_THREADS", 500))):
        threading.Thread(target=time.sleep, args=(3600,)).start()

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    threading.Thread.start = refuse  # type: ignore[method-assign]
    threading.Thread(target=time.sleep).start()


def _lose_a_thread() -> None:
    """Waits for a thread that had no memory left to say that it has begun."""

    def begin() -> None:
        raise MemoryError

    _thread.start_new_thread(begin, ())
    threading.Event().wait()


def _allocate_too_much() -> None:
    """Takes memory piece by piece; the pieces are touched, or they would cost nothing."""
    pieces = []
    for _ in range(10_000):
        pieces.append(np.ones(2**20))
        time.sleep(0.002)


def _die_once(flag: str) -> None:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(1)
