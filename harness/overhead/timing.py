"""Times the updates of several curricula within one process, interleaved so that drift cancels.

A *pass* replays every instance once with one curriculum. Passes are dealt into rounds, each round
in a random order, and the whole sequence is then run backwards (ABBA): whatever grows linearly
through the process costs every curriculum the same. Quick curricula get a pass in every round, slow
ones in few. The state is restored before every update, outside the timed region. The time of an
instance is the median over the passes of one half, averaged over the two halves.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np

from pacebench import curricula
from pacebench.harness.overhead.cells import CLOCKS, BlockTimes
from pacebench.harness.overhead.instances import Floats, Instance

MAXIMUM_PASSES = 100


class Replay:
    """One curriculum, ready to make the update of each instance again and again.

    Args:
        name: Its registered name.
        instances: The updates that it makes.
        passes: How many passes it makes in either half of a block.
        warm: How many untimed updates a pass begins with. What ran before has filled the caches
            with its own, and a quick update would be charged for that, the more the fewer instances
            a pass has; its time would depend on the company it is measured in.
        slowdown: Every update is stretched to this multiple of its time by busy waiting; 1.05
            serves to see whether 5 % would be found.
    """

    def __init__(
        self,
        name: str,
        instances: Sequence[Instance],
        passes: int = 1,
        warm: int = 0,
        slowdown: float = 1.0,
    ) -> None:
        self.passes, self._warm, self._slowdown = passes, warm, slowdown
        self._cases = []
        for instance in instances:
            curriculum = instance.make(name)
            given = instance.given(curriculum)
            self._cases.append((curriculum, curriculum.state_dict(), given))

    def solve(self, index: int) -> tuple[curricula.UpdateRecord, Any]:
        """Makes one untimed update; returns its record and the distribution it led to."""
        curriculum, state, given = self._cases[index]
        curriculum.load_state_dict(state)
        record = curriculum.update(*given)
        return record, curriculum.distribution

    def time(self, index: int) -> tuple[float, float, float]:
        """Makes one update; returns its seconds of wall and CPU time, and those of its own step."""
        curriculum, state, given = self._cases[index]
        curriculum.load_state_dict(state)
        # The wall clock is read innermost: reading the CPU clock is a system call.
        cpu = process_time_ns()
        started = perf_counter_ns()
        record = curriculum.update(*given)
        elapsed = perf_counter_ns() - started
        if self._slowdown > 1.0:
            end = started + int(elapsed * self._slowdown)
            while perf_counter_ns() < end:
                pass
            elapsed = perf_counter_ns() - started
        # What the record says may be nothing at all, and a logarithm is taken of it.
        step = max(record.seconds, 1e-9)
        return elapsed * 1e-9, (process_time_ns() - cpu) * 1e-9, step

    def run(self) -> Floats:
        """Makes one pass; returns the seconds by all clocks, (instances, 3)."""
        count = len(self._cases)
        for n in range(self._warm):
            self.time((n - self._warm) % count)
        return np.array([self.time(i) for i in range(count)])


def schedule(passes: Mapping[str, int], rng: np.random.Generator) -> list[list[str]]:
    """Returns the labels round by round: every label its number of passes, spread evenly.

    The second half of the rounds is the first half backwards.
    """
    rounds = max(passes.values(), default=0)

    def dealt(done: int, count: int) -> int:
        # Half a share ahead, so that the only pass of a slow curriculum falls into the middle.
        return (2 * done * count + rounds) // (2 * rounds)

    half: list[list[str]] = []
    for r in range(rounds):
        due = [label for label, count in passes.items() if dealt(r + 1, count) > dealt(r, count)]
        half.append([due[i] for i in rng.permutation(len(due))])
    return [*half, *([*reversed(labels)] for labels in reversed(half))]


def time_block(replays: Mapping[str, Replay], rng: np.random.Generator) -> dict[str, BlockTimes]:
    """Times every contestant of one block, warmed up already, in the present process.

    Each makes its passes in either half, in an order that `rng` decides.
    """
    taken: dict[str, list[Floats]] = {label: [] for label in replays}
    # Garbage is collected between rounds: a collection of *other* objects would hit whichever
    # curriculum is running. What libraries made while they were imported is set aside.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for labels in schedule({label: r.passes for label, r in replays.items()}, rng):
            for label in labels:
                taken[label].append(replays[label].run())
            gc.collect()
    finally:
        gc.unfreeze()
        gc.enable()
    times = {}
    for label, runs in taken.items():
        halves = np.array(runs).reshape(2, replays[label].passes, -1, 3)
        middle = np.median(halves, axis=1).mean(axis=0).T
        digits = [tuple(float(f"{seconds:.5g}") for seconds in clock) for clock in middle]
        times[label] = dict(zip(CLOCKS, digits, strict=True))
    return times


def passes_for(seconds_per_update: float, instances: int, share: float) -> int:
    """Returns how many passes a curriculum makes in either half to use its share of seconds."""
    wanted = share / max(seconds_per_update * instances, 1e-9)
    return int(np.clip(round(wanted), 1, MAXIMUM_PASSES))
